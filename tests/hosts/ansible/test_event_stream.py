"""Streaming: what many events of a play, and many calls, take of memory and leave on disk."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from reconciler.hosts import workdir
from reconciler.hosts.ansible.events import LOG_LINES, RunListener
from reconciler.hosts.ansible.run import GUARD, PlayRequest, play
from tests.harness.directory_host import PLAYBOOKS

FEW, TIMES, SHOWN = 6, 10, 100_000
MARGIN = 4 << 20
"""Bytes; ten times as many events show two and a half times as much more than this."""

PLAYBOOK = "- hosts: all\n  gather_facts: false\n  tasks:\n"
TASK = "    - ansible.builtin.debug: {msg: \"{{ 'x' * %d }}\"}\n"


@dataclass
class Watch:
    """The most that a play has taken, looked at whenever its controller wakes up."""

    place: Path
    guard: int = 0
    disk: int = 0
    log: int = 0
    controller: int = field(default_factory=lambda: memory(os.getpid(), "VmRSS"))

    def look(self) -> bool:
        """No wish to stop."""
        for pid in guards():
            with suppress(OSError):
                self.guard = max(self.guard, memory(pid, "VmHWM"))
        with suppress(OSError):
            sizes = (path.stat().st_size for path in self.place.rglob("*") if path.is_file())
            self.disk = max(self.disk, sum(sizes))
        return False


def memory(pid: int, which: str) -> int:
    """Bytes, as the kernel counts them."""
    found = re.search(rf"{which}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return 1024 * int(found[1]) if found else 0


def guards() -> Iterator[int]:
    """This process' guard, and the process that it runs Ansible from."""
    mine = {os.getpid()}
    for path in sorted(Path("/proc").glob("[0-9]*"), key=lambda path: int(path.name)):
        with suppress(OSError):
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            if parent in mine and str(GUARD).encode() in (path / "cmdline").read_bytes():
                mine.add(int(path.name))
                yield int(path.name)


def played(folder: Path, tasks: int) -> Watch:
    """One host, so many tasks, each with much to show."""
    place, playbooks = folder / "place", folder / "playbooks"
    (place / "ansible").mkdir(parents=True)
    playbooks.mkdir()
    shutil.copy(PLAYBOOKS / "ansible.cfg", playbooks)
    shutil.copytree(PLAYBOOKS / "action_plugins", playbooks / "action_plugins")
    (playbooks / "converge.yml").write_text(PLAYBOOK + TASK % SHOWN * tasks)
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    inventory = place / "ansible" / "inventory.json"
    inventory.write_text(json.dumps({"all": {"hosts": {"node-gpu01": local}}}))
    watch = Watch(place=place)
    request = PlayRequest(
        place=place, playbooks=playbooks, inventory=inventory, forks=1, budgets={"gpu01": 120}
    )
    done = play(request, RunListener(on_start=lambda node: None), watch.look)
    assert done.status == "successful", done.log
    watch.controller = memory(os.getpid(), "VmRSS") - watch.controller
    watch.log = done.log.count("\n")
    return watch


@pytest.mark.walk
def test_ten_times_the_events_take_no_more(tmp_path: Path) -> None:
    """F-ANS-12: events are told as they come: guard, controller and disk stay as they were."""
    few, many = (played(tmp_path / str(number), number) for number in (FEW, FEW * TIMES))
    assert few.guard > 10 << 20, "it was looked at"
    assert many.guard < few.guard + MARGIN
    assert many.controller < few.controller + MARGIN
    # What is on its way from a task to us may lie there for a moment.
    assert many.disk < few.disk + FEW * SHOWN
    assert many.log <= LOG_LINES


def test_names_of_connections_that_died_are_taken_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that somebody listens at stay, by the other name as well that ssh gives them."""
    monkeypatch.setattr(workdir, "short_folder", lambda: tmp_path)
    names = {name: tmp_path / name for name in ("dead", "young", "living", "given")}
    with closing(bound(names["living"])), closing(bound(tmp_path / "given.Ab12")):
        (tmp_path / "given.Ab12").rename(names["given"])
        for name in ("dead", "young"):
            bound(names[name]).close()
        (tmp_path / "file").touch()
        for path in tmp_path.iterdir():
            if path.name != "young":
                os.utime(path, (1_000, 1_000))
        workdir.clear_sockets()
        assert {path.name for path in tmp_path.iterdir()} == {"file", "young", "living", "given"}


def bound(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    listener.listen()
    return listener
