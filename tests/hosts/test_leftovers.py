"""What a run leaves behind, wherever one might look: planted text is found on its host alone."""

from __future__ import annotations

import json
import os
import secrets
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

import pytest

from reconciler.hosts.ansible.executor import RunOptions, run_wave
from reconciler.hosts.ansible.inventory import write_inventory
from reconciler.hosts.ansible.run import environment
from reconciler.hosts.folders import short_folder
from reconciler.hosts.payload import carried
from reconciler.model.codec import encode
from reconciler.model.plan.work import Host, HostProgress, HostWork
from tests.harness.directory_host import (
    ENVIRONMENT,
    HOME,
    PLAYBOOKS,
    Wish,
    options,
    provide_item,
    step,
)
from tests.harness.sshd import ending, needs_sshd, sshd

pytestmark = [pytest.mark.walk, needs_sshd]

ROOT = Path(__file__).parents[2]
REACHED = "reached"
SLOW = f"""    import time
    open(os.path.join(request["root"], "..", {REACHED!r}), "w").close()
    time.sleep(300)
"""
CONTROLLER = """
import json, sys
from pathlib import Path
from reconciler.hosts.ansible.executor import run_wave
from reconciler.model.codec import decode
from reconciler.model.plan.work import Host, HostWork
from tests.harness.directory_host import *
told = json.load(sys.stdin)
steps = (step("allocation.provide", provide_item(environment=told["text"])),)
works = [HostWork(host=decode(Host, told["host"]), steps=steps)]
run_wave(works, options(Path(told["folder"]), playbooks=Path(told["playbooks"])), ignore, Wish())
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One host behind sshd, and a text that must be nowhere but on it."""

    folder: Path
    host: Host
    text: str

    @property
    def works(self) -> list[HostWork]:
        item = provide_item(environment=f"NAME={self.text}\n")
        return [HostWork(host=self.host, steps=(step("allocation.provide", item),))]

    @property
    def outside(self) -> Iterator[Path]:
        """Every file of the controller: the state with its runs, and what any part may leave."""
        places = (self.folder, short_folder(), Path.home() / ".ansible")
        for place in (*places, *Path("/tmp").glob("*ansible*")):
            for folder, _, files in os.walk(place):  # what goes meanwhile is passed over
                if not Path(folder).is_relative_to(self.host.root):
                    yield from (Path(folder, file) for file in files)

    def slow(self) -> RunOptions:
        """Code that does its work, says so in a file, and does not come to an end."""
        return options(self.folder, playbooks=ending(self.folder / "playbooks", SLOW))

    @property
    def reached(self) -> bool:
        return (self.folder / REACHED).exists()


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with sshd(tmp_path / "sshd") as server:
        one = server.host(tmp_path / "root")
        yield Scene(folder=tmp_path, host=one, text=f"planted-{secrets.token_hex(8)}")


def holding(text: str, files: Iterable[Path]) -> list[Path]:
    found = []
    for file in files:
        with suppress(OSError):
            if file.is_file() and text.encode() in file.read_bytes():
                found.append(file)
    return found


def in_processes(text: str) -> list[Path]:
    """Command lines and environments, which everybody or the same user may read."""
    return holding(text, Path("/proc").glob("[0-9]*/cmdline")) + holding(
        text, Path("/proc").glob("[0-9]*/environ")
    )


@contextmanager
def watched(scene: Scene) -> Iterator[set[tuple[str, int, int]]]:
    """Where the text lies meanwhile, as (name, mode, mode of its folder)."""
    seen: set[tuple[str, int, int]] = set()
    over = Event()

    def watch() -> None:
        while not over.wait(0.02):
            for file in holding(scene.text, scene.outside) + in_processes(scene.text):
                with suppress(OSError):
                    modes = [stat.S_IMODE(p.stat().st_mode) for p in (file, file.parent)]
                    seen.add((file.name, modes[0], modes[1]))

    thread = Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


def succeed(scene: Scene) -> None:
    (receipt,) = run_wave(scene.works, options(scene.folder), told_nothing_of(scene), Wish())
    assert receipt.ok
    assert scene.text not in repr(receipt)


def fail(scene: Scene) -> None:
    home = Path(scene.host.root, HOME.lstrip("/"))
    home.parent.mkdir()
    home.write_text("no folder")
    (receipt,) = run_wave(scene.works, options(scene.folder), told_nothing_of(scene), Wish())
    assert receipt.problem is not None and receipt.problem.code == "path_unsafe"
    assert scene.text not in repr(receipt)


def cancel(scene: Scene) -> None:
    class Watching:
        asked = False

        @property
        def forced(self) -> bool:
            return scene.reached

    (receipt,) = run_wave(scene.works, scene.slow(), told_nothing_of(scene), Watching())
    assert receipt.problem is not None and receipt.problem.code == "interrupted"
    assert scene.text not in repr(receipt)


def crash(scene: Scene) -> None:
    chosen = scene.slow()
    told = {
        "host": encode(scene.host),
        "text": f"NAME={scene.text}\n",
        "folder": str(scene.folder),
        "playbooks": str(chosen.playbooks),
    }
    controller = subprocess.Popen(
        [sys.executable, "-c", CONTROLLER], cwd=ROOT, stdin=subprocess.PIPE, text=True
    )
    assert controller.stdin is not None
    with controller.stdin:
        json.dump(told, controller.stdin)
    await_true(lambda: scene.reached)
    controller.kill()
    controller.wait()
    await_true(lambda: not holding(scene.text, scene.outside))


def told_nothing_of(scene: Scene) -> Callable[[HostProgress], None]:
    def take(progress: HostProgress) -> None:
        assert scene.text not in repr(progress)

    return take


def await_true(what: Callable[[], bool], seconds: float = 30) -> None:
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.mark.parametrize("end", [succeed, fail, cancel, crash])
def test_work_is_private_while_it_runs_and_gone_when_it_ends(
    scene: Scene, end: Callable[[Scene], None]
) -> None:
    """F-ANS-07, F-ANS-08: however a run ends, no text of its work is in the state, in /tmp, in a
    log, a receipt, a line of progress or a command line; meanwhile it is in private files alone.
    """
    with watched(scene) as seen:
        end(scene)
    assert "inventory.json" in {name for name, _, _ in seen}, "the watch has seen nothing"
    assert {(mode, folder) for _, mode, folder in seen} == {(0o600, 0o700)}, seen
    assert holding(scene.text, scene.outside) == []
    assert in_processes(scene.text) == []
    on_host = Path(scene.host.root, ENVIRONMENT.lstrip("/"))
    assert end is fail or scene.text in on_host.read_text()


@pytest.mark.parametrize("is_sound", [True, False])
def test_nothing_is_shown_by_whoever_asks_ansible_for_everything(
    scene: Scene, is_sound: bool
) -> None:
    """F-ANS-08: `-vvvv --diff`, with success and with a failure: digests, never content."""
    if not is_sound:
        home = Path(scene.host.root, HOME.lstrip("/"))
        home.parent.mkdir()
        home.write_text("no folder")
    inventory = write_inventory(
        scene.works,
        scene.folder,
        sockets=short_folder(),
        python=sys.executable,
        code=carried(PLAYBOOKS / "module_utils/gpuaas", "converge"),
    )
    done = subprocess.run(
        ["ansible-playbook", "-vvvv", "--diff", "-i", inventory, PLAYBOOKS / "converge.yml"],
        env=environment(PLAYBOOKS, scene.folder / "home"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "sha256:" in done.stdout or not is_sound
    assert (done.returncode == 0) is is_sound
    assert "receipts" in done.stdout
    assert scene.text not in done.stdout + done.stderr
