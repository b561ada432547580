"""Verbs: the closed list of what a host may be asked for. None of them takes a command."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from reconciler.model.problem import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """`item` maps each key, all required, to its meaning; an empty one is no work but a question.

    `evidence` and `refuses` are for the reader of the reference.
    """

    name: str
    summary: str
    item: Mapping[str, str]
    evidence: str
    refuses: tuple[str, ...]


ID, LOGIN = "the allocation's id, ten letters", "its login"

_LIST = (
    Verb(
        name="node.observe",
        summary="Says what the host is and what the platform keeps on it; changes nothing.",
        item={},
        evidence="NodeFacts: identity, CPUs, memory, cards, drives, NICs, paths, descriptors",
        refuses=("a root folder that is not there",),
    ),
    Verb(
        name="slice.topology_discover",
        summary="Says as well what slots could be made of; the same question, asked of new hosts.",
        item={},
        evidence=(
            "NodeFacts with its topology: host keys, serial, whole cores and memory by NUMA node,"
            " every card on the bus, drives and adapters with what they hang on and who uses them"
        ),
        refuses=("a root folder that is not there",),
    ),
    Verb(
        name="allocation.provide",
        summary="Makes the folders and files of an allocation stand as asked.",
        item={
            "id": ID,
            "login": LOGIN,
            "directories": "list of path and mode; what they hold is not touched",
            "files": "list of path, mode and content; each replaced whole",
        },
        evidence="path → fact of every folder and file named",
        refuses=(
            "a path that is no place of this allocation",
            "a link or a file where a folder should stand, a folder where a file should",
            "a way that leads through a link",
        ),
    ),
    Verb(
        name="access.sync",
        summary="Makes the key file of a login hold exactly these keys, or makes it gone.",
        item={
            "id": ID,
            "login": LOGIN,
            "files": "list of path, mode and content: the whole key file",
            "absent": "list of paths: the key file, when nobody may log in",
        },
        evidence="path → fact of the key file",
        refuses=(
            "any path but the login's own key file",
            "lines that are no plain public key: options, other types, a type unlike its blob",
            "a last line without its end",
        ),
    ),
    Verb(
        name="allocation.release",
        summary="Removes everything that was made for an allocation, in the order named.",
        item={
            "id": ID,
            "login": LOGIN,
            "absent": "list of paths, files and folders of this allocation",
        },
        evidence="path → fact of every path named, null where nothing is left",
        refuses=(
            "a path that is no place of this allocation",
            "a link or a file where a folder was made, a folder where a file was made",
            "a folder at or below which something is mounted: nothing of it is removed",
        ),
    ),
)

VERBS: Mapping[str, Verb] = MappingProxyType({verb.name: verb for verb in _LIST})


def check_item(verb: str, item: Mapping[str, Any]) -> Problem | None:
    """Why a host would refuse this work, as far as its keys show; hosts judge again, and deeper."""
    known = VERBS.get(verb)
    if known is None or not known.item:
        return Problem(code="verb_unknown", message=f"{verb!r} is no work for a host")
    odd = sorted(set(item) ^ set(known.item))
    if not odd:
        return None
    what = "unknown" if odd[0] in item else "missing"
    return Problem(code="item_invalid", message=f"{verb}: {what} key {odd[0]!r}")
