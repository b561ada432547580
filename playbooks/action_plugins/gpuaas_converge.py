"""The one task of every play: a host's whole ordered work, in one command that installs nothing.

The converge code and the work go to a bare Python on its stdin, as the observe code does; what
Ansible adds is the connection, becoming root, and one answer per host. A module of Ansible's own
make would carry, unpack and compile forty files more on every host, each time.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase


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
        done = self._low_level_execute_command(
            f"{python} -IS -", in_data=given + Path(args["code"]).read_bytes()
        )
        return {**result, **answer_of(done)}


def answer_of(done: Mapping[str, Any]) -> Mapping[str, Any]:
    """The last line of what was printed, if it is an answer; nothing else of it is handed on."""
    line = (done["stdout"].strip().splitlines() or [""])[-1]
    try:
        answer = json.loads(line)
    except ValueError:
        answer = None
    if done["rc"] == 0 and isinstance(answer, dict):
        return answer
    return {
        "failed": True,
        "msg": f"the converge code ended with {done['rc']} and no answer",
        "module_stderr": done["stderr"][-2000:],
    }
