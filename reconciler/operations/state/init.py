"""`init`: a starter fleet for a new folder, and what git never holds: the state and the key."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from reconciler import shipped
from reconciler.atomic_file import partial_file
from reconciler.model.problem import refuse
from reconciler.model.records import dataclass
from reconciler.model.ref import KIND_WORDS
from reconciler.operations.fleet import Fleet
from reconciler.operations.node.directory_host import lay
from reconciler.operations.open import open_fleet
from reconciler.operations.specs import read_desired
from reconciler.store.file.database import Database
from reconciler.store.serial import read_serial

STARTER = "starter/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Initialized:
    """`files` are the paths made, relative to `folder`; what was there already is not in it."""

    folder: str
    files: tuple[str, ...]
    state_id: str


def init(folder: Path) -> Initialized:
    """Make what is missing; never write over anything.

    A folder with a `gpuaas.yaml` gets state, key and the folder of the starter's own node only.
    Raises ProblemError `state_exists` if the state folder holds something that is no state.
    """
    made = [] if (folder / "gpuaas.yaml").exists() else _write_starter(folder)
    fleet = open_fleet(folder)
    made += _make_key(fleet)
    if fleet.database_file.exists():
        with fleet.reading() as database:
            state_id, _ = read_serial(database)
    else:
        state_id = make_state(fleet)
        made.append(fleet.database_file.relative_to(fleet.folder).as_posix())
    made += _lay_standins(fleet)
    return Initialized(folder=str(fleet.folder), files=tuple(sorted(made)), state_id=state_id)


def make_state(fleet: Fleet) -> str:
    """A new, empty state with a random id. Raises ProblemError `state_exists`."""
    state_id = secrets.token_hex(8)
    Database.create(fleet.database_file, state_id=state_id, now=fleet.now()).close()
    return state_id


def _write_starter(folder: Path) -> list[str]:
    """The starter's files, and the schemas that its editor modelines name."""
    starter = dict(_starter())
    schemas = {
        f"schemas/{name}.schema.json": text
        for name, text in shipped.schemas().items()
        if name == "settings" or name in KIND_WORDS.values()
    }
    made = []
    for name, text in sorted((starter | schemas).items()):
        path = folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError:
            continue
        except OSError as error:
            raise refuse(
                "file_unreadable",
                f"{path} cannot be written: {error.strerror}",
                "choose a folder you may write to",
            ) from error
        made.append(path.relative_to(folder).as_posix())
    return made


def _starter() -> Mapping[str, str]:
    """Text by its path in a new fleet."""
    return {
        name.removeprefix(STARTER).replace("dot-", "."): text
        for name, text in shipped.templates().items()
        if name.startswith(STARTER)
    }


def _make_key(fleet: Fleet) -> list[str]:
    path = fleet.folder / fleet.settings.descriptor_key
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Whole under its name, or not there: half a key would sign what nobody can check.
    key = f"{secrets.token_hex(32)}\n".encode()
    try:
        with partial_file(path, key, durable=True) as partial:
            os.link(partial, path)
    except FileExistsError:
        return []
    return [path.relative_to(fleet.folder).as_posix()]


def _lay_standins(fleet: Fleet) -> list[str]:
    """The starter's node is a folder; its cards are a labelled stand-in.

    No other node's is: one whose spec is the starter's to the letter, also after an `init` that
    did not come so far.
    """
    made = []
    starter = _starter()
    for node in read_desired(fleet).of("node"):
        spec = fleet.folder / node.file
        if node.file not in starter or spec.read_text(encoding="utf-8") != starter[node.file]:
            continue
        root = fleet.folder / node.spec.root
        if not root.exists():
            made.append(root.relative_to(fleet.folder).as_posix() + "/")
        lay(root, node, shipped.templates())
    return made
