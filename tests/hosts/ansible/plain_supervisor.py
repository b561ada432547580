"""A run without Ansible: what the supervisor is asked for, by the same lines, in plain Python.

It is started in the supervisor's place and serves directory hosts of this machine. What runs on a
host is the same, and so is what is made of its answer: the action plugin is the real one, on a
stand-in for the little of Ansible that it uses. Left out are Ansible and its runner, which take
most of the time of a run; `test_plain_supervisor.py` holds both against each other.
"""

from __future__ import annotations

import ctypes
import fcntl
import importlib.util
import json
import os
import select
import shutil
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

PR_SET_PDEATHSIG, SIGKILL = 1, 9
UNSAFE = "__ansible_unsafe"
PREFIX = "node-"


def main() -> None:
    os.umask(0o077)
    request = json.loads(sys.stdin.readline())
    os.mkdir(f"{request['folder']}/env", 0o700)
    runner = os.fork()
    if runner == 0:
        os.setsid()
        die_with_parent()
        serve(request)
        os._exit(0)
    ready, _, _ = select.select([sys.stdin, os.pidfd_open(runner)], [], [])
    if sys.stdin in ready:
        # As long as it has no group of its own it has started nobody.
        os.kill(runner, SIGKILL)
        with suppress(ProcessLookupError):
            os.killpg(runner, SIGKILL)
    os.waitpid(runner, 0)
    shutil.rmtree(request["leavings"], ignore_errors=True)


def serve(request: Mapping[str, Any]) -> None:
    """Each host in a process of its own, since the plugin bounds what a host may make it grow."""
    inventory = plain(json.loads(Path(request["inventory"]).read_text(encoding="ascii")))["all"]
    plugin = plugin_of(Path(request["playbook"]).parent)
    waiting, running = list(inventory["hosts"].items()), set()
    outcomes = []
    while waiting or running:
        if waiting and len(running) < request["forks"]:
            name, own = waiting.pop(0)
            tell({"event": "runner_on_start", "host": name, "res": None})
            child = os.fork()
            if child == 0:
                os._exit(converge(plugin, name, {**inventory["vars"], **own}))
            running.add(child)
            continue
        child, status = os.wait()
        running.discard(child)
        outcomes.append(os.waitstatus_to_exitcode(status))
    tell({"event": "end", "status": "failed" if any(outcomes) else "successful"})


def converge(plugin: ModuleType, name: str, known: Mapping[str, Any]) -> int:
    """One host's work. 0 if it is done, as its own answer says."""
    args = {key: known[f"gpuaas_{key}"] for key in ("code", "expect", "root", "work")}
    action = plugin.ActionModule()
    action._task = SimpleNamespace(args=args, check_mode=False)
    if known["ansible_connection"] != "local":
        raise ValueError("only hosts of this machine are served without Ansible")
    result = action.run(task_vars=known)
    failed = bool(result.get("failed"))
    if text := log_of(name, result):
        tell({"event": "log", "text": text, "host": name})
    tell({"event": f"runner_on_{'failed' if failed else 'ok'}", "host": name, "res": result})
    return int(failed)


def log_of(name: str, result: Mapping[str, Any]) -> str:
    """What Ansible would show of it."""
    if not result.get("failed"):
        return f"{'changed' if result.get('changed') else 'ok'}: [{name}]"
    told = (str(result.get(key, "")) for key in ("msg", "module_stderr"))
    return "\n".join((f"fatal: [{name}]: FAILED!", *told)).strip()


def plugin_of(playbooks: Path) -> ModuleType:
    """The action plugin, to which Ansible is what stands here."""
    errors, base = ModuleType("ansible.errors"), ModuleType("ansible.plugins.action")
    errors.AnsibleError = type("AnsibleError", (Exception,), {})  # type: ignore[attr-defined]
    errors.AnsibleConnectionFailure = type(  # type: ignore[attr-defined]
        "AnsibleConnectionFailure",
        (errors.AnsibleError,),
        {},  # type: ignore[attr-defined]
    )
    base.ActionBase = Shell  # type: ignore[attr-defined]
    sys.modules.update({"ansible.errors": errors, "ansible.plugins.action": base})
    path = playbooks / "action_plugins" / "gpuaas_converge.py"
    spec = importlib.util.spec_from_file_location("gpuaas_converge", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Shell:
    """What the plugin takes of Ansible: a command in a shell, with bytes on its stdin."""

    def run(self, tmp: None, task_vars: Mapping[str, Any] | None) -> dict[str, Any]:
        return {}

    def _low_level_execute_command(self, command: str, *, in_data: bytes) -> dict[str, Any]:
        done = subprocess.run(
            ("/bin/sh", "-c", command), input=in_data, capture_output=True, check=False
        )
        said, errors = (text.decode("utf-8", "replace") for text in (done.stdout, done.stderr))
        return {"rc": done.returncode, "stdout": said, "stderr": errors}


def plain(value: Any) -> Any:
    """Texts out of the wrapping in which they are no templates."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    return value[UNSAFE] if value.keys() == {UNSAFE} else {k: plain(v) for k, v in value.items()}


def tell(line: Mapping[str, Any]) -> None:
    """Whole lines, whoever else tells something."""
    data = json.dumps(line).encode() + b"\n"
    with open(__file__, "rb") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        while data:
            data = data[os.write(sys.stdout.fileno(), data) :]


def die_with_parent() -> None:
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, SIGKILL)


if __name__ == "__main__":
    main()
