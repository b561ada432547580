"""The fleet that a command is about, or the place where it is published."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pathlib import Path

import click

from reconciler.model.ref import Ref
from reconciler.operations.fleet import Fleet, recall_fleet

from_option = click.option(
    "--from",
    "source",
    default="",
    metavar="DIR|URL",
    envvar="GPUAAS_FROM",
    show_envvar=True,
    help="Read what is published there: needs no state, no host and no gpuaas.yaml.",
)


def whence(folder: Path | None, source: str) -> Fleet | str:
    """Where to read: what is published at `source` if it is given, else the fleet itself."""
    return source or open_fleet(folder)


def open_fleet(folder: Path | None) -> Fleet:
    """What reads YAML is loaded only where gpuaas.yaml is not as it was the last time."""
    known = recall_fleet(folder)
    if known is not None:
        return replace(known, wanted=_wanted)
    opened: Fleet = import_module("reconciler.operations.open").open_fleet(folder)
    return opened


def _wanted(fleet: Fleet) -> frozenset[Ref]:
    found: frozenset[Ref] = import_module("reconciler.operations.specs").wanted_refs(fleet)
    return found
