"""Saved files: what a preparation is about to change; the host restores it by itself."""

from __future__ import annotations

import json
import os
import shutil
import stat
from typing import Any

from . import settle
from .paths import Refusal
from .probes import ProbeError, call, failure


def save(paths: list[str], actions: list[str]) -> None:
    """Raises Refusal where it cannot be saved; then nothing is touched."""
    try:
        _save(paths, actions)
    except OSError as error:
        shutil.rmtree(settle.FOLDER, ignore_errors=True)
        why = f"what is there cannot be saved: {error.filename or ''}: {error.strerror}"
        raise Refusal("prepare_refused", f"{why}; nothing was touched") from error


def _save(paths: list[str], actions: list[str]) -> None:
    """The manifest comes last, and whole: from then on all of it can be put back."""
    shutil.rmtree(settle.FOLDER, ignore_errors=True)
    os.makedirs(settle.FOLDER, mode=0o700)
    os.chmod(settle.FOLDER, 0o700)
    entries: list[dict[str, Any]] = []
    for path in paths:
        for way in _missing_above(path):
            if way not in [entry["path"] for entry in entries]:
                entries.append({"path": way, "was": "absent", "mode": 0})
        entries.append(_entry(path, f"old-{len(entries)}"))
    _write("settle.py", _source(settle))
    _write("manifest.new", json.dumps({"entries": entries, "actions": actions}))
    os.rename(f"{settle.FOLDER}/manifest.new", settle.MANIFEST)
    os.sync()


def arm(seconds: int) -> None:
    """From now on the host puts all back by itself, unless somebody comes and keeps it."""
    unit = settle.TIMER.partition(".")[0]
    command = ("/usr/bin/python3", "-I", f"{settle.FOLDER}/settle.py", "restore")
    call("systemctl", "reset-failed", f"{unit}.service")
    done = call(
        "systemd-run",
        f"--unit={unit}",
        f"--on-active={seconds}",
        "--timer-property=AccuracySec=1s",
        "--description=Take back a preparation that nobody has kept",
        *command,
    )
    if done.returncode != 0:
        raise ProbeError(failure("systemd-run", done))


def _source(module: Any) -> str:
    """As it was carried here, or as it stands in a folder."""
    return str(module.__loader__.get_source(module.__name__))


def _missing_above(path: str) -> list[str]:
    parts = path.split("/")[1:-1]
    ways = ["/" + "/".join(parts[: at + 1]) for at in range(len(parts))]
    return [way for way in ways if not os.path.lexists(way)]


def _entry(path: str, copy: str) -> dict[str, Any]:
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return {"path": path, "was": "absent", "mode": 0}
    entry: dict[str, Any] = {"path": path, "mode": stat.S_IMODE(status.st_mode)}
    if stat.S_ISDIR(status.st_mode):
        return {**entry, "was": "dir"}
    if stat.S_ISLNK(status.st_mode):
        return {**entry, "was": "link", "target": os.readlink(path)}
    shutil.copyfile(path, f"{settle.FOLDER}/{copy}", follow_symlinks=False)
    return {**entry, "was": "file", "copy": copy, "uid": status.st_uid, "gid": status.st_gid}


def _write(name: str, content: str) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    opened = os.open(f"{settle.FOLDER}/{name}", flags, 0o600)
    with open(opened, "w", encoding="utf-8") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
