"""Opening a fleet whose settings are not known yet: gpuaas.yaml is read, checked and remembered."""

from __future__ import annotations

from pathlib import Path

from reconciler import shipped
from reconciler.model.state.event import Actor
from reconciler.operations.fleet import Fleet, os_login, remember_settings
from reconciler.operations.specs import wanted_refs
from reconciler.specs.read.library import find_folder, read_settings
from reconciler.specs.settings import parse_settings


def open_fleet(folder: Path | None = None) -> Fleet:
    """The fleet of `folder`, or of the working directory or the nearest folder above it.

    Raises ProblemError `settings_missing` or `settings_invalid`.
    """
    root = find_folder(folder or Path.cwd())
    content = read_settings(root)
    settings = parse_settings(root, content, shipped.schemas()["settings"])
    fleet = Fleet(settings=settings, actor=Actor(name=os_login()), wanted=wanted_refs)
    remember_settings(fleet, content)
    return fleet
