"""What comes after a spec was written: look at it, commit it, and see what follows."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from reconciler.cli.text import TextLine, line, strong


def lines(file: str, message: str, commit: str, *, is_new: bool) -> Iterator[TextLine]:
    """The commands that look at it, commit it, and show what follows."""
    if commit:
        yield line(f"Committed as {commit[:7]}. Nothing has happened yet; to see what follows:")
    else:
        yield line("Nothing has happened yet. Look at it, commit it, and see what follows:")
        if is_new:
            yield _command("git", "add", "--", file)
        cached = ("--cached",) if is_new else ()
        yield _command("git", "diff", *cached, "--", file)
        yield _command("git", "commit", "-m", message, "--", file)
    yield _command("gpuaas", "plan")


def _command(*words: str) -> TextLine:
    return line("  ", strong(shlex.join(words)))
