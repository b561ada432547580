"""The fleet that a command is about."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from reconciler.operations.wiring import Fleet, recall_fleet


def open_fleet(folder: Path | None) -> Fleet:
    """What reads YAML is loaded only where gpuaas.yaml is not as it was the last time."""
    known = recall_fleet(folder)
    if known is not None:
        return known
    opened: Fleet = import_module("reconciler.operations.opening").open_fleet(folder)
    return opened
