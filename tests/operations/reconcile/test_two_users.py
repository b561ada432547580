"""A state is one account's: others are told so, and leave nothing there that is in its way."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml

from tests import privileges
from tests.harness.own_process import program, script
from tests.harness.yard import ROOT, Yard, copy_of
from tests.privileges import FOREIGN

pytestmark = [pytest.mark.walk, privileges.needs(privileges.giving_away)]

OWNER, OTHER = FOREIGN - 1, FOREIGN
COMMANDS = (
    ("status",),
    ("plan",),
    ("plan", "--refresh"),
    ("apply",),
    ("doctor",),
    ("approvals",),
    ("approve", "abcdef", "--reason", "x"),
    ("suspend", "loop", "--reason", "x"),
    ("reconcile", "--once"),
    ("reconcile",),
    ("reconcile", "accept", "1234567", "--reason", "x"),
)


@pytest.fixture
def fleet(applied: Yard) -> Iterator[Yard]:
    """In a folder that everybody may look into; its state is its owner's alone.

    No host is due: Python may lie where only root may enter, and then this account cannot ask one.
    """
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yard = copy_of(applied, Path(folder, "fleet"))
        os.chmod(yard.folder, 0o755)
        shutil.rmtree(yard.folder / "state/source", ignore_errors=True)
        for name in ("cache.db", "cache.db-wal", "cache.db-shm", "loop.lock"):
            (yard.folder / "state" / name).unlink(missing_ok=True)
        settings = {"operators": ["olga"], "loop": {"observeSeconds": 86_400}}
        (yard.folder / "gpuaas.yaml").write_text(yaml.safe_dump(settings))
        yard.commit()
        for path in (yard.folder, *yard.folder.rglob("*")):
            os.chown(path, OWNER, OWNER, follow_symlinks=False)
        yield yard


def account(uid: int) -> tuple[str, ...]:
    """What to put before a command that is to be somebody else's."""
    change = ("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups")
    return change if uid else ()


def words(uid: int, yard: Yard, *command: str) -> list[str]:
    return [*account(uid), *program(), "-C", str(yard.folder), *command]


def environment(yard: Yard) -> Mapping[str, str]:
    more = {"PYTHONPATH": str(ROOT), "HOME": "/nonexistent", "PYTHONDONTWRITEBYTECODE": "1"}
    return {**os.environ, **more, "GPUAAS_SAFE_DIRECTORY": str(yard.folder)}


def run(uid: int, yard: Yard, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words(uid, yard, *command),
        cwd="/",
        env=environment(yard),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


IN_TURN = """
import contextlib, io, json, sys
from reconciler.cli.main import run
found = []
for words in json.loads(sys.argv[1]):
    with contextlib.redirect_stderr(io.StringIO()) as told:
        found.append((run(words), told.getvalue()))
print(json.dumps(found))
"""


def in_turn(uid: int, yard: Yard) -> list[tuple[int, str]]:
    """The exit code of each of the commands and what it told, all in one process of an account."""
    every = json.dumps([("-C", str(yard.folder), *command) for command in COMMANDS])
    done = subprocess.run(
        [*account(uid), sys.executable, "-c", script(IN_TURN), every],
        cwd="/",
        env=environment(yard),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    found: list[tuple[int, str]] = json.loads(done.stdout)
    return found


def left(yard: Yard) -> Mapping[str, tuple[int, int]]:
    """Who has what in the state, and with which mode."""
    found = {}
    for path in (yard.folder / "state").rglob("*"):
        about = path.lstat()
        found[str(path.relative_to(yard.folder))] = (about.st_uid, stat.S_IMODE(about.st_mode))
    return found


def shown(yard: Yard) -> None:
    """To a group, as somebody may do by hand."""
    for path in (yard.folder / "state", *(yard.folder / "state").rglob("*")):
        os.chown(path, OWNER, OTHER, follow_symlinks=False)
        mode = stat.S_IMODE(path.lstat().st_mode)
        os.chmod(path, mode | (0o050 if path.is_dir() else 0o040))


def assert_refused(yard: Yard, uid: int, *, why: str) -> None:
    before = left(yard)
    for command, (code, told) in zip(COMMANDS, in_turn(uid, yard), strict=True):
        assert code == 1, (command, told)
        assert "Traceback" not in told
        assert why in told, (command, told)
        assert "rm -r" not in told
    assert left(yard) == before


@pytest.mark.parametrize("looped", [False, True], ids=["before", "after"])
def test_root_leaves_nothing_in_the_way_of_the_account_that_runs_the_loop(
    fleet: Yard, looped: bool
) -> None:
    """Its lock, its copy of the source and its cache are made by whoever the state belongs to."""
    if looped:
        assert run(OWNER, fleet, "reconcile", "--once").returncode == 0
    assert_refused(fleet, 0, why="you are root [state_unsafe_place]")
    done = run(OWNER, fleet, "reconcile", "--once")
    assert done.returncode == 0, done.stderr
    owners = {owner for owner, _ in left(fleet).values()}
    assert owners == {OWNER}


def test_who_may_not_look_into_it_is_told_so(fleet: Yard) -> None:
    assert run(OWNER, fleet, "reconcile", "--once").returncode == 0
    assert_refused(fleet, OTHER, why="Permission denied [os_refused]")


def test_who_may_read_it_is_told_whose_it_is(fleet: Yard) -> None:
    assert run(OWNER, fleet, "reconcile", "--once").returncode == 0
    shown(fleet)
    assert_refused(fleet, OTHER, why=f"you are uid {OTHER} [state_unsafe_place]")
    assert run(OWNER, fleet, "reconcile", "--once").returncode == 0


@pytest.mark.parametrize("may_read", [False, True])
def test_a_loop_of_somebody_else_is_not_said_to_be_none(fleet: Yard, may_read: bool) -> None:
    """Unknown is not absent: whoever may not wake it would else begin another one."""
    command = words(OWNER, fleet, "reconcile", "--interval", "300s")
    with subprocess.Popen(
        command, cwd="/", env=environment(fleet), stderr=subprocess.PIPE
    ) as process:
        try:
            end = time.monotonic() + 30
            while '"nextAt": "2' not in read(fleet.folder / "state/loop.json"):
                assert time.monotonic() < end and process.poll() is None
                time.sleep(0.05)
            if may_read:
                shown(fleet)
            done = run(OTHER, fleet, "reconcile", "--wake")
            assert done.returncode == 1
            assert "the loop cannot be woken by this user" in done.stderr
            assert run(OWNER, fleet, "reconcile", "--wake").returncode == 0
            assert run(0, fleet, "reconcile", "--wake").returncode == 0
        finally:
            process.send_signal(signal.SIGTERM)
            _, told = process.communicate(timeout=60)
    assert process.returncode == 0, told


def read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
