"""Settles a preparation: it is kept, or all that it wrote is rolled back.

One file that needs no other: it runs from a connection's stdin, from a timer when nobody came
back for the host, and at boot. What it goes by was saved before anything was written.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import stat
import subprocess
import sys
from contextlib import contextmanager, suppress
from typing import Any, Callable, Iterator, Sequence

FOLDER = "/var/lib/gpuaas/prepare"
MANIFEST = f"{FOLDER}/manifest.json"
TIMER = "gpuaas-undo.timer"
LOCK = "/run/gpuaas-settle.lock"
"""Whoever comes late to keep must not meet a timer half way through putting back, nor a timer

whoever is half way through writing.
"""

SAFE_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ACTION_SECONDS = 30
NETWORK = (
    "if test -e /etc/gpuaas/network.nft; then exec systemctl reload-or-restart gpuaas-network; fi;"
    " command -v nft > /dev/null || exit 0;"
    " exec nft 'add table inet gpuaas; delete table inet gpuaas'"
)
"""Where it was never closed, it is open again."""

ACTIONS = {
    "systemd": ("/usr/bin/systemctl", "daemon-reload"),
    "network": ("/bin/sh", "-c", NETWORK),
    "sshd": ("/usr/bin/systemctl", "try-reload-or-restart", "ssh.service"),
    "logind": ("/usr/bin/systemctl", "kill", "--signal=HUP", "systemd-logind.service"),
    "dbus": ("/usr/bin/systemctl", "reload", "dbus.service"),
}
"""How a host takes up what was written for it, in this order."""

AT_BOOT = ("systemd",)
"""Whatever starts later reads the files as they are then, and must not be waited for."""

Manifest = dict[str, Any]


class SettleError(Exception):
    """Why a preparation could not be settled, in words."""


def status() -> str:
    """`pending` while a preparation waits to be settled, else `none`."""
    return "pending" if os.path.lexists(MANIFEST) else "none"


def keep() -> str:
    """What was written stays. Raises SettleError where it has been put back already."""
    with alone():
        if status() == "none":
            raise SettleError("nothing waits to be kept: it was put back before")
        _forget()
    return "kept"


def restore(take_up_now: Sequence[str] = tuple(ACTIONS)) -> str:
    """Everything as it was before; a file that resists is named, after all others were put back."""
    with alone():
        return _restore(take_up_now) if status() == "pending" else "none"


def _restore(take_up_now: Sequence[str]) -> str:
    manifest = _read()
    failed = []
    for entry in reversed(manifest["entries"]):
        try:
            _put_back(entry)
        except OSError as error:
            failed.append(f"{entry['path']}: {error.strerror}")
    said = take_up([name for name in manifest["actions"] if name in take_up_now])
    if failed:
        raise SettleError("; ".join(failed))
    _forget()
    if said:
        raise SettleError(f"all files were put back, but {'; '.join(said)}")
    return "restored"


@contextmanager
def alone() -> Iterator[None]:
    """Nobody settles meanwhile. Tenants cannot open the lock, or one of them could hold us up."""
    lock = os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(lock, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def take_up(actions: Sequence[str]) -> list[str]:
    """Carries out these actions; what went wrong with them, in words."""
    return [said for name in ACTIONS if name in actions for said in [act(*ACTIONS[name])] if said]


def act(program: str, *arguments: str) -> str:
    """Runs a program of the host; what it said if it failed, else nothing."""
    name = os.path.basename(program)
    try:
        done = subprocess.run(
            [program, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=ACTION_SECONDS,
            env={"PATH": SAFE_PATH, "LC_ALL": "C"},
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"{name} did not end within {ACTION_SECONDS} s"
    except OSError as error:
        return f"{name}: {error.strerror}"
    said = " ".join((done.stdout + " " + done.stderr).split())
    return f"{name} ended with {done.returncode}: {said}" if done.returncode else ""


def _read() -> Manifest:
    """Only what root alone could have written is gone by."""
    for path in (FOLDER, MANIFEST):
        status = os.lstat(path)
        if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077:
            raise SettleError(f"{path} is not root's own")
    with open(MANIFEST, encoding="utf-8") as file:
        manifest: Manifest = json.load(file)
    return manifest


def _put_back(entry: dict[str, Any]) -> None:
    path, mode = entry["path"], entry["mode"]
    if entry["was"] == "absent":
        _remove(path)
    elif entry["was"] == "dir":
        os.chmod(path, mode)
    elif entry["was"] == "link":
        _remove(path)
        os.symlink(entry["target"], path)
    else:
        fresh = f"{path}.gpuaas-old"
        shutil.copyfile(f"{FOLDER}/{entry['copy']}", fresh)
        os.chown(fresh, entry["uid"], entry["gid"])
        os.chmod(fresh, mode)
        with open(fresh, "rb") as file:
            os.fsync(file.fileno())
        os.replace(fresh, path)


def _remove(path: str) -> None:
    """A folder only if nothing is in it: what others have put there is not ours to remove."""
    with suppress(FileNotFoundError):
        if stat.S_ISDIR(os.lstat(path).st_mode):
            with suppress(OSError):
                os.rmdir(path)
        else:
            os.unlink(path)


def _forget() -> None:
    """The manifest goes first: without it nothing is ever put back. An empty folder goes too."""
    os.unlink(MANIFEST)
    shutil.rmtree(FOLDER)
    with suppress(OSError):
        os.rmdir(os.path.dirname(FOLDER))
    act("/usr/bin/systemctl", "stop", TIMER)


def main() -> None:
    wishes: dict[str, Callable[[], str]] = {
        "boot": lambda: restore(AT_BOOT),
        "keep": keep,
        "restore": restore,
        "status": status,
    }
    wish = wishes.get(sys.argv[1]) if len(sys.argv) == 2 else None
    if wish is None:
        sys.exit(f"one of {', '.join(wishes)}")
    try:
        print(wish())
    except (SettleError, OSError, ValueError, KeyError) as error:
        sys.exit(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
