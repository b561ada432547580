"""One host of the lab, and what an operator, a power cut or a cable does to it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.lab import network, place, recipe, server

SUPERVISOR = Path(__file__).with_name("supervisor.py")
LONGEST_NAME = 12
"""With `vb-` before it, as long as a network device's name may be."""

UP_SECONDS = 60
LAST_WORDS = 20
"""Lines of a console that say why a host did not start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    name: str
    index: int

    @property
    def address(self) -> str:
        return network.address(self.index)

    @property
    def folder(self) -> Path:
        return place.hosts_folder() / self.name

    @property
    def disk(self) -> Path:
        """What the host has written, seen from outside; its root is `/` there."""
        return self.folder / "up"

    @property
    def ssh_config(self) -> Path:
        """For people, and for tools that take such a file: root with the lab's key."""
        return self.folder / "ssh_config"

    def bind(self, places: Mapping[Path, str]) -> None:
        """From its next start on each of these folders of this machine stands at a path of its own.

        What is bound into several hosts is shared by them, as a share of the network would be.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        lines = [f"{outside}:{inside}\n" for outside, inside in places.items()]
        (self.folder / "binds").write_text("".join(lines), encoding="utf-8")

    def of(self, suite: str) -> None:
        """Its disk, when it is made, holds this suite of Debian."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "suite").write_text(suite, encoding="utf-8")

    def up(self, owner: int | None = None) -> None:
        """Switch on; returns before the host has started. It ends with the process `owner`."""
        if self.is_on():
            return
        self.kill()
        place.make_room()
        network.up()
        if not self.disk.is_dir():
            self._make_disk()
        told = {"owner": str(owner)} if owner else {}
        with (self.folder / "console.log").open("ab") as console:
            started = subprocess.Popen(
                self._supervisor(**told),
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        (self.folder / "pid").write_text(f"{started.pid} {_started(started.pid)}")

    def wait(self) -> None:
        """Until the host has started; known_hosts then holds the keys that stand on its disk."""
        until = time.monotonic() + UP_SECONDS
        while not self._answers():
            if time.monotonic() > until or not self.is_on():
                raise place.LabError(f"{self.name} did not start: {self._last_words()}")
            time.sleep(0.05)
        lines = [f"{self.address} {key}\n" for key in self.host_keys()]
        (self.folder / "known_hosts").write_text("".join(lines), encoding="utf-8")
        told = {"HostName": self.address, "User": "root", **self._ssh_settings(place.key())}
        block = [f"Host {self.name}", *(f"{word} {value}" for word, value in told.items())]
        self.ssh_config.write_text("\n    ".join(block) + "\n", encoding="utf-8")
        self.run("systemctl", "is-system-running", "--wait", check=False)

    def down(self) -> None:
        """Press the power button."""
        self._signal(signal.SIGTERM, 30)

    def kill(self) -> None:
        """A power cut."""
        self._signal(signal.SIGUSR1, 10)
        if (self.folder / "pid").exists():
            place.order(*self._supervisor(), "clear")

    def wipe(self) -> None:
        """A new disk: with the next start, another machine that has the same cards."""
        self.kill()
        for part in ("up", "work"):
            shutil.rmtree(self.folder / part, ignore_errors=True)
        (self.folder / "known_hosts").unlink(missing_ok=True)

    def reboot(self) -> None:
        """Returns when the host has started again."""
        before = self.boot_id()
        self.run("systemctl", "reboot", check=False)
        until = time.monotonic() + UP_SECONDS
        while time.monotonic() < until:
            if self._answers() and self.boot_id() not in (before, ""):
                return self.wait()
            time.sleep(0.1)
        raise place.LabError(f"{self.name} did not come back: {self._last_words()}")

    def cut(self) -> None:
        network.cut(self.name)

    def heal(self) -> None:
        network.heal(self.name)

    def is_on(self) -> bool:
        """The supervisor runs: by pid and start time, as pids are used again."""
        pid, _, started = _read(self.folder / "pid").partition(" ")
        return bool(pid) and _started(int(pid)) == started

    def run(
        self, *command: str, login: str = "root", given: str = "", check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """A command line on the host, over ssh with the lab's own key."""
        done = subprocess.run(
            ["ssh", *self.ssh_options(), f"{login}@{self.address}", *command],
            input=given,
            capture_output=True,
            text=True,
            check=False,
        )
        if check and done.returncode:
            said = (done.stderr or done.stdout).strip()
            raise place.LabError(f"{self.name}: {' '.join(command)}: {said}")
        return done

    def ssh_options(self, key: Path | None = None) -> tuple[str, ...]:
        """With the host's own keys pinned, and nothing of the caller's settings."""
        settings = self._ssh_settings(key or place.key())
        pairs = [("-o", f"{word}={value}") for word, value in settings.items()]
        return ("-F", "none", *(word for pair in pairs for word in pair))

    def _ssh_settings(self, key: Path) -> dict[str, object]:
        return {
            "IdentityFile": key,
            "IdentitiesOnly": "yes",
            "UserKnownHostsFile": self.folder / "known_hosts",
            "StrictHostKeyChecking": "yes",
            "BatchMode": "yes",
            "ConnectTimeout": 5,
            "LogLevel": "ERROR",
        }

    def host_keys(self) -> tuple[str, ...]:
        """As its console would show them: read from the disk, not from the network."""
        files = sorted((self.disk / "etc/ssh").glob("ssh_host_*_key.pub"))
        return tuple(" ".join(_read(file).split()[:2]) for file in files)

    def machine_id(self) -> str:
        return _read(self.disk / "etc/machine-id").strip()

    def boot_id(self) -> str:
        """Empty while it does not answer."""
        return self.run("cat", "/proc/sys/kernel/random/boot_id", check=False).stdout.strip()

    def _supervisor(self, **more: str) -> list[str]:
        order = {
            "name": self.name,
            "disk": str(self.folder),
            "image": _read(self.folder / "image"),
            "namespace": network.NAMESPACE,
            "bridge": network.BRIDGE,
            "cgroup": place.NAME,
            "binds": _read(self.folder / "binds"),
            **more,
        }
        alone = ("unshare", "--mount", "--propagation", "private")
        return [*alone, sys.executable, "-I", str(SUPERVISOR), json.dumps(order)]

    def _make_disk(self) -> None:
        """A disk lies over the image it was made with, whatever the newest one is."""
        suite = _read(self.folder / "suite") or recipe.SUITE
        (self.folder / "image").write_text(str(recipe.image(suite)))
        for part in ("up", "work", "root"):
            (self.folder / part).mkdir(parents=True, exist_ok=True)
        files = {
            "etc/hostname": f"{self.name}\n",
            "etc/hosts": f"127.0.0.1 localhost\n127.0.1.1 {self.name}\n",
            "etc/systemd/network/10-host0.network": network.settings(self.index),
            **server.one_host(self.name),
        }
        for path, text in files.items():
            recipe.write(self.disk / path, text)
        for path, target in server.links_of_one_host(self.name).items():
            recipe.link(self.disk / path, target)

    def _answers(self) -> bool:
        try:
            with socket.create_connection((self.address, 22), timeout=0.5) as connection:
                connection.settimeout(1)
                return connection.recv(4) == b"SSH-"
        except OSError:
            return False

    def _last_words(self) -> str:
        """Of its console and its supervisor: a borrowed host's disk goes before one could look."""
        said = _read(self.folder / "console.log").splitlines()
        return "\n".join(["it is on" if self.is_on() else "it is off", *said[-LAST_WORDS:]])

    def _signal(self, number: int, seconds: float) -> None:
        if not self.is_on():
            return
        pid, started = _read(self.folder / "pid").split()
        os.kill(int(pid), number)
        until = time.monotonic() + seconds
        while _started(int(pid)) == started:
            if time.monotonic() > until:
                raise place.LabError(f"{self.name} is still on after {seconds} s")
            time.sleep(0.02)


def host(name: str) -> Host:
    """The host of that name, which gets a number of its own when first spoken of."""
    if not name.isalnum() or len(name) > LONGEST_NAME or not name.islower():
        raise place.LabError(f"{name}: a name is at most {LONGEST_NAME} small letters and digits")
    with place.alone("hosts"):
        taken = {known.name: known.index for known in hosts()}
        if name not in taken:
            index = next(number for number in range(240) if number not in taken.values())
            folder = place.hosts_folder() / name
            folder.mkdir(parents=True)
            (folder / "index").write_text(str(index))
            taken[name] = index
    return Host(name=name, index=taken[name])


def hosts() -> Iterator[Host]:
    for file in sorted(place.hosts_folder().glob("*/index")):
        yield Host(name=file.parent.name, index=int(_read(file)))


def forget(gone: Host) -> None:
    """Off, and everything of it away; its number may be given to another."""
    gone.kill()
    shutil.rmtree(gone.folder, ignore_errors=True)


def _started(pid: int) -> str:
    """When a process was started, in the kernel's ticks; empty if there is none."""
    words = _read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return words[19] if words and words[0] != "Z" else ""


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return ""
