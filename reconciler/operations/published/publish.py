"""The published projection: what members of a project read without state, hosts or specs (rule 5).

A folder a project with four files, each written whole or not at all and only when it differs. They
tell of what is applied and provided, and hold nothing secret.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from reconciler.atomic_file import write_file
from reconciler.hosts.ssh.openssh import known_hosts, ssh_config
from reconciler.kinds.project import PROJECTS
from reconciler.kinds.user import USERS
from reconciler.model.codec import encode
from reconciler.model.host.endpoint import unsound
from reconciler.model.plan.plan import Change, Plan
from reconciler.model.problem import Problem, ProblemError
from reconciler.model.ref import Ref, is_name
from reconciler.model.state.world import World
from reconciler.operations.endpoints import (
    CONFIG,
    PINS,
    STATUS_JSON,
    STATUS_MD,
    endpoints,
    publish_folder,
    way_in,
)
from reconciler.operations.fetch import fetch
from reconciler.operations.fleet import Fleet
from reconciler.operations.inventory.ages import aged, as_last_planned
from reconciler.operations.inventory.allocations import allocation_rows
from reconciler.operations.inventory.stock import take_stock
from reconciler.operations.inventory.sync import left_of, scope_of, standing_of, synced
from reconciler.operations.views import Published
from reconciler.stops import around, reach

SCHEMA_VERSION = 1
OURS = (CONFIG, PINS, STATUS_MD, STATUS_JSON)
"""In this order they are taken away: the last one says whose they are."""

FILE_MODE, FOLDER_MODE = 0o644, 0o755


def publish(
    fleet: Fleet, world: World, plan: Plan | None = None, done: Collection[Change] = ()
) -> tuple[Problem, ...]:
    """Bring the published files in line with `world`, under the lock; what could not be written.

    `done` is what was carried out of `plan`. Nothing is done where `publish.dir` is not set.
    Folders of projects that are gone are cleared of our files, and go if nothing else is in them.
    """
    folder = publish_folder(fleet.settings)
    if folder is None:
        return ()
    with around("publish"):
        return _publish(publications(fleet, world, plan, done), world.state_id, folder)


def _publish(what: Iterable[Published], state_id: str, folder: Path) -> tuple[Problem, ...]:
    problems: list[Problem] = []
    projects = set()
    for told in what:
        projects.add(told.project)
        try:
            _write_all(folder / told.project, texts_of(told, folder / told.project))
        except ProblemError as error:
            problems += error.problems
        except OSError as error:
            problems.append(_unwritten(folder / told.project, error))
        reach("publish.during")
    for gone in _gone(folder, projects, state_id):
        try:
            _clear(gone)
        except OSError as error:
            problems.append(_unwritten(gone, error))
    return tuple(problems)


def publications(
    fleet: Fleet, world: World, plan: Plan | None = None, done: Collection[Change] = ()
) -> Iterator[Published]:
    """What there is to publish, a project at a time. How to get in depends on where it is read.

    What `plan` does not speak of stands to what is wanted as the last plan that did said.
    """
    stock = take_stock(fleet.settings, world, fleet.now())
    told = tuple(allocation_rows(fleet.settings, world, stock))
    if plan is None or plan.only:
        told = as_last_planned(fleet, told)
    if plan is not None:
        told = tuple(synced(told, standing_of(left_of(plan, done)), only=scope_of(plan)))
    of_all = plan is not None and not plan.only
    shown = aged(fleet, told, world.waiting, of_all=of_all)
    rows = [replace(row, way_in="") for row in shown]
    reached = endpoints(fleet.settings, world)
    for project in sorted(ref.name for ref in world.refs_of("project")):
        own = tuple(row for row in rows if row.ref.split("/")[1] == project)
        nodes = {row.node for row in own} & world.observations.keys()
        yield Published(
            schema_version=SCHEMA_VERSION,
            project=project,
            state_id=world.state_id,
            observed_at=min((world.observations[name].at for name in nodes), default=""),
            people=_people(world, project),
            allocations=own,
            endpoints=tuple(one for one in reached if one.ref.project == project),
        )


def texts_of(told: Published, folder: Path) -> Mapping[str, str]:
    """The files of one project by name. Raises ProblemError if one of them would not be sound."""
    reached = [one for one in told.endpoints if unsound(one) or not one.folder]
    head = f"# Made by gpuaas for project {told.project}. It is written anew: do not edit.\n"
    return {
        PINS: head + known_hosts(reached),
        CONFIG: f"{head}\n{ssh_config(reached, str(folder / PINS))}",
        STATUS_MD: _markdown(told, folder),
        STATUS_JSON: json.dumps(encode(told), indent=2) + "\n",
    }


def _people(world: World, project: str) -> Mapping[str, str]:
    """OS logins of the project's members, and the Users they are."""
    members = PROJECTS.applied(world.recorded[Ref("project", "", project)]).members
    found = {}
    for name in sorted({member.user for member in members}):
        user = USERS.last(world, name)
        found.update(dict.fromkeys(user.os_logins if user else (), name))
    return found


def _markdown(told: Published, folder: Path) -> str:
    """The same for people, each value in a code span that it cannot leave."""
    ways = {
        str(one.ref): way_in(one, None if one.folder else folder / CONFIG) for one in told.endpoints
    }
    head = ("allocation", "owner", "SKU", "where", "sync", "health", "until", "log in")
    table = [head, ("---",) * len(head)]
    for row in told.allocations:
        where = "/".join(filter(None, (row.node, ",".join(row.slots))))
        sync, health = _axis(row.sync, row.sync_cause), _axis(row.health, row.health_cause)
        cells = (row.ref.split("/")[-1], row.owner, row.sku, where, sync, health)
        table.append(tuple(map(_code, (*cells, row.until or "open", ways.get(row.ref, "-")))))
    lines = [f"| {' | '.join(cells)} |" for cells in table]
    observed = told.observed_at or "never"
    return "\n".join(
        (
            f"# {told.project}",
            "",
            f"As last applied; hosts were last observed: {observed}.",
            "Home and scratch of an allocation end with it.",
            "",
            *(lines if told.allocations else ("No allocations.",)),
            "",
        )
    )


def _axis(word: str, cause: str) -> str:
    return f"{word}: {cause}" if cause else word or "-"


def _code(text: str) -> str:
    return "`" + "".join(c if c.isprintable() and c not in "`|" else "?" for c in text) + "`"


def _write_all(folder: Path, texts: Mapping[str, str]) -> None:
    """Pins first: a configuration never names a host before it can be believed."""
    folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    if folder.is_symlink():
        raise NotADirectoryError(errno.ENOTDIR, "it is a link, and nothing is written through it")
    _sweep(folder)
    for name, text in texts.items():
        _write(folder / name, text.encode())


def _write(path: Path, content: bytes) -> None:
    """Whole or not at all, and not at all where it stands already."""
    if not _stands(path, content):
        write_file(path, content, mode=FILE_MODE, durable=True)


def _stands(path: Path, content: bytes) -> bool:
    """Others may write to the folder: no more is read than what should stand there."""
    if path.is_symlink() or not path.is_file() or path.stat().st_size != len(content):
        return False
    return path.read_bytes() == content


def _sweep(folder: Path) -> None:
    """What an apply that was killed has left half written: nobody else publishes just now."""
    for name in OURS:
        for partial in folder.glob(f".{name}.????????"):
            partial.unlink(missing_ok=True)


def _gone(folder: Path, projects: Collection[str], state_id: str) -> Iterable[Path]:
    """Folders that this state published for projects it no longer knows; nobody else's."""
    try:
        names = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir())
    except OSError:
        return []
    left = [folder / name for name in names if is_name(name) and name not in projects]
    return [path for path in left if not path.is_symlink() and _whose(path) == state_id]


def _whose(folder: Path) -> str:
    try:
        told = json.loads(fetch(str(folder / STATUS_JSON)))
    except (ProblemError, ValueError, RecursionError):
        return ""
    return str(told.get("stateId", "")) if isinstance(told, dict) else ""


def _clear(folder: Path) -> None:
    _sweep(folder)
    for name in OURS:
        (folder / name).unlink(missing_ok=True)
    with suppress(OSError):
        folder.rmdir()


def _unwritten(folder: Path, error: OSError) -> Problem:
    return Problem(
        code="publish_failed",
        message=f"{folder}: {error.strerror or error}",
        hint="make publish.dir writable; the next apply writes it again",
    )
