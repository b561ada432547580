"""The one task of every play: a host's whole ordered work, in one command that installs nothing.

The converge code and the work go to a bare Python on its stdin, as the observe code does; what
Ansible adds is the connection, becoming root, and one answer per host. A module of Ansible's own
make would carry, unpack and compile forty files more on every host, each time.

To Ansible an answer is a text without a meaning: of a result it would take orders, such as facts,
warnings and hosts to add, and what it shows of one it believes when it reads it again.
"""

from __future__ import annotations

import json
import os
import resource
import shlex
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action import ActionBase

MIB = 1024 * 1024
MAX_ANSWER, MAX_ERRORS = 4 * MIB, 2000
ROOM = 64 * MIB
"""What one host may make this worker, a process for it alone, grow by."""


class ActionModule(ActionBase):  # type: ignore[misc]
    """`code` is the path of the converge code; `expect`, `root` and `work` are its request."""

    _supports_check_mode = True

    def run(self, tmp: None = None, task_vars: Mapping[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        args = self._task.args
        request = {key: args[key] for key in ("expect", "root", "work")}
        told = json.dumps({**request, "dry": self._task.check_mode})
        given = f"import sys; sys.argv[1:] = [{told!r}]\n".encode("ascii")
        python = shlex.quote((task_vars or {})["ansible_python_interpreter"])
        try:
            with bounded(ROOM):
                done = self._low_level_execute_command(
                    f"{python} -IS -", in_data=given + Path(args["code"]).read_bytes()
                )
        except MemoryError:
            end_children()
            return {**result, "invalid": "it answered without end"}
        except AnsibleConnectionFailure as error:
            return {**result, "unreachable": True, "msg": plain(str(error))}
        except AnsibleError as error:
            return {**result, "failed": True, "msg": plain(str(error))}
        return {**result, **answer_of(done)}


def answer_of(done: Mapping[str, Any]) -> Mapping[str, Any]:
    """The last line of what was printed, unread; nothing else of it is handed on."""
    line = done["stdout"].strip().rpartition("\n")[2]
    # A login may have printed something before it, and not ended its line.
    line = line[max(0, line.find('{"')) :]
    if done["rc"] != 0 or not line:
        return {
            "failed": True,
            "msg": f"the converge code ended with {done['rc']} and no answer",
            "module_stderr": plain(done["stderr"][-MAX_ERRORS:]),
        }
    if len(line) > MAX_ANSWER:
        return {"invalid": f"more than {MAX_ANSWER // MIB} MiB of answer"}
    if not (line.isascii() and line.isprintable()):
        return {"invalid": "its answer is no plain text"}
    return {"answer": line, **outcome_of(line)}


def outcome_of(line: str) -> Mapping[str, Any]:
    """For whoever runs the play by hand: whether anything has changed, or failed."""
    try:
        with bounded(ROOM):
            told = json.loads(line)
    except (ValueError, RecursionError, MemoryError):
        told = None
    if not isinstance(told, dict):
        return {"failed": True, "msg": "its answer is no mapping"}
    failed = {"failed": True, "msg": "not all of its work was done"} if told.get("failed") else {}
    return {"changed": told.get("changed") is True, **failed}


def plain(text: str) -> str:
    """A host's words in lines, without anything that could steer who reads what is shown."""
    kept = "".join(char if char.isprintable() or char == "\n" else " " for char in text)
    return kept[-2 * MAX_ERRORS :]


@contextmanager
def bounded(room: int) -> Iterator[None]:
    """In here this process grows by `room` bytes at most, and has a MemoryError then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    wanted = pages * resource.getpagesize() + room
    if soft == resource.RLIM_INFINITY or wanted < soft:
        resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def end_children() -> None:
    """Whoever still brings an answer that nobody reads; kept connections left us before."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii")
    for pid in children.split():
        with suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
