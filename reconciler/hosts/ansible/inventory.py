"""The inventory: hosts and their whole work as JSON, in which no text is ever a template."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path

from reconciler.hosts.folders import write_private
from reconciler.hosts.ssh.ssh import REMOTE_PYTHON, SUDO, needs_sudo, ssh_options, write_pins
from reconciler.model.codec import encode
from reconciler.model.plan.plan import Step
from reconciler.model.plan.work import Host, HostWork

PREFIX = "node-"
"""Before each node's name, since a host called `all` or `localhost` means something to Ansible."""


def write_inventory(
    works: Iterable[HostWork], folder: Path, *, sockets: Path, python: str, code: bytes
) -> Path:
    """A file of mode 0600 in a new folder below `folder`. It holds the work, so no secrets.

    Beside it lies the code that hosts run, to which it leads.
    """
    works = tuple(works)
    folder = folder / "ansible"
    folder.mkdir(mode=0o700)
    pins = write_pins((work.host for work in works), folder)
    hosts = {
        PREFIX + work.host.node: unsafe(
            {
                **_connection(work.host, pins, sockets, python),
                "gpuaas_expect": {"machine_id": work.host.machine_id, "boot_id": work.host.boot_id},
                "gpuaas_root": work.host.root,
                "gpuaas_work": [entry(step) for step in work.steps],
            }
        )
        for work in works
    }
    script = folder / "converge.py"
    write_private(script, code)
    common = unsafe({"gpuaas_code": str(script)})
    file = folder / "inventory.json"
    write_private(file, json.dumps({"all": {"vars": common, "hosts": hosts}}).encode("ascii"))
    return file


def entry(step: Step) -> Mapping[str, object]:
    return {"step": step.id, "verb": step.verb, "ref": str(step.ref), "item": encode(step.item)}


def unsafe(value: object) -> object:
    """Every text wrapped so that Ansible takes it as it is."""
    if isinstance(value, str):
        return {"__ansible_unsafe": value}
    if isinstance(value, Mapping):
        return {key: unsafe(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [unsafe(item) for item in value]
    return value


def _connection(host: Host, pins: Path, sockets: Path, python: str) -> Mapping[str, object]:
    if host.is_local:
        return {"ansible_connection": "local", "ansible_python_interpreter": python}
    identity = {"ansible_ssh_private_key_file": host.identity_file} if host.identity_file else {}
    user = {"ansible_user": host.user} if host.user else {}
    become = {"": True, "_method": "sudo", "_exe": SUDO, "_flags": "-H -n"}
    root = {f"ansible_become{key}": value for key, value in become.items()}
    return {
        "ansible_connection": "ssh",
        "ansible_host": host.address,
        "ansible_port": host.port,
        "ansible_ssh_args": shlex.join(ssh_options(host, pins, sockets)),
        "ansible_python_interpreter": REMOTE_PYTHON,
        **identity,
        **user,
        **(root if needs_sudo(host) else {}),
    }
