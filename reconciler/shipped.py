"""What travels with the program: schemas, playbooks, templates, runbooks; their only reader.

Inside a wheel they lie below `reconciler/_shipped`; an editable install uses the checkout.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parent
"""As `importlib.resources` would say it, which costs every command more than what it reads."""


IN_CHECKOUT = {"runbooks": "docs/runbooks"}
"""Where a folder lies in the checkout, if not at its top."""


def folder(name: str) -> Path:
    """The folder `schemas`, `playbooks`, `templates` or `runbooks`; it may be read-only."""
    inside = PACKAGE / "_shipped" / name
    return inside if inside.is_dir() else PACKAGE.parent / IN_CHECKOUT.get(name, name)


@cache
def schemas() -> Mapping[str, str]:
    """Schema text by its word: a kind's ref word, `settings`, `plan`, …"""
    suffix = ".schema.json"
    return {
        path.name.removesuffix(suffix): path.read_text(encoding="utf-8")
        for path in sorted(folder("schemas").glob(f"*{suffix}"))
    }


@cache
def templates() -> Mapping[str, str]:
    """Template text by its path below `templates/`; what an installer compiled of it is none."""
    root = folder("templates")
    return {
        Path(entry.path).relative_to(root).as_posix(): Path(entry.path).read_text(encoding="utf-8")
        for entry in _below(root)
    }


def runbook(name: str) -> str:
    """The text of one page."""
    return (folder("runbooks") / f"{name}.md").read_text(encoding="utf-8")


@cache
def stamp() -> str:
    """Text that stays as long as nobody touches the program: its code, schemas and templates."""
    places = [folder("schemas"), folder("templates"), PACKAGE]
    return "\n".join(
        f"{entry.path} {entry.stat().st_size} {entry.stat().st_mtime_ns}"
        for place in places
        for entry in _below(place)
    )


def _below(place: Path) -> Iterator[os.DirEntry[str]]:
    for entry in sorted(os.scandir(place), key=lambda entry: entry.name):
        if entry.is_dir() and entry.name != "__pycache__":
            yield from _below(Path(entry.path))
        elif entry.is_file():
            yield entry
