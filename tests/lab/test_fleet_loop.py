"""The loop on real hosts: a commit comes to them without a hand, and a unit of systemd keeps it up.

The control machine of the second part is one of the hosts: it has the program, the fleet's folder
and the key by mounts, and reaches the other two as anybody would.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.lab import place
from tests.lab.colony import Colony, allocation, founded, wait_until
from tests.lab.host import Host

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("loop")]

Fresh = Callable[..., AbstractContextManager[tuple[Host, ...]]]

ROOT = Path(__file__).parents[2]
TRAIN = allocation("vision/train", node="c2")
EVAL = allocation("vision/eval", node="c3")
GPT = allocation("nlp/gpt", node="c3")
UNIT = "gpuaas-reconcile.service"


@pytest.fixture(scope="module")
def fleet(fresh_hosts: Fresh) -> Iterator[Colony]:
    """Two hosts that are enrolled, and a third from which they may be controlled.

    Below /tmp a unit of systemd would not see the folder.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="loop-", dir=place.folder())))
        shared = (folder, ROOT, Path(sys.base_prefix), place.key().parent)
        hosts = stack.enter_context(fresh_hosts(3, {path: str(path) for path in shared}))
        colony = founded(folder, dict(zip(("c2", "c3"), hosts[1:], strict=True)))
        colony.control = hosts[0]  # type: ignore[attr-defined]
        colony.enrol()
        place.order("git", "init", "-q", "--bare", "-b", "main", folder / "fleet.git")
        settings = folder / "gpuaas.yaml"
        source = f"loop: {{source: {{url: {folder}/fleet.git, branch: main}}}}\n"
        settings.write_text(settings.read_text() + source)
        colony.commit()
        push(colony)
        yield colony


def push(fleet: Colony) -> None:
    place.order("git", "-C", fleet.folder, "push", "-q", fleet.folder / "fleet.git", "HEAD:main")


def said_by(fleet: Colony) -> dict[str, object]:
    """What the loop says of itself."""
    try:
        told: dict[str, object] = json.loads((fleet.folder / "state/loop.json").read_text())
    except (OSError, ValueError):
        return {}
    return told


@contextmanager
def loop(fleet: Colony, *words: str) -> Iterator[subprocess.Popen[str]]:
    """On this machine, until it is told to end."""
    program = Path(sys.executable).with_name("gpuaas")
    command = [str(program), "-C", str(fleet.folder), "reconcile", "--log-format", "json", *words]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            wait_until(lambda: said_by(fleet).get("pid") == process.pid, 30)
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()


def test_a_push_comes_to_a_host_without_a_hand(
    fleet: Colony, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the push to the login: what each phase took is printed."""
    with loop(fleet, "--watch", "--interval", "300s") as process:
        # Hosts are prepared and people are known before anybody wants a place.
        wait_until(lambda: not said_by(fleet).get("phase"), 120)
        fleet.write(TRAIN)
        fleet.commit()
        push(fleet)
        began = time.monotonic()
        wait_until(lambda: "vision/train" in fleet.refs, 60)
        login = time.monotonic() - began
        assert fleet.enter("vision/train", "ana", "id -un").returncode == 0
        told = said_by(fleet)["last"]
        with capsys.disabled():
            print(f"\npush to a login that works: {login:.1f} s; the round: {told}", flush=True)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert process.stderr is not None
        lines = [json.loads(line) for line in process.stderr]
    done = {line["about"]: line for line in lines if line["event"] == "done"}
    assert done["allocation/vision/train"]["commit"]
    assert done["allocation/vision/train"]["author"] == "olga"


def test_what_a_host_lost_is_mended_and_a_host_that_is_cut_off_delays_nobody(
    fleet: Colony,
) -> None:
    """F-REC-03, F-REC-10: over real ssh, where a silent host costs its timeout."""
    login = fleet.recorded("allocation/vision/train").login
    with loop(fleet, "--watch", "--interval", "5s"):
        fleet.machines["c3"].kill()
        fleet.machines["c2"].run("rm", f"/etc/gpuaas/ssh/{login}")
        fleet.gpuaas("reconcile", "--wake")
        wait_until(lambda: "node/c3" in str(said_by(fleet).get("last")), 420)
        fleet.machines["c3"].up(owner=os.getpid())
        fleet.machines["c3"].wait()
        host = fleet.machines["c2"]
        there = ("test", "-e", f"/etc/gpuaas/ssh/{login}")
        wait_until(lambda: host.run(*there, check=False).returncode == 0, 420)
        wait_until(lambda: "node/c3" not in str(said_by(fleet).get("last")), 420)
    assert fleet.enter("vision/train", "ana", "true").returncode == 0


def test_a_unit_of_systemd_controls_the_others(fleet: Colony) -> None:
    """Hardened as `gpuaas reconcile install` writes it: it verifies, is ready, restarts, stops."""
    control: Host = fleet.control  # type: ignore[attr-defined]
    program = Path(sys.executable).with_name("gpuaas")
    made = control.run(str(program), "-C", str(fleet.folder), "reconcile", "install")
    assert UNIT in made.stdout
    verified = control.run("systemd-analyze", "verify", UNIT)
    assert verified.stdout + verified.stderr == ""
    exposure = control.run("systemd-analyze", "security", "--no-pager", UNIT).stdout
    assert float(exposure.split("Overall exposure level")[1].split()[2]) <= 2.5
    control.run("systemctl", "daemon-reload")
    control.run("systemctl", "start", UNIT)
    assert control.run("systemctl", "is-active", UNIT).stdout == "active\n"

    fleet.write(EVAL)
    fleet.commit()
    push(fleet)
    control.run("systemctl", "kill", "--kill-whom=main", "--signal=SIGUSR1", UNIT)
    wait_until(lambda: "at work" in phase(fleet) or "vision/eval" in fleet.refs, 60)
    control.run("systemctl", "restart", UNIT)
    wait_until(lambda: "vision/eval" in fleet.refs, 120)
    assert fleet.enter("vision/eval", "cem", "true").returncode == 0

    fleet.write(GPT)
    fleet.commit()
    push(fleet)
    control.run("systemctl", "kill", "--kill-whom=main", "--signal=SIGKILL", UNIT)
    wait_until(lambda: "nlp/gpt" in fleet.refs, 120)
    assert fleet.enter("nlp/gpt", "bo", "true").returncode == 0

    began = time.monotonic()
    control.run("systemctl", "stop", UNIT)
    assert time.monotonic() - began < 60
    shown = control.run("systemctl", "show", "--property=Result,ActiveState", UNIT).stdout
    assert set(shown.split()) == {"Result=success", "ActiveState=inactive"}
    assert (
        control.run("journalctl", "-u", UNIT, "--no-pager", "-o", "cat").stdout.count("ended") >= 1
    )
    fleet.rests()


def phase(fleet: Colony) -> str:
    return str(said_by(fleet).get("phase", ""))
