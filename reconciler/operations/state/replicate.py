"""`state replicate`: a continuous copy of the state elsewhere, and the unit that keeps it going."""

from __future__ import annotations

import sys
from pathlib import Path
from urllib.parse import urlsplit

from reconciler import shipped
from reconciler.model.problem import ProblemError, refuse
from reconciler.operations.fleet import Fleet
from reconciler.operations.reconcile.service.unit_text import unit_line, unit_word
from reconciler.operations.signals import Interrupts
from reconciler.planner.lifecycle.templates import Renderer
from reconciler.store.backup.litestream import LOCK, Engine, Replica, find_program
from reconciler.store.file.lock import StateLock

UNIT = "control/replicate.service.j2"
HINT = "see docs/recovery.md, 'A continuous copy'"


def replicate(fleet: Fleet, to: str, interrupts: Interrupts) -> None:
    """Copy the state until a signal ends it.

    Raises ProblemError `replicator_missing`, `state_missing` and others. Only one may run at a
    time: another one is refused with `state_locked`.
    """
    engine = engine_of(fleet, to)
    with fleet.reading():
        engine.folder.mkdir(mode=0o700, exist_ok=True)
    lock = StateLock(engine.folder / LOCK, actor=fleet.actor.name, command="state replicate")
    with lock, interrupts:
        lock.told()
        engine.replicate(lambda: interrupts.asked + interrupts.forced)


def unit(fleet: Fleet, to: str) -> str:
    """A systemd unit that runs `state replicate` for this fleet, as whoever asks for it."""
    replica_of(fleet, to)
    program = Path(sys.executable).with_name("gpuaas")
    words = [str(program), "-C", str(fleet.folder), "state", "replicate"]
    values = {
        "folder": unit_line(str(fleet.folder)),
        "user": unit_line(fleet.actor.name),
        "command": " ".join(map(unit_word, [*words, *(("--to", to) if to else ())])),
    }
    return Renderer(shipped.templates()).render(UNIT, values)


def engine_of(fleet: Fleet, to: str) -> Engine:
    """Litestream for this fleet's state. Raises `replicator_missing` or `replica_unsound`."""
    replica = replica_of(fleet, to)
    return Engine(program=find_program(), path=fleet.database_file, replica=replica)


def replica_of(fleet: Fleet, to: str) -> Replica:
    """Where `to` or else the settings say that the copy lies.

    Raises ProblemError `replica_unsound` for no place, one that would be lost with the state, and
    one that would show a credential or trust whoever answers.
    """
    settings = fleet.settings.replica
    url = to or settings.url
    if not url:
        raise _unsound("nobody says where to: replica.url in gpuaas.yaml, or --to")
    if "://" not in url:
        return _folder(fleet, Path(url).expanduser())
    parts = urlsplit(url)
    if parts.scheme == "file":
        return _folder(fleet, Path(parts.path))
    if parts.password is not None:
        raise _unsound("an address with a password is read by everybody who sees it")
    if parts.scheme != "sftp":
        return Replica(place={"url": url}, shown=url)
    if not settings.host_key_file or not settings.key_file:
        raise _unsound("sftp needs replica.keyFile, and replica.hostKeyFile to know its host by")
    files = {"key-path": settings.key_file, "host-key-path": settings.host_key_file}
    named = {name: str(fleet.folder / Path(file).expanduser()) for name, file in files.items()}
    return Replica(place={"url": url, **named}, shown=url)


def _folder(fleet: Fleet, named: Path) -> Replica:
    folder = (fleet.folder / named).resolve()
    if folder.is_relative_to(fleet.state.resolve()):
        raise _unsound(f"{folder} would be lost together with the state")
    return Replica(place={"type": "file", "path": str(folder)}, shown=str(folder))


def _unsound(why: str) -> ProblemError:
    return refuse("replica_unsound", why, HINT)
