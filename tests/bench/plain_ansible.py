"""Ansible as it is mostly written: a task for each operation, no facts, connections kept."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.bench.measuring import environment
from tests.bench.peer_work import Work
from tests.harness.sshd import Sshd

PROGRAM = str(Path(sys.executable).with_name("ansible-playbook"))
SETTINGS = """
[defaults]
gathering = explicit
forks = 16
[ssh_connection]
pipelining = True
ssh_args = -F none -o ControlMaster=auto -o ControlPersist=300 -o UserKnownHostsFile={pins}
"""


def one_play(folder: Path, server: Sshd, works: Sequence[Work], factor: float) -> float:
    """Seconds for `factor` times these hosts; the start of Ansible counts once."""
    lay(folder, server, works)
    tasks = [task for which in range(len(works[0].allocations)) for task in tasks_of(which, works)]
    start = play(folder, [])
    return start + factor * (play(folder, tasks) - start)


def play_each(folder: Path, server: Sshd, works: Sequence[Work]) -> float:
    """Seconds for a playbook after the other, one for each allocation."""
    lay(folder, server, works)
    return sum(
        play(folder, tasks_of(which, works), one.address)
        for one in works
        for which in range(len(one.allocations))
    )


def lay(folder: Path, server: Sshd, works: Sequence[Work]) -> None:
    folder.mkdir()
    common = {
        "ansible_user": "root",
        "ansible_port": server.port,
        "ansible_ssh_private_key_file": str(server.login_key),
        "ansible_python_interpreter": "/usr/bin/python3",
    }
    hosts = {work.address: {**common, "allocations": work.allocations} for work in works}
    (folder / "inventory.json").write_text(json.dumps({"all": {"hosts": hosts}}))
    pins = server.pins([work.address for work in works])
    (folder / "ansible.cfg").write_text(SETTINGS.format(pins=pins))


def tasks_of(which: int, works: Sequence[Work]) -> list[dict[str, Any]]:
    folders, files = works[0].allocations[which]
    for_folders = [
        {"ansible.builtin.file": {"path": path, "mode": mode, "state": "directory"}}
        for path, mode in (words(which, 0, at, 2) for at in range(len(folders)))
    ]
    for_files = [
        {"ansible.builtin.copy": {"dest": path, "mode": mode, "content": content}}
        for path, mode, content in (words(which, 1, at, 3) for at in range(len(files)))
    ]
    return [*for_folders, *for_files]


def words(which: int, sort: int, at: int, count: int) -> list[str]:
    return [f"{{{{ allocations[{which}][{sort}][{at}][{part}] }}}}" for part in range(count)]


def play(folder: Path, tasks: list[dict[str, Any]], limit: str = "all") -> float:
    book = [{"hosts": "all", "gather_facts": False, "tasks": tasks}]
    (folder / "play.yml").write_text(json.dumps(book))
    started = time.perf_counter()
    done = subprocess.run(
        [PROGRAM, "-i", "inventory.json", "--limit", limit, "play.yml"],
        cwd=folder,
        env={**environment(), "ANSIBLE_HOME": str(folder / "home"), "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"ansible-playbook\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return time.perf_counter() - started
