"""SSH: how a host is reached, and by which pinned keys alone it is believed to be itself."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from reconciler.model.work import Host

PERSIST_SECONDS = 600


def write_pins(hosts: Iterable[Host], folder: Path) -> Path:
    """A known_hosts file by node name, so that addresses and ports do not matter."""
    file = folder / "known_hosts"
    file.write_text(
        "".join(f"{host.node} {key}\n" for host in hosts for key in host.host_keys),
        encoding="utf-8",
    )
    return file


def ssh_options(host: Host, pins: Path, sockets: Path) -> tuple[str, ...]:
    """Strict about the pins and never asking; one connection kept per host and set of pins."""
    known = hashlib.sha256("\n".join(host.host_keys).encode()).hexdigest()[:8]
    values = {
        "BatchMode": "yes",
        "StrictHostKeyChecking": "yes",
        "UserKnownHostsFile": f'"{pins}"',
        "GlobalKnownHostsFile": "/dev/null",
        "UpdateHostKeys": "no",
        "HostKeyAlias": host.node,
        "ConnectTimeout": "10",
        "ControlMaster": "auto",
        "ControlPersist": str(PERSIST_SECONDS),
        "ControlPath": f"{sockets}/{known}-%C",
    }
    return tuple(part for key, value in values.items() for part in ("-o", f"{key}={value}"))


def ssh_command(host: Host, pins: Path, sockets: Path) -> tuple[str, ...]:
    """Up to and with the address; the remote command follows."""
    identity = ("-i", str(Path(host.identity_file).expanduser())) if host.identity_file else ()
    user = ("-l", host.user) if host.user else ()
    options = ssh_options(host, pins, sockets)
    return ("ssh", *options, "-p", str(host.port), *identity, *user, "--", host.address)
