"""Any bytes as a spec file: documents, resources, links, a plan and its views – or problems.

Whatever the bytes are, nothing but problems comes of what is wrong with them, each with a code and
a place in the file; what is right is written out and read again as it was; and time and memory
stay in proportion to the length.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from reconciler import shipped
from reconciler.cli.text import render
from reconciler.cli.views import plan_json, plan_markdown, plan_text
from reconciler.cli.views import problems as problems_view
from reconciler.model.codes import CODES
from reconciler.model.problem import Problem, ProblemError
from reconciler.model.spec.desired import Desired
from reconciler.specs.edit.edit import entry_added
from reconciler.specs.edit.yaml_writer import document as emitted
from reconciler.specs.read.check_file import CheckedFile, Judge
from reconciler.specs.read.links import link
from reconciler.specs.read.loader import Loaded
from reconciler.specs.read.text import split_lines, with_text
from reconciler.specs.read.yaml_reader import Located, read_documents
from reconciler.specs.settings import parse_settings
from tests.planner import fleet as paper
from tests.planner.walk import make_plan, settled
from tests.security.corpus import HOSTILE, NO_TEXT
from tests.security.fields import samples

ROOT = Path(__file__).parents[2]
FILE = "specs/fuzzed.yaml"
SCHEMAS = shipped.schemas()
JUDGE = Judge(SCHEMAS)
DOCUMENTS = [*paper.base_fleet(nodes=1, slots=2), paper.allocation("train")]
BASE = paper.desired(DOCUMENTS).resources
WORLDS = (paper.world(paper.desired(DOCUMENTS)), settled(DOCUMENTS))

REPEATED = re.compile(rb"# ([0-9]{1,5}) times\n")
LARGEST = 200_000
"""An input may ask to be repeated: what grows faster than its length shows in large ones."""
LONGEST_LINE = 1000
SECONDS, SECONDS_EACH = 3.0, 1e-4
EDITED = 2048
LONGEST_KEY = 128
"""YAML wants longer ones written in another way, and no field has one."""


def look(data: bytes) -> None:
    content = repeated(data)
    begin = time.process_time()
    judged = JUDGE.judge(FILE, content)
    located = {one.document.index: one for one in read_documents(FILE, content).documents}
    check_problems(judged.problems, content)
    check_settings(content)
    for one in located.values():
        check_written(one)
    with suppress(ProblemError):
        for index in [*located][: len(content) < EDITED]:
            entry_added(FILE, content, index, ("spec", "approvals"), {"by": "olga"})
    if judged.resources:
        check_plan(judged, located, content)
    spent = time.process_time() - begin
    assert spent < SECONDS + SECONDS_EACH * len(content), f"{spent:.1f} s"


def repeated(data: bytes) -> bytes:
    if match := REPEATED.match(data):
        rest = data[match.end() :]
        return rest * max(1, min(int(match[1]), LARGEST // max(1, len(rest))))
    return data


def check_problems(problems: tuple[Problem, ...], content: bytes) -> None:
    lines = split_lines(content)
    for problem in problems:
        assert problem.code in CODES, problem
        source = problem.source
        assert source is not None and source.file == FILE and source.document >= 0, problem
        assert 1 <= source.line <= len(lines), problem
        assert 1 <= source.column <= len(lines[source.line - 1]) + 1, problem
        for line in problems_view.one(problem):
            check_line(render(line))


def check_line(shown: str) -> None:
    assert shown.isprintable(), shown
    assert len(shown) < LONGEST_LINE, shown


def check_settings(content: bytes) -> None:
    try:
        parse_settings(Path("/nowhere"), content, SCHEMAS["settings"])
    except ProblemError as error:
        assert error.problems
        assert all(problem.code in CODES for problem in error.problems)


def check_written(located: Located) -> None:
    """What we write of it reads as it did."""
    value = json.loads(json.dumps(located.document.value))
    if value and max(map(len, _keys(value))) <= LONGEST_KEY:
        again = read_documents(FILE, emitted(value).encode())
        assert not again.problems, again.problems
        assert [one.document.value for one in again.documents] == [value]


def _keys(value: Any) -> Iterator[str]:
    for key, item in value.items() if isinstance(value, dict) else ():
        yield key
        yield from _keys(item)
    for item in value if isinstance(value, list) else ():
        yield from _keys(item)


def check_plan(judged: CheckedFile, located: dict[int, Located], content: bytes) -> None:
    """Beside a fleet, empty and applied, that they may change in any way."""
    own = {one.ref for one in judged.resources} | {ref for ref, _ in judged.frozen}
    others = [one for ref, one in BASE.items() if ref not in own]
    loaded = Loaded(resources=others)
    loaded.add(judged)
    linked = link(paper.SETTINGS, loaded)
    placed = [_placed(one, located) for one in linked.problems if _is_ours(one)]
    check_problems(with_text(placed, content), content)
    desired = Desired(
        settings=paper.SETTINGS,
        resources=linked.resources,
        digest="",
        frozen=linked.frozen,
        broken=frozenset(loaded.broken),
        problems=(*judged.problems, *linked.problems),
    )
    for world in WORLDS:
        made = make_plan(desired, world)
        assert all(change.problem.code in CODES for change in made.changes if change.problem)
        for line in plan_text.lines(made):
            assert render(line).isprintable()
        assert all(map(str.isprintable, plan_markdown.text(made).split("\n")))
        json.dumps(plan_json.view(made), allow_nan=False)


def _is_ours(problem: Problem) -> bool:
    return problem.source is not None and problem.source.file == FILE


def _placed(problem: Problem, located: dict[int, Located]) -> Problem:
    source = problem.source
    if source is None or source.line:
        return problem
    return problem.at(located[source.document].source(source.path))


def seeds() -> Iterator[bytes]:
    for folder in ("docs/reference/examples", "specs", "templates/starter/specs"):
        for path in sorted((ROOT / folder).rglob("*.yaml")):
            yield path.read_bytes()
    for sample in samples():
        yield json.dumps(sample.value, indent=1).encode()
        yield emitted(sample.value).encode()
        for field in sample.fields[::20]:
            yield sample.written({field: "{{ 7*7 }}"}).content
    yield b"# 900 times\n---\n" + emitted(DOCUMENTS[0]).encode()
    yield b"# 900 times\n- a\n"
    yield b"# 900 times\na: 1\n"
    yield b"a: &a [x, &b {c: *a, <<: *b}]\n--- |\n text\n... # end\n%YAML 1.1\n---\n! !!x 'a'\n"
    yield from (b"a: " + text for text in NO_TEXT)


def words() -> Iterator[bytes]:
    found: set[str] = {
        "apiVersion: gpuaas/v1\n",
        "\n---\n",
        "...\n",
        "<<: *a",
        "&a ",
        "*a",
        "!!str ",
    }
    found |= {"# 900 times\n", "metadata: {name: a, project: vision}\n", "spec:\n", "|-\n ", "? "}
    for text in SCHEMAS.values():
        found |= set(_named(json.loads(text)))
    yield from sorted(word.encode() for word in found)
    yield from (text.encode() for text in HOSTILE if 0 < len(text) < 40)
    yield from NO_TEXT


def _named(schema: Any) -> Iterator[str]:
    """Fields and choices, as they stand in a file."""
    if isinstance(schema, dict):
        yield from (f"{name}: " for name in schema.get("properties", {}))
        yield from (str(one) for one in schema.get("enum", ()) if one != "")
        for inner in schema.values():
            yield from _named(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from _named(inner)
