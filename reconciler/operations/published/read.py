"""Reading published files, from a folder or a web server: no state, hosts or gpuaas.yaml.

What is read is somebody else's text. It is held against its schema, every endpoint of it must be
plain, and it is believed only for the project whose it says it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from reconciler import shipped
from reconciler.model.codec import decode
from reconciler.model.host.endpoint import Endpoint, unsound
from reconciler.model.problem import ProblemError, refuse
from reconciler.model.ref import Ref, is_name, parse_ref
from reconciler.operations.endpoints import CONFIG, PINS, STATUS_JSON, way_in
from reconciler.operations.fetch import fetch, is_web, unreadable
from reconciler.operations.inventory.stock import age_of
from reconciler.operations.references import unknown
from reconciler.operations.views import AllocationRow, Published, Shown, Status
from reconciler.specs.read.suggest import did_you_mean
from reconciler.specs.read.validation import validator_of


def read_published(source: str, project: str = "") -> tuple[Published, ...]:
    """What `source` publishes of `project`, or of all its projects; by their names.

    `source` is the folder or address of `publish.dir`, or that of one project in it. Raises
    ProblemError `published_unreadable`.
    """
    if project and not is_name(project):
        raise unreadable(source, f"{project!r} is no name of a project", "see: gpuaas status")
    found = tuple(_from_web(source, project) if is_web(source) else _from_folder(source, project))
    if project and [one.project for one in found] != [project]:
        there = [one.project for one in found]
        raise unreadable(
            source, f"it tells nothing of project {project}", did_you_mean(project, there)
        )
    return found


def published_status(source: str, now: datetime, project: str = "", login: str = "") -> Status:
    """The fleet at a glance, as far as it is published; with an OS `login`, what is its user's."""
    found = read_published(source, project)
    ages = [age for one in found if (age := age_of(one.observed_at, now)) is not None]
    return Status(
        state_id=found[0].state_id if found else "",
        serial=0,
        at=now.isoformat(timespec="seconds"),
        observed_age=max(ages, default=None),
        allocations=tuple(row for told in found for row in _rows(told, source, login)),
        source=source,
    )


def published_endpoint(source: str, ref: Ref) -> Endpoint:
    """Raises ProblemError `not_found`, or `no_endpoint` for what cannot be reached now."""
    (told,) = read_published(source, ref.project)
    for one in told.endpoints:
        if one.ref == ref:
            return one
    row = next((row for row in told.allocations if row.ref == str(ref)), None)
    if row is None:
        raise _not_published(source, ref, told)
    raise refuse("no_endpoint", f"{ref} is {row.phase}", f"gpuaas status --from {source}")


def published_pins(source: str, project: str) -> str:
    """The file of a project's pins, where ssh can read it; '' if it is not on this machine."""
    return "" if is_web(source) else str(_project_folder(source, project) / PINS)


def published_show(source: str, ref: Ref) -> Shown:
    """What is published of one allocation."""
    if ref.kind != "allocation":
        raise refuse("not_found", f"{ref}: allocations alone are published", "name an allocation")
    (told,) = read_published(source, ref.project)
    row = next((row for row in _rows(told, source) if row.ref == str(ref)), None)
    if row is None:
        raise _not_published(source, ref, told)
    facts = {
        "where": "/".join(filter(None, (row.node, ",".join(row.slots)))),
        "owner": row.owner,
        "access": ", ".join(row.access),
        "login": row.login,
        "phase": row.phase,
        "health": row.health,
        "observed": told.observed_at or "never",
        "log in": row.way_in or "not now",
    }
    return Shown(
        ref=row.ref,
        desired=None,
        recorded=None,
        observed=None,
        execution=(),
        facts=facts,
        source=source,
    )


def _rows(told: Published, source: str, login: str = "") -> Iterator[AllocationRow]:
    """The allocations of one project, each with the way in from here."""
    config = None if is_web(source) else _project_folder(source, told.project) / CONFIG
    ways = {str(one.ref): way_in(one, config, source) for one in told.endpoints}
    user = told.people.get(login, login)
    for row in told.allocations:
        if user in ("", row.owner, *row.access):
            yield replace(row, way_in=ways.get(row.ref, ""))


def _project_folder(source: str, project: str) -> Path:
    folder = Path(source).expanduser().absolute()
    return folder if (folder / STATUS_JSON).is_file() else folder / project


def _from_folder(source: str, project: str) -> Iterator[Published]:
    folder = Path(source).expanduser()
    if not folder.is_dir():
        raise unreadable(source, "there is no such folder")
    if (folder / STATUS_JSON).is_file():
        yield _parse(folder / STATUS_JSON)
        return
    names = [project] if project else _names_in(folder)
    if project and not (folder / project).is_dir():
        near = did_you_mean(project, _names_in(folder))
        raise unreadable(source, f"it tells nothing of project {project}", near)
    for name in names:
        file = folder / name / STATUS_JSON
        if project or (is_name(name) and file.is_file()):
            yield _of(name, file)


def _names_in(folder: Path) -> list[str]:
    """Of whatever lies there."""
    try:
        return sorted(path.name for path in folder.iterdir())
    except OSError as error:
        raise unreadable(str(folder), error.strerror or str(error)) from error


def _from_web(source: str, project: str) -> Iterator[Published]:
    base = source.rstrip("/")
    if project and base.rpartition("/")[2] != project:
        yield _of(project, f"{base}/{project}/{STATUS_JSON}")
        return
    try:
        yield _parse(f"{base}/{STATUS_JSON}")
    except ProblemError as error:
        if project:
            raise
        (problem,) = error.problems
        hint = "name a project, as a web server lists none: --project NAME"
        raise ProblemError((replace(problem, hint=hint),)) from error


def _of(project: str, place: str | Path) -> Published:
    told = _parse(place)
    if told.project != project:
        raise unreadable(str(place), f"it tells of project {told.project}, not {project}")
    return told


def _parse(place: str | Path) -> Published:
    """What stands at `place`, if all of it is what it should be."""
    try:
        value = json.loads(fetch(str(place)))
    except (ValueError, RecursionError) as error:
        raise unreadable(str(place), "it is no JSON") from error
    if flaws := validator_of(shipped.schemas()["published"]).flaws(value):
        where = "/".join(map(str, flaws[0].path)) or "all of it"
        raise unreadable(str(place), f"{where}: {flaws[0].problem.message}")
    told = decode(Published, value)
    for one in told.endpoints:
        if field := unsound(one) or ("ref" if one.ref.project != told.project else ""):
            raise unreadable(str(place), f"{one.ref}: {field} can be no such thing")
    if strange := [row.ref for row in told.allocations if row.ref.split("/")[1] != told.project]:
        raise unreadable(str(place), f"{strange[0]} is not of project {told.project}")
    return told


def _not_published(source: str, ref: Ref, told: Published) -> ProblemError:
    known = (parse_ref(row.ref) for row in told.allocations)
    names = [one for one in known if one is not None]
    return unknown(ref, "not published there", names, f"gpuaas status --from {source}")
