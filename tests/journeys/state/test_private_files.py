"""What lies on the control machine is readable by its user alone, while it is written as well."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.cli.main import run
from reconciler.hosts.folders import short_folder
from reconciler.model.plan.plan import Plan, fingerprint
from reconciler.model.problem import ProblemError
from reconciler.model.spec.revision import Revision
from reconciler.operations.plan.plan import signer
from reconciler.operations.plan.saved import read_plan, save_plan
from tests import privileges
from tests.harness.yard import Yard, copy_of

FOR_OTHERS = stat.S_IRWXG | stat.S_IRWXO
BY_OTHERS = (0o620, 0o602, 0o666)


def exposed(folder: Path) -> set[str]:
    """Everything at and below a folder that its user is not alone with, and its mode."""
    found = set()
    for place, folders, files in os.walk(folder):
        for path in (Path(place), *(Path(place, name) for name in (*folders, *files))):
            try:
                mode = path.lstat().st_mode
            except FileNotFoundError:
                continue
            if mode & FOR_OTHERS and not stat.S_ISLNK(mode):
                found.add(f"{path.relative_to(folder)} {mode:o}")
    return found


@contextmanager
def watched(folder: Path, *, calls: tuple[Path, str] | None = None) -> Iterator[set[str]]:
    """What is exposed at any moment in here, below a folder and in those of calls to hosts."""
    found: set[str] = set()
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.002):
            for place in (folder, *(calls[0].glob(calls[1]) if calls else ())):
                found.update(exposed(place))

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield found
    finally:
        over.set()
        watcher.join()


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@pytest.mark.walk
@pytest.mark.ansible
@pytest.mark.parametrize("mask", [0o000, 0o077])
def test_everything_of_the_state_is_private_at_every_moment(
    before: Yard, tmp_path: Path, mask: int
) -> None:
    """SEC-05, F-ANS-07: database, its logs, snapshots, runs, cache, lock and copies, whatever the
    umask is; what is published is for others to read, and hosts are as they are with any umask.
    """
    tmp_path.chmod(0o755)
    yard = copy_of(before, tmp_path / "yard")
    (yard.folder / "gpuaas.yaml").write_text("operators: [olga]\npublish: {dir: public}\n")
    yard.commit()
    copy, plan = str(yard.folder / "copy.db"), str(yard.folder / "own.plan")
    steps = (
        ("plan", "--refresh", "--save", plan),
        ("apply", plan, "--auto-approve=destroys"),
        ("state", "backup", copy),
        ("state", "restore", copy),
        ("plan", "--refresh"),
    )
    calls = (short_folder(), f"call-{os.getpid()}-*")
    with umask(mask), watched(yard.folder / "state", calls=calls) as seen:
        for words in steps:
            said = yard.gpuaas(*words)
            assert said.code == 0, (words, said.document["problems"])
    assert seen == exposed(yard.folder / "state") == set()
    for file in (copy, plan, f"{yard.folder}/.gpuaas/descriptor.key"):
        assert stat.S_IMODE(os.stat(file).st_mode) == 0o600, file
    public = yard.folder / "public/vision"
    assert {stat.S_IMODE(file.stat().st_mode) for file in public.iterdir()} == {0o644}


@pytest.mark.parametrize("mask", [0o000, 0o077])
def test_a_new_fleet_begins_private(tmp_path: Path, mask: int) -> None:
    tmp_path.chmod(0o755)
    folder = tmp_path / "fleet"
    folder.mkdir(mode=0o755)
    with umask(mask), watched(folder) as seen:
        assert run(["-C", str(folder), "init"]) == 0
    ours = {name for name in seen if name.startswith(("state", ".gpuaas"))}
    assert {name for name in ours if not name.startswith("state/hosts")} == set()
    assert stat.S_IMODE((folder / "state").stat().st_mode) == 0o700


def a_plan() -> Plan:
    made = Plan(
        revision=Revision(),
        desired_digest="",
        state_id="s",
        serial=1,
        made_at="2026-11-27T12:00:00Z",
        fingerprint="",
    )
    return replace(made, fingerprint=fingerprint(made))


def refusal(work: object, *arguments: object) -> str:
    with pytest.raises(ProblemError) as caught:
        work(*arguments)  # type: ignore[operator]
    (problem,) = caught.value.problems
    assert problem.hint
    return problem.code


def test_a_plan_that_somebody_else_may_have_changed_is_not_applied(tmp_path: Path) -> None:
    """F-PLN-05: what was looked at may be another by now, and the digest in it as well."""
    file = tmp_path / "one.plan"
    save_plan(a_plan(), file)
    assert read_plan(file) == a_plan()
    for mode in BY_OTHERS:
        file.chmod(mode)
        assert refusal(read_plan, file) == "plan_exposed"
    file.chmod(0o644)
    assert read_plan(file) == a_plan()
    os.mkfifo(tmp_path / "pipe")
    assert refusal(read_plan, tmp_path / "pipe") == refusal(read_plan, tmp_path) == "plan_damaged"


@privileges.needs(privileges.giving_away)
def test_a_plan_of_somebody_else_is_not_applied(tmp_path: Path) -> None:
    file = tmp_path / "one.plan"
    save_plan(a_plan(), file)
    os.chown(file, 65534, -1)
    assert refusal(read_plan, file) == "plan_exposed"


def test_a_plan_is_saved_through_no_link(tmp_path: Path) -> None:
    """In a folder that others write to they may have laid one out under a name of ours."""
    (tmp_path / "precious").write_text("x")
    for name in ("one.plan", "one.plan.partial"):
        (tmp_path / name).symlink_to("precious")
    save_plan(a_plan(), tmp_path / "one.plan")
    assert (tmp_path / "precious").read_text() == "x"
    assert read_plan(tmp_path / "one.plan") == a_plan()
    assert sorted(os.listdir(tmp_path)) == ["one.plan", "one.plan.partial", "precious"]


def test_a_key_that_others_can_read_signs_nothing(tmp_path: Path) -> None:
    """Rule 21: its signature would prove nothing; nor would that of a key of no length."""
    tmp_path.chmod(0o755)
    assert run(["-C", str(tmp_path), "init"]) == 0
    sign, key = signer(Yard(tmp_path).fleet()), tmp_path / ".gpuaas/descriptor.key"
    assert len(sign("text")) == 64
    for mode in (*BY_OTHERS, 0o640, 0o604):
        key.chmod(mode)
        assert refusal(sign, "text") == "descriptor_key_exposed"
    key.chmod(0o400)
    assert len(sign("text")) == 64
    key.chmod(0o600)
    for content in ("", "\n", "00", "no number", "ab" * 31):
        key.write_text(content)
        assert refusal(sign, "text") == "descriptor_key_missing", content
