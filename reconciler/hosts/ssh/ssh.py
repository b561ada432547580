"""SSH: how a host is reached, which pinned keys identify it, and who is root there."""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from reconciler.hosts.folders import write_private
from reconciler.model.plan.work import Host

PERSIST_SECONDS = 600
CONNECT_SECONDS = 10
"""For the connection and the keys: once, since whoever asks again waits as long again."""

ALIVE_SECONDS, ALIVE_COUNT = 10, 3
"""How often sshd is asked whether it is there, however long our work takes, and how often in vain.

A kept connection to a host that was cut off would else be waited on until work has timed out. It
is long enough for a login that hangs in PAM: the host is slow, not away.
"""

NOTHING_LENT = {
    "ForwardAgent": "no",
    "ForwardX11": "no",
    "GSSAPIDelegateCredentials": "no",
    "ClearAllForwardings": "yes",
    "Tunnel": "no",
}
"""Whatever a user's ssh_config says: root of a host could use it while we are connected."""

PINS_ALONE = {
    "StrictHostKeyChecking": "yes",
    "GlobalKnownHostsFile": "/dev/null",
    "UpdateHostKeys": "no",
    "VerifyHostKeyDNS": "no",
    "NoHostAuthenticationForLocalhost": "no",
    "CheckHostIP": "no",
}
"""Every other way in which ssh comes to believe a host key is shut."""

NO_TERMINAL = {
    "BatchMode": "yes",
    "PreferredAuthentications": "gssapi-with-mic,hostbased,publickey",
    "AddKeysToAgent": "no",
    "RequestTTY": "no",
    "RemoteCommand": "none",
    "PermitLocalCommand": "no",
    "SetEnv": "LC_ALL=C.UTF-8",
}
"""A program speaks to a program: nobody is asked, and nothing else runs or is shown."""

PLAIN_WORDS = {"LogLevel": "INFO", "FingerprintHash": "sha256", "VisualHostKey": "no"}
"""What ssh says is read for alarms, so no user's setting may hide it or say it otherwise."""

ALONE = {"ControlMaster": "no", "ControlPersist": "no", "ControlPath": "none"}

SINCE = {
    (8, 5): {"KnownHostsCommand": "none", "LogVerbose": "none"},
    (8, 7): {"SessionType": "default", "StdinNull": "no", "ForkAfterAuthentication": "no"},
}
"""Options of later versions, by the first that has them; an earlier one refuses to know them."""

REMOTE_PYTHON, SUDO = "/usr/bin/python3", "/usr/bin/sudo"

CHANGED = "Host key for {node} has changed"
BEFORE_SSH = "Make sure this host can be reached over ssh:"
"""How Ansible leads over to what ssh said."""
MUX = "mux_client_"
"""Of a kept connection, before a new one is tried."""
LATEST = (99, 0)
VERSION = re.compile(r"OpenSSH_\D*(\d+)\.(\d+)")
UNKNOWN = re.compile(r"No (\S+) host key is known for (\S+) ")
SHOWN = re.compile(r"fingerprint for the (\S+) key sent by the remote host is\s+(SHA256:\S{43})")
REFUSED = re.compile(
    r"sudo: (not found|No such file)|^Sorry, user |is not in the sudoers file"
    r"|Missing sudo password",
    re.MULTILINE,
)
SUDO_SAID, BY_THE_WAY = re.compile(r"^sudo: "), re.compile(r"^sudo: unable to resolve host ")
NO_PYTHON = re.compile(rf"^(sudo: |.*: )?{REMOTE_PYTHON}: (?!can't open|error while)", re.MULTILINE)
"""The shell and sudo name the program that they cannot start; once started, Python names itself

so only where it finds no script."""


def write_pins(hosts: Iterable[Host], folder: Path) -> Path:
    """A known_hosts file by node name, so that addresses and ports do not matter."""
    file = folder / "known_hosts"
    lines = (f"{host.node} {key}\n" for host in hosts for key in host.host_keys)
    write_private(file, "".join(lines))
    return file


def ssh_options(host: Host, pins: Path, sockets: Path | None) -> tuple[str, ...]:
    """Strict about the pins and never asking; one connection kept per host and set of pins.

    Without a folder for sockets the connection is a new one and nobody else's.
    """
    known = hashlib.sha256("\n".join(host.host_keys).encode()).hexdigest()[:8]
    shared = {
        "ControlMaster": "auto",
        "ControlPersist": str(PERSIST_SECONDS),
        "ControlPath": f"{sockets}/{known}-%C",
    }
    values = {
        **NO_TERMINAL,
        **PLAIN_WORDS,
        **PINS_ALONE,
        **options_since(ssh_version()),
        "UserKnownHostsFile": f'"{pins}"',
        "HostKeyAlias": host.node,
        # An agent's other keys would use up what sshd lets somebody try.
        **({"IdentitiesOnly": "yes", "PubkeyAuthentication": "yes"} if host.identity_file else {}),
        "ConnectTimeout": str(CONNECT_SECONDS),
        "ConnectionAttempts": "1",
        "ServerAliveInterval": str(ALIVE_SECONDS),
        "ServerAliveCountMax": str(ALIVE_COUNT),
        **NOTHING_LENT,
        **(shared if sockets else ALONE),
    }
    return tuple(part for key, value in values.items() for part in ("-o", f"{key}={value}"))


def options_since(version: tuple[int, int]) -> dict[str, str]:
    return {
        key: value
        for first, options in SINCE.items()
        if version >= first
        for key, value in options.items()
    }


@cache
def ssh_version() -> tuple[int, int]:
    """The version of this machine's ssh; if it does not say, every option is stated."""
    try:
        done = subprocess.run(("ssh", "-V"), capture_output=True, check=False)
    except OSError:
        return LATEST
    found = VERSION.search(done.stderr.decode("ascii", "replace"))
    return (int(found[1]), int(found[2])) if found else LATEST


def ssh_command(host: Host, pins: Path, sockets: Path | None) -> tuple[str, ...]:
    """Up to and with the address; the remote command follows."""
    identity = ("-i", str(Path(host.identity_file).expanduser())) if host.identity_file else ()
    user = ("-l", host.user) if host.user else ()
    options = ssh_options(host, pins, sockets)
    return ("ssh", *options, "-p", str(host.port), *identity, *user, "--", host.address)


def needs_sudo(host: Host) -> bool:
    """A whole host is worked on as root; a folder as whoever logs in, who owns it."""
    return host.isolation != "directory" and host.user != "root"


def why_not_reached(host: Host, said: str) -> tuple[str, str]:
    """Code and message for what ssh says when it has not reached a host.

    Only a word about this very host's key counts: a jump host's key is not its identity.
    """
    pinned = ", ".join(map(fingerprint, host.host_keys)) or "none"
    unknown = [key for key, node in UNKNOWN.findall(said) if node == host.node]
    if CHANGED.format(node=host.node) in said:
        shown = " ".join(SHOWN.findall(said)[-1]) if SHOWN.search(said) else "another key"
        return "host_identity_changed", f"host key shown: {shown}; pinned: {pinned}"
    if unknown:
        shown = f"only one of type {unknown[-1]}, which is not pinned"
        return "host_identity_changed", f"host key shown: {shown}; pinned: {pinned}"
    return "host_unreachable", _in_short(said)


def _in_short(said: str) -> str:
    """What ssh itself says of the host, without what others say about ssh."""
    _, led, own = said.rpartition(BEFORE_SSH)
    if led and not own.strip():
        return "the connection broke off"
    lines = own.splitlines(keepends=True)
    return "".join(each for each in lines if not each.startswith(MUX)).strip() or said


def fingerprint(key: str) -> str:
    """`ED25519 SHA256:…`, as ssh itself names a key."""
    sort, _, blob = key.partition(" ")
    name = {"ssh-ed25519": "ED25519", "ssh-rsa": "RSA"}.get(sort, "ECDSA")
    try:
        raw = base64.b64decode(blob.split(" ")[0], validate=True)
    except ValueError:
        return f"{name} (not readable)"
    digest = base64.b64encode(hashlib.sha256(raw).digest()).decode("ascii").rstrip("=")
    return f"{name} SHA256:{digest}"


def why_not_begun(host: Host, said: str) -> tuple[str, str] | None:
    """Code and message where our code did not start on a host, by what sudo and the shell say."""
    if NO_PYTHON.search(said):
        return "no_python_on_host", f"{REMOTE_PYTHON} does not start: {said}"
    no_root = why_no_root(host, said)
    return ("no_root_on_host", no_root) if no_root else None


def why_no_root(host: Host, said: str) -> str:
    """What sudo says where it wants a password, forbids it or is not there; empty if nothing.

    After a refusal nothing is run: whatever follows the words of sudo was said by somebody who was
    root.
    """
    last = (said.strip().splitlines() or [""])[-1].strip()
    refuses = SUDO_SAID.search(last) and not BY_THE_WAY.search(last) and REMOTE_PYTHON not in last
    if not needs_sudo(host) or not (refuses or REFUSED.search(said)):
        return ""
    return f"{host.user or 'the control login'} cannot become root by sudo -n: {said}"
