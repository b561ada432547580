"""`gpuaas validate`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from reconciler.cli.command import Reply, Session, command
from reconciler.cli.exit_codes import of_problems
from reconciler.cli.text import BLANK, Span, Style, TextLine, count, line
from reconciler.cli.views import problems as problems_view
from reconciler.operations import validate as validate_operation
from reconciler.operations.validate import Validated


@command("validate", "text", "json")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path), metavar="[PATH]...")
def validate(session: Session, paths: tuple[Path, ...]) -> Reply:
    """Check spec files and show every problem with its file and line.

    Without PATH, all files of the fleet are checked. With PATH, only these files are reported, but
    they are still checked against the whole fleet. The state and the hosts are not touched.
    """
    found = validate_operation.validate(session.folder, paths)
    return Reply(
        code=of_problems(found.problems),
        problems=found.problems,
        lines=_lines(found),
        result={
            "files": found.files,
            "documents": found.documents,
            "kinds": found.kinds,
            "ignored": found.ignored,
        },
    )


def _lines(found: Validated) -> Iterator[TextLine]:
    if found.problems:
        yield from problems_view.lines(found.problems)
        yield BLANK
    for name in found.ignored:
        yield line(f"ignored: {name}")
    kinds = " · ".join(f"{number} {kind}" for kind, number in found.kinds.items())
    sound = f"{count(found.documents, 'sound document')} in {count(found.files, 'file')}"
    yield line(f"{sound}: {kinds}" if kinds else sound, hang=2)
    errors = problems_view.counted(found.problems)
    failed = any(problem.is_error for problem in found.problems)
    yield line(Span(errors or "no problems", Style.BAD if failed else Style.GOOD))
