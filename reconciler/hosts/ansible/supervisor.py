"""The supervisor: a process around one Ansible run, so that nothing of it outlives gpuaas.

Started as a file in a session and an environment of its own, it takes one JSON line of work on
stdin and answers JSON lines on stdout. While gpuaas lives, stdin stays open; its end, by a wish to
stop or by gpuaas' death, kills every descendant. It knows nothing but Ansible.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import secrets
import select
import shutil
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, TextIO

import ansible_runner

PR_SET_CHILD_SUBREAPER = 36
ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
ENDED_BY_ITSELF = (0, 2, 4)
TOLD = ("runner_on_start", "runner_on_ok", "runner_on_failed", "runner_on_unreachable")


def main() -> None:
    os.umask(0o077)
    adopt_orphans()
    request = json.loads(sys.stdin.readline())
    runner = os.fork()
    if runner == 0:
        sys.exit(run(request))
    ready, _, _ = select.select([sys.stdin, os.pidfd_open(runner)], [], [])
    if sys.stdin in ready or os.waitpid(runner, 0)[1] != 0:
        kill_descendants()
    # Inventory, arguments and temporary files; they may hold names and keys of people.
    shutil.rmtree(request["leavings"], ignore_errors=True)


def run(request: Mapping[str, Any]) -> int:
    """0 if Ansible ended by itself: then the SSH masters that it left are wanted."""
    # Nothing but our lines may reach the pipe, whatever a library prints.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    # Ansible marks what it tells with this number. Whoever else wrote on its output has not seen
    # it, and is not believed: events are cut out of that very output.
    mark = secrets.randbits(62)
    os.environ["JOB_ID"] = str(mark)

    def on_event(event: Mapping[str, Any]) -> bool:
        """False: no event is kept in a file."""
        ours = event.get("job_id") == mark
        data = event.get("event_data", {}) if ours else {}
        if text := words(str(event.get("stdout", "")), data.get("res")):
            tell(answers, {"event": "log", "text": text, "host": data.get("host", "")})
        if ours and event.get("event") in TOLD:
            told = {key: data.get(key) for key in ("host", "res")}
            tell(answers, {"event": event["event"], **told})
        return False

    keep_no_output(request["folder"])
    runner = ansible_runner.run(
        private_data_dir=request["folder"],
        ident="ansible",
        playbook=request["playbook"],
        inventory=request["inventory"],
        forks=request["forks"],
        suppress_env_files=True,
        # The runner waits for a prompt and holds all that is shown meanwhile, in vain and to the
        # end. Whatever it reads is one, with no answer.
        passwords={"(?s).+": None},
        quiet=True,
        event_handler=on_event,
        # Given, so that the runner leaves the signals alone; the end of stdin is what cancels.
        cancel_callback=lambda: False,
    )
    tell(answers, {"event": "end", "status": runner.status})
    return 0 if runner.rc in ENDED_BY_ITSELF else 1


def keep_no_output(folder: str) -> None:
    """Prevent a file of all that Ansible shows; the runner cannot be told so in another way."""
    os.mkdir(f"{folder}/env", 0o700)
    with open(f"{folder}/env/settings", "w", encoding="ascii") as file:
        json.dump({"suppress_output_file": True}, file)


def words(shown: str, result: object) -> str:
    """What Ansible shows of an event; of a result only the reason and the error output.

    Whatever else a host printed may be the very work that it was given.
    """
    if isinstance(result, Mapping):
        told = (str(result.get(key, "")) for key in ("msg", "module_stderr"))
        shown = "\n".join((shown.partition(" => ")[0], *told))
    lines = ANSI.sub("", shown)[:4000].splitlines()
    return "\n".join(map(plain, lines)).strip()


def plain(line: str) -> str:
    """Fit for a file that people look at on a terminal."""
    return "".join(char if char.isprintable() else " " for char in line)


def tell(answers: TextIO, line: Mapping[str, object]) -> None:
    answers.write(json.dumps(line) + "\n")
    answers.flush()


def adopt_orphans() -> None:
    """Make descendants that lose their parent our children, so that they stay in reach."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


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
