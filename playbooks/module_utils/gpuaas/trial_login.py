"""Trial login: a real login, made as a tenant makes it, with a key of one use.

The key is made here and never leaves this host; its line runs nothing but the transfer of files
built into sshd, from this host's own address, for some minutes. Whatever goes wrong, nothing stays.
"""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import tempfile
import time
from contextlib import suppress
from typing import Callable

from .paths import INSTANCES, PRIVATE
from .probes import BUDGET, SAFE_PATH, ProbeError, call, found_in_path, lines_of, printable

FOLDER, PREFIX = "/run", "gpuaas-entry-"
KEYS = "/etc/gpuaas/ssh"
SECONDS, MINUTES = 15.0, 3
STALE_SECONDS = 600
MAX_SAID = 300
HELLO, HELLO_BACK = b"\0\0\0\5\1\0\0\0\3", b"\2"
"""The first word of a transfer of files, and the sign of its answer."""

SILENT = "it is ended without a word; the host's journal of sshd has more"

UNHEARD = ("kex_exchange_identification", "ssh_exchange_identification", "ssh: connect to host")
"""How ssh begins where nobody was asked for a login: too many are at the door, or none listens."""

TYPES = (
    ("ssh-ed25519", ("-t", "ed25519")),
    ("ecdsa-sha2-nistp256", ("-t", "ecdsa", "-b", "256")),
    ("rsa-sha2-512", ("-t", "rsa", "-b", "4096")),
)
OPTIONS = {
    "BatchMode": "yes",
    "ConnectTimeout": "5",
    "ConnectionAttempts": "1",
    "ControlPath": "none",
    "IdentitiesOnly": "yes",
    "IdentityAgent": "none",
    "LogLevel": "ERROR",
    "PreferredAuthentications": "publickey",
    "StrictHostKeyChecking": "no",
    "UserKnownHostsFile": "/dev/null",
    "GlobalKnownHostsFile": "/dev/null",
}
"""It is this host itself that is reached, and the key is of no use to anybody else."""

Door = Callable[[str], None]


def why_refused(login: str, address: str, port: str, accepted: str, put: Door) -> str:
    """Why a login comes to nothing; '' where it comes through. `put` is given the line of the key.

    `accepted` are the algorithms of keys that sshd takes. Raises ProbeError where it cannot be
    tried.
    """
    if found_in_path("ssh") is None or found_in_path("ssh-keygen") is None:
        raise ProbeError("no login can be tried: the host has no ssh")
    if BUDGET.left(SECONDS) < SECONDS:
        raise ProbeError("no login was tried: the time of this look was up")
    _sweep()
    folder = tempfile.mkdtemp(prefix=PREFIX, dir=FOLDER)
    try:
        key = f"{folder}/key"
        kind = next((kind for name, kind in TYPES if name in accepted.split(",")), TYPES[0][1])
        lines_of("ssh-keygen", "-q", *kind, "-N", "", "-C", "", "-f", key)
        with open(f"{key}.pub", encoding="ascii") as file:
            put(f"{_limits(address)} {file.read().strip()}\n")
        return _tried(login, address, port, key)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def end(login: str) -> None:
    """Whatever a login has begun is over: the host keeps it for a while, in case of another."""
    with suppress(ProbeError):
        call("loginctl", "terminate-user", login)


def forget_folders(login: str) -> None:
    """What a session was given as its own, where nobody has such a session later on."""
    for name in PRIVATE:
        with suppress(OSError):
            os.rmdir(f"{INSTANCES}/{name}/{login}")


def _limits(address: str) -> str:
    until = time.strftime("%Y%m%d%H%M", time.localtime(time.time() + 60 * MINUTES))
    return f'restrict,command="internal-sftp",from="{address}",expiry-time="{until}"'


def _tried(login: str, address: str, port: str, key: str) -> str:
    options = [word for name, value in OPTIONS.items() for word in ("-o", f"{name}={value}")]
    command = ["ssh", "-F", "/dev/null", *options, "-i", key, "-p", port, "-l", login, "-s"]
    with (
        open(os.memfd_create("errors"), "w+b") as errors,
        subprocess.Popen(
            [*command, "--", address, "sftp"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            bufsize=0,  # ssh may be gone before it is told, and then nothing is left to write
            env={"PATH": SAFE_PATH, "LC_ALL": "C"},
        ) as ssh,
    ):
        answer = _answer(ssh)
        if answer[4:5] == HELLO_BACK:
            return ""
        errors.seek(0)
        said = " ".join(errors.read(MAX_SAID).decode("utf-8", "replace").split())
    if said.startswith(UNHEARD):
        raise ProbeError(printable(f"sshd hears nobody just now: {said}"))
    return printable(f"a login comes to nothing: {said or SILENT}")


def _answer(ssh: "subprocess.Popen[bytes]") -> bytes:
    """Its first words. What it is told stays open until then: who hears the end does not answer."""
    assert ssh.stdin is not None and ssh.stdout is not None
    until, answer = time.monotonic() + SECONDS, b""
    try:
        ssh.stdin.write(HELLO)
        ssh.stdin.flush()
        while len(answer) < len(HELLO):
            ready, _, _ = select.select([ssh.stdout], [], [], max(0.0, until - time.monotonic()))
            chunk = os.read(ssh.stdout.fileno(), 1 << 12) if ready else b""
            if not chunk:
                break
            answer += chunk
        ssh.stdin.close()
        ssh.wait(timeout=max(0.1, until - time.monotonic()))
    except (BrokenPipeError, subprocess.TimeoutExpired):
        pass
    finally:
        ssh.kill()
    return answer


def _sweep() -> None:
    """What somebody who was killed has left; a key that lies there opens nothing any more."""
    for name in os.listdir(FOLDER):
        path = f"{FOLDER}/{name}"
        if name.startswith(PREFIX):
            with suppress(OSError):
                if time.time() - os.stat(path).st_mtime > STALE_SECONDS:
                    shutil.rmtree(path, ignore_errors=True)
