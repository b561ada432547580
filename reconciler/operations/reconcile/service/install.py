"""Systemd units that run the loop: a service, or a timer with a service for one round."""

from __future__ import annotations

import pwd
import sys
from collections.abc import Mapping
from pathlib import Path

from reconciler import shipped
from reconciler.atomic_file import write_file
from reconciler.hosts.ansible.executor import RunOptions
from reconciler.model.problem import refuse
from reconciler.model.records import dataclass
from reconciler.operations.endpoints import publish_folder
from reconciler.operations.fleet import Fleet
from reconciler.operations.reconcile.service.unit_text import unit_line, unit_word
from reconciler.planner.lifecycle.templates import Renderer

SERVICE, TIMER = "control/reconcile.service.j2", "control/reconcile.timer.j2"
UNITS = Path("/etc/systemd/system")
NAME = "gpuaas-reconcile"
TEMPORARY = ("/tmp", "/var/tmp")
UNIT_MODE = 0o644

BEYOND_THE_PLAY_SECONDS = 60
NO_FAILURE = (3, 5, 130)
"""Exit codes of a round that did what it could: blocked, held, interrupted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """The files that were written, by path, and what is to be done next."""

    files: tuple[str, ...]
    next: str


def units(fleet: Fleet, *, timer: bool, words: tuple[str, ...] = ()) -> Mapping[str, str]:
    """Name → text. `words` are further options of the loop.

    Raises ProblemError `unit_unsound` for names that cannot stand in a unit.
    """
    program = Path(sys.executable).with_name("gpuaas")
    rhythm = ("--once",) if timer else ("--watch",)
    command = [str(program), "-C", str(fleet.folder), "reconcile", *rhythm, *words]
    writable = [fleet.state.resolve()]
    if (published := publish_folder(fleet.settings)) is not None:
        writable.append(published.resolve())
    if textfile := fleet.settings.loop.metrics.textfile:
        writable.append((fleet.folder / textfile).parent.resolve())
    longest = RunOptions(run_dir=Path(), playbooks=Path()).timeout_s
    values = {
        "name": NAME,
        "folder": unit_line(str(fleet.folder)),
        "user": unit_line(_owner(fleet)),
        "command": " ".join(map(unit_word, command)),
        "writable": " ".join(unit_word(f"-{path}") for path in writable),
        "stop_seconds": longest + BEYOND_THE_PLAY_SECONDS,
        "success": " ".join(map(str, NO_FAILURE)),
        # Below /tmp it would not see its own fleet.
        "private_tmp": "no" if any(map(fleet.folder.is_relative_to, TEMPORARY)) else "yes",
        "once": timer,
        "interval": fleet.settings.loop.interval_seconds,
    }
    renderer = Renderer(shipped.templates())
    found = {f"{NAME}.service": renderer.render(SERVICE, values)}
    if timer:
        found[f"{NAME}.timer"] = renderer.render(TIMER, values)
    return found


def install(fleet: Fleet, *, timer: bool, folder: Path = UNITS) -> Installed:
    """Write them. Raises ProblemError `units_unwritable` where nobody may."""
    found = units(fleet, timer=timer)
    for name, text in found.items():
        _write(folder / name, text)
    unit = f"{NAME}.timer" if timer else f"{NAME}.service"
    return Installed(
        files=tuple(str(folder / name) for name in found),
        next=f"systemctl daemon-reload && systemctl enable --now {unit}",
    )


def _write(path: Path, text: str) -> None:
    try:
        write_file(path, text.encode(), mode=UNIT_MODE, durable=False)
    except OSError as error:
        raise refuse(
            "units_unwritable",
            f"{path} cannot be written: {error.strerror}",
            "as root: gpuaas reconcile install; or see what it would write: --print",
        ) from error


def _owner(fleet: Fleet) -> str:
    """The owner of the state: nobody else could open it, or should."""
    uid = fleet.state.stat().st_uid
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
