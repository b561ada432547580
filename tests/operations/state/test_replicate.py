"""`state replicate`: a copy that is made while applies run, and the way back by it alone."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from reconciler.model.problem import ProblemError
from reconciler.model.settings import ReplicaSettings, Settings
from reconciler.model.state.event import Actor
from reconciler.operations.fleet import Fleet
from reconciler.operations.state.replicate import replica_of, unit
from tests.harness.replica_process import command, of_litestream, replicating, until
from tests.harness.yard import Yard
from tests.planner import fleet as paper

NEW_REF = "allocation/vision/new"


@pytest.mark.walk
def test_the_way_back_when_all_else_is_gone(yard: Yard, tmp_path: Path) -> None:
    """F-STA-01 F-STA-02 F-STA-06: copied while an apply runs; both are killed, the store is gone.

    What comes back knows what was done, and what it does not know it finds out.
    """
    copy = tmp_path / "elsewhere"
    settings = yard.folder / "gpuaas.yaml"
    settings.write_text(f"{settings.read_text()}replica: {{url: '{copy}'}}\n")
    claims = yard.claims
    with replicating(yard.folder, copy):
        second = command(yard.folder, "state", "replicate")
        _, told = second.communicate(timeout=30)
        assert (second.returncode, "state_locked" in told) == (1, True)
        yard.write(paper.allocation("new"))
        cut = command(yard.folder, "apply", "--auto-approve", GPUAAS_STOP_AT="finish_wave.before")
        cut.communicate(timeout=60)
        assert cut.returncode == -signal.SIGKILL, "the host has done its work, nobody knows"
        assert yard.gpuaas("state", "check").code == 0
        until(lambda: copied_claim(yard, copy, tmp_path))
        (engine,) = of_litestream(yard.folder)
        os.kill(engine, signal.SIGKILL)
    shutil.rmtree(yard.folder / "state")
    assert yard.plan().problems == ["state_missing"]

    back = yard.gpuaas("state", "restore", "--from-replica")
    assert back.code == 0, back.document
    assert oct((yard.folder / "state").stat().st_mode) == "0o40700"
    assert (yard.claims, yard.world.open_steps != ()) == (
        {**claims, f"{NEW_REF}@gpu02/s1": "held"},
        True,
    )
    assert yard.gpuaas("state", "check").code == 0
    (told,) = yard.rows("SELECT reason FROM event WHERE type = 'state_restored'")
    assert told == (f"restored from {copy}",)
    assert not list((yard.folder / "state/replica").glob("restored*"))
    assert yard.apply().code == 0
    assert yard.keys(NEW_REF) == ["ana/desk", "ana/laptop"]
    settled = yard.plan("--refresh", "--detailed-exitcode")
    assert (settled.code, settled.actions, yard.plan().plan["confirmed"]) == (0, {}, [])


def copied_claim(yard: Yard, copy: Path, tmp_path: Path) -> bool:
    """Whether the copy knows by now what was intended: it follows within a second or so."""
    looked = tmp_path / "looked"
    if not looked.exists():
        looked.mkdir()
        shutil.copy(yard.folder / "gpuaas.yaml", looked)
        shutil.copytree(yard.folder / "specs", looked / "specs")
    assert Yard(looked).gpuaas("state", "restore", "--from-replica").code == 0
    return any(NEW_REF in claim for claim in Yard(looked).claims)


@pytest.mark.walk
def test_as_it_was_at_a_moment(yard: Yard, tmp_path: Path) -> None:
    """F-STA-11: a copy knows every moment of a while, and a stranger's is refused."""
    copy = tmp_path / "elsewhere"
    with replicating(yard.folder, copy, "--to", str(copy)) as process:
        time.sleep(2.5)
        moment = yard.fleet().now().strftime("%Y-%m-%dT%H:%M:%SZ")
        time.sleep(1.5)
        yard.write(paper.allocation("new"))
        assert yard.apply().code == 0
        process.terminate()
        told, _ = process.communicate(timeout=40)
        assert (process.returncode, told) == (130, "all that was written is copied\n")
    after = yard.claims
    assert yard.gpuaas("state", "restore", f"--from-replica={copy}", "--at", moment).code == 0
    assert NEW_REF in " ".join(after) and NEW_REF not in " ".join(yard.claims)
    assert yard.gpuaas("state", "restore", f"--from-replica={copy}").code == 0
    assert yard.claims == after
    stranger = tmp_path / "stranger"
    stranger.mkdir()
    assert Yard(stranger).gpuaas("init").code == 0
    refused = Yard(stranger).gpuaas("state", "restore", f"--from-replica={copy}")
    assert (refused.code, refused.problems) == (1, ["state_foreign"])


def fleet(folder: Path, **replica: str) -> Fleet:
    settings = Settings(folder=str(folder), operators=("olga",), replica=ReplicaSettings(**replica))
    return Fleet(settings=settings, actor=Actor(name="olga"))


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("/backup/fleet", {"type": "file", "path": "/backup/fleet"}),
        ("backup/a b", {"type": "file", "path": "{folder}/backup/a b"}),
        ("file:///backup/x", {"type": "file", "path": "/backup/x"}),
        ("s3://bucket/path?region=eu", {"url": "s3://bucket/path?region=eu"}),
    ],
)
def test_places(tmp_path: Path, url: str, place: dict[str, str]) -> None:
    """F-ANS-01: a path is a path, and an address is handed on as it stands."""
    wanted = {key: value.format(folder=tmp_path) for key, value in place.items()}
    assert replica_of(fleet(tmp_path, url=url), "").place == wanted
    assert replica_of(fleet(tmp_path, url="/elsewhere"), url).place == wanted


def test_a_host_of_sftp_is_known_by_its_key(tmp_path: Path) -> None:
    """SEC-05: Litestream would trust whoever answers."""
    files = {"key_file": "keys/id", "host_key_file": "/etc/gpuaas/backup.pub"}
    found = replica_of(fleet(tmp_path, url="sftp://me@backup:2222/state", **files), "")
    assert found.place == {
        "url": "sftp://me@backup:2222/state",
        "key-path": f"{tmp_path}/keys/id",
        "host-key-path": "/etc/gpuaas/backup.pub",
    }


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("", "nobody says where to"),
        ("s3://key:secret@bucket/x", "password"),
        ("sftp://me:secret@backup/x", "password"),
        ("sftp://me@backup/x", "hostKeyFile"),
        ("state/copy", "would be lost together with the state"),
        ("file://{folder}/state", "would be lost together with the state"),
        ("specs/../state/copy", "would be lost together with the state"),
    ],
)
def test_places_that_are_none(tmp_path: Path, url: str, words: str) -> None:
    """SEC-05: refused with the reason, and without showing a secret."""
    with pytest.raises(ProblemError) as caught:
        replica_of(fleet(tmp_path, url=url.format(folder=tmp_path)), "")
    (problem,) = caught.value.problems
    assert problem.code == "replica_unsound"
    assert words in problem.message
    assert "secret" not in problem.message


def test_a_unit_for_systemd(tmp_path: Path) -> None:
    """F-ANS-01: names of folders are words in it, whatever they hold; none of it is expanded."""
    folder = tmp_path / 'fl"eet $HOME %n a\\b'
    folder.mkdir()
    text = unit(fleet(folder), "s3://bucket/%20x")
    lines = dict(line.partition("=")[::2] for line in text.splitlines() if "=" in line)
    program = Path(sys.executable).with_name("gpuaas")
    escaped = str(folder).replace("\\", "\\\\").replace('"', '\\"')
    escaped = escaped.replace("$", "$$").replace("%", "%%")
    assert lines["ExecStart"] == (
        f'"{program}" "-C" "{escaped}" "state" "replicate" "--to" "s3://bucket/%%20x"'
    )
    assert lines["User"] == "olga"
    assert lines["WorkingDirectory"] == str(folder).replace("%", "%%")
    if verify := shutil.which("systemd-analyze"):
        file = tmp_path / "gpuaas-replicate.service"
        file.write_text(text.replace("User=olga", "User=root"))
        done = subprocess.run([verify, "verify", str(file)], capture_output=True, text=True)
        assert "gpuaas-replicate" not in done.stderr


def test_a_unit_is_no_place_for_a_new_line(tmp_path: Path) -> None:
    """F-ANS-01: a name could otherwise add lines of its own."""
    folder = tmp_path / "fleet\nExecStartPre=x"
    folder.mkdir()
    with pytest.raises(ProblemError) as caught:
        unit(fleet(folder, url="/elsewhere"), "")
    assert caught.value.problems[0].code == "unit_unsound"
