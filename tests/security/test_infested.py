"""A fleet that is full of hostile texts is planned, applied and shown; nothing of them is done."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from reconciler.cli.main import run
from reconciler.operations.specs import read_desired
from tests.harness.yard import Yard
from tests.security.infested import NAMES, UNSUPPORTED, founded

pytestmark = pytest.mark.walk

KNOWN = re.compile(r"[0-9A-Za-z._@:+-]+")
"""Names of files that gpuaas itself chooses, in a fleet and on its hosts."""

VIEWS = (
    ("plan",),
    ("plan", "--expand"),
    ("status",),
    ("events",),
    ("capacity",),
    ("node", "list"),
    ("slot", "list"),
    ("grant", "list"),
    ("ssh-config",),
    ("show", f"allocation/{NAMES[0]}/{NAMES[0]}"),
    ("show", f"project/{NAMES[0]}"),
    ("show", "user/user-3"),
    ("explain", f"allocation/{NAMES[0]}/{NAMES[0]}"),
    ("why", f"allocation/{NAMES[0]}/{NAMES[0]}"),
    ("why", "user/user-3"),
    ("evidence", f"allocation/{NAMES[0]}/{NAMES[0]}"),
    ("timeline", f"allocation/{NAMES[0]}/{NAMES[0]}"),
    ("activity", "--last", "1000"),
    ("doctor",),
)


@pytest.fixture(scope="module")
def applied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    yard = founded(tmp_path_factory.mktemp("infested"))
    done = yard.apply()
    assert set(done.blocked.values()) <= {"not_yet_supported"}, done.blocked
    assert done.document["exitCode"] in (0, 3), done.document["problems"]
    yield yard


def shown(yard: Yard, *words: str) -> tuple[int, str]:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run(["-C", str(yard.folder), *words])
    return code, out.getvalue() + err.getvalue()


def test_what_is_recorded_is_what_was_written(applied: Yard) -> None:
    """F-ANS-01: to the letter, whatever a template, a shell or a database would make of it."""
    desired, recorded = read_desired(applied.fleet()).resources, applied.world.recorded
    assert len(recorded) > 100
    for ref, resource in desired.items():
        if ref.kind not in UNSUPPORTED:
            assert recorded[ref].normal == resource.normal, ref


def test_nothing_was_made_but_what_gpuaas_makes(applied: Yard) -> None:
    """F-ANS-01: no file of another name, no link out, on the hosts or beside the state."""
    for path in applied.folder.rglob("*"):
        assert KNOWN.fullmatch(path.name), path
        if path.is_symlink():
            assert path.resolve().is_relative_to(applied.folder) or "standin" in str(path), path
    homes = {p.name.rpartition("-")[0] for p in applied.folder.glob("nodes/*/home/*")}
    assert homes <= {name[:24] for name in NAMES}
    assert homes


@pytest.mark.parametrize("words", VIEWS, ids=" ".join)
def test_no_view_steers_a_terminal(applied: Yard, words: tuple[str, ...]) -> None:
    code, text = shown(applied, *words)
    assert code in (0, 3), text
    assert text
    for line in text.split("\n"):
        assert line.isprintable(), line


def test_what_is_published_steers_nobody(applied: Yard) -> None:
    for path in Path(applied.folder, "published").rglob("*"):
        if path.is_file():
            for line in path.read_text(encoding="utf-8").split("\n"):
                assert line.isprintable(), (path, line)
