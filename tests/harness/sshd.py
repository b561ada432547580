"""A real sshd of our own on this machine: own port, host key and login key, gone with its test.

It runs in process and mount namespaces of its own, so that killing it ends every session below it,
and a test may change what its sessions see of the machine.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reconciler.model.plan.work import Host
from tests import privileges
from tests.harness.directory_host import PLAYBOOKS

needs_sshd = privileges.needs(privileges.sshd)

MACHINE_ID = "5" * 32
MAX_LISTENERS = 16
"""What one sshd may listen on."""

RECORDER = """#!/bin/sh
printf '%s\\t%s\\n' "${SSH_CONNECTION}" "${SSH_ORIGINAL_COMMAND}" >> "$0.log"
exec /bin/sh -c "${SSH_ORIGINAL_COMMAND}"
"""

CONFIG = """
Port {port}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/login_key.pub
AuthenticationMethods publickey
PermitRootLogin prohibit-password
StrictModes no
UsePAM no
PidFile none
LogLevel VERBOSE
MaxStartups 200:30:400
MaxSessions 64
Subsystem sftp internal-sftp
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sshd:
    """How to reach it, and what it has been asked for."""

    folder: Path
    port: int

    @property
    def host_key(self) -> str:
        return public_half(self.folder / "host_key")

    @property
    def login_key(self) -> Path:
        return self.folder / "login_key"

    @property
    def mark(self) -> str:
        """What the names of the sockets of its kept connections begin with."""
        return hashlib.sha256(self.host_key.encode()).hexdigest()[:8]

    def pins(self, addresses: Sequence[str]) -> Path:
        """A known_hosts file for programs that go by address."""
        file = self.folder / "known_hosts"
        file.write_text("".join(f"[{one}]:{self.port} {self.host_key}\n" for one in addresses))
        return file

    def host(self, root: Path, node: str = "gpu01", **more: Any) -> Host:
        """A host that is this folder, which gets a machine id of its own."""
        (root / "etc").mkdir(parents=True, exist_ok=True)
        known = {"machine_id": MACHINE_ID, **more}
        (root / "etc/machine-id").write_text(known["machine_id"] + "\n")
        given = {
            "address": "127.0.0.1",
            "port": self.port,
            "user": "root",
            "isolation": "directory",
            "host_keys": (self.host_key,),
            "identity_file": str(self.login_key),
        }
        return Host(node=node, root=str(root), **{**given, **known})

    @property
    def sessions(self) -> list[tuple[str, str]]:
        """The address reached and the command asked for, of every session so far."""
        recorded = self.folder / "record.log"
        lines = recorded.read_text().splitlines() if recorded.exists() else []
        told = (line.split("\t", 1) for line in lines)
        return [(connection.split()[2], command) for connection, command in told]

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")


def make_room() -> None:
    """The empty folder into which root's sshd locks itself; its unit makes it at a boot."""
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)


@contextmanager
def sshd(
    folder: Path,
    addresses: Sequence[str] = ("127.0.0.1",),
    *,
    recorded: bool = True,
    before: str = "",
) -> Iterator[Sshd]:
    """One that answers at all the addresses; `before` is shell for its mount namespace."""
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    for name in ("host_key", "login_key"):
        make_key(folder / name)
    make_room()
    made = Sshd(folder=folder, port=free_port())
    recorder = folder / "record"
    recorder.write_text(RECORDER)
    recorder.chmod(0o755)
    config = CONFIG.format(port=made.port, folder=folder)
    config += f"ForceCommand {recorder}\n" if recorded else ""
    config += "PerSourcePenalties no\n" if knows("PerSourcePenalties=no", folder) else ""
    running = []
    try:
        for start in range(0, len(addresses), MAX_LISTENERS):
            some = addresses[start : start + MAX_LISTENERS]
            file = folder / f"config-{start}"
            file.write_text("".join(f"ListenAddress {one}\n" for one in some) + config)
            running.append(listen(file, folder / "log", before))
            for address in some:
                await_port(address, made.port)
        yield made
    finally:
        for process in running:
            process.kill()
            process.wait()


CUT = """\
    if request["root"].endswith({root!r}):
        import signal
        pid = os.getppid()
        while pid > 1:
            with open(f"/proc/{{pid}}/stat") as file:
                name, _, rest = file.read().partition(" (")[2].rpartition(") ")
            if name == "sshd":
                os.kill(pid, signal.SIGKILL)
            pid = int(rest.split()[1])
"""


def cutting(folder: Path, root: str) -> Path:
    """Playbooks that do all their work, and then cut the link of hosts with such a root."""
    return ending(folder, CUT.format(root=root))


def ending(folder: Path, code: str) -> Path:
    """Playbooks whose hosts run this when all is done and nothing has been answered."""
    playbooks = Path(shutil.copytree(PLAYBOOKS, folder))
    file = playbooks / "module_utils/gpuaas/converge.py"
    answer = "    sys.stdout.write("
    text = file.read_text()
    assert text.count(answer) == 1
    file.write_text(text.replace(answer, code + answer))
    return playbooks


QUIET_LOGIN = "[ ! -e ~/.bashrc ] || mount --bind /dev/null ~/.bashrc"
"""bash reads that file for each command of sshd; what a developer has in there is no host's."""


def listen(config: Path, log: Path, before: str) -> subprocess.Popen[bytes]:
    apart = ("setpriv", "--pdeathsig=KILL", "unshare", "--pid", "--fork", "--kill-child=KILL")
    script = f"{QUIET_LOGIN}\n{before}\nexec /usr/sbin/sshd -D -e -f '{config}'"
    with log.open("ab") as output:
        return subprocess.Popen(
            [*apart, "--mount-proc", "/bin/sh", "-ec", script],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


def make_key(file: Path) -> None:
    if not file.exists():
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", file], check=True
        )


def public_half(file: Path) -> str:
    """Type and key, without the comment."""
    return " ".join(file.with_name(f"{file.name}.pub").read_text().split()[:2])


def knows(option: str, folder: Path) -> bool:
    """Whether this version of sshd has the option."""
    key = str(folder / "host_key")
    tried = ["/usr/sbin/sshd", "-t", "-f", "/dev/null", "-h", key, "-o", option]
    return subprocess.run(tried, capture_output=True, check=False).returncode == 0


def free_port() -> int:
    with socket.socket() as tried:
        tried.bind(("127.0.0.1", 0))
        port: int = tried.getsockname()[1]
        return port


def await_port(address: str, port: int, seconds: float = 10) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with suppress(OSError), socket.create_connection((address, port), timeout=1):
            return
        time.sleep(0.02)
    raise TimeoutError(f"no sshd at {address} port {port}")
