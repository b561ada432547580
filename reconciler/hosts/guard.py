"""The guard: a process of its own around one Ansible run, so that nothing of it outlives gpuaas.

Started as a file in a session and an environment of its own, it takes one JSON line of work on
stdin and answers JSON lines on stdout. While gpuaas lives, stdin stays open; its end, by a wish to
stop or by gpuaas' death, kills every descendant. It knows nothing but Ansible.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import signal
import sys
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, TextIO

import ansible_runner

PR_SET_CHILD_SUBREAPER = 36
ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
ORDINARY = (0, 2, 4)
"""Return codes of a run that ended by itself; the SSH masters it leaves are wanted."""

TOLD = ("runner_on_start", "runner_on_ok", "runner_on_failed", "runner_on_unreachable")


def main() -> None:
    adopt_orphans()
    # Nothing but our lines may reach the pipe, whatever a library prints.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    request = json.loads(sys.stdin.readline())
    threading.Thread(target=wait_for_end, args=(request["leavings"],), daemon=True).start()
    runner = run(request, answers)
    if runner.rc not in ORDINARY:
        kill_descendants()
    remove(request["leavings"])
    tell(answers, {"event": "end", "status": runner.status})


def run(request: Mapping[str, Any], answers: TextIO) -> Any:
    def on_event(event: Mapping[str, Any]) -> bool:
        """False: no event is kept in a file."""
        data = event.get("event_data", {})
        if text := ANSI.sub("", str(event.get("stdout", ""))).strip():
            tell(answers, {"event": "log", "text": text[:4000]})
        if event.get("event") in TOLD:
            told = {key: data.get(key) for key in ("host", "res")}
            tell(answers, {"event": event["event"], **told})
        return False

    return ansible_runner.run(
        private_data_dir=request["folder"],
        ident="ansible",
        playbook=request["playbook"],
        inventory=request["inventory"],
        forks=request["forks"],
        suppress_env_files=True,
        quiet=True,
        event_handler=on_event,
        # Given, so that the runner leaves the signals alone; the end of stdin is what cancels.
        cancel_callback=lambda: False,
    )


def tell(answers: TextIO, line: Mapping[str, Any]) -> None:
    answers.write(json.dumps(line) + "\n")
    answers.flush()


def adopt_orphans() -> None:
    """Whoever of our descendants loses its parent becomes our child, and so stays in reach."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def wait_for_end(leavings: Iterable[str]) -> None:
    sys.stdin.read()
    kill_descendants()
    remove(leavings)
    os._exit(1)


def remove(leavings: Iterable[str]) -> None:
    """Inventory, arguments and temporary files; they may hold names and keys of people."""
    for folder in leavings:
        shutil.rmtree(folder, ignore_errors=True)


def kill_descendants() -> None:
    """Until none is left: what a dying parent started meanwhile is ours by then."""
    while found := descendants():
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(-1, 0)


def descendants() -> list[int]:
    """Living processes below this one, of whatever session."""
    children: dict[int, list[int]] = {}
    dead = set()
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError), open(f"/proc/{name}/stat", encoding="latin-1") as file:
                state, parent = file.read().rpartition(")")[2].split()[:2]
                children.setdefault(int(parent), []).append(int(name))
                if state in "ZX":
                    dead.add(int(name))
    found, todo = [], [os.getpid()]
    while todo:
        below = children.get(todo.pop(), [])
        found += [pid for pid in below if pid not in dead]
        todo += below
    return found


if __name__ == "__main__":
    main()
