"""The console of a host: a shell of root's that needs neither its network, sshd nor PAM."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from tests.lab.host import Host
from tests.lab.place import LabError

NAMESPACES = ("mount", "uts", "ipc", "net", "pid", "cgroup")


def console(host: Host, script: str, *, check: bool = True) -> str:
    """What the script printed."""
    entered = [f"--{name}" for name in NAMESPACES]
    done = subprocess.run(
        ["nsenter", f"--target={first_process(host)}", *entered, "--wd=/", "sh", "-ec", script],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    if check and done.returncode:
        raise LabError(f"{host.name}: {script}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def service(host: Host, name: str, *command: str) -> None:
    """Something that the host itself goes on with, until it is stopped or ends."""
    words = " ".join(f"'{word}'" for word in command)
    console(host, f"systemd-run --quiet --collect --unit={name} {words}")


def first_process(host: Host) -> int:
    """Its pid 1, by the number that it has here."""
    todo = [int((host.folder / "pid").read_text().split()[0])]
    while todo:
        pid = todo.pop()
        if numbers(pid)[1:] == ["1"]:
            return pid
        todo += children(pid)
    raise LabError(f"{host.name} is not on")


def numbers(pid: int) -> list[str]:
    """A process's numbers, here and in each namespace below."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(line.split()[1:] for line in lines if line.startswith("NSpid:"))


def children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(word) for file in found for word in file.read_text().split()]


def until(host: Host, true: str, seconds: float = 60) -> None:
    """Wait until a script succeeds on the host."""
    end = time.monotonic() + seconds
    while console(host, f"({true}) > /dev/null 2>&1 && echo yes || true") != "yes\n":
        assert time.monotonic() < end, f"{host.name}: never: {true}"
        time.sleep(0.05)
