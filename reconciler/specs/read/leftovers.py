"""Files below the spec root that are not read, though somebody may expect it."""

from __future__ import annotations

import re

_LEFTOVER = re.compile(
    r".*\.ya?ml[^/]+"  # x.yaml~  x.yaml.BAK  x.yaml.orig  .x.yaml.swp
    r"|[.#].*\.ya?ml#?"  # .x.yaml  .#x.yaml  #x.yaml#
    r"|\.goutputstream-.*|.*\.sw[a-p]|.*~",
    re.IGNORECASE,
)
_MISNAMED = re.compile(r"[^.#].*\.(ya?ml|json[c5l]?)|[^.#][^.]*", re.IGNORECASE)
_FOR_PEOPLE = re.compile(
    r"readme|licen[cs]e|copying|notice|authors|maintainers|(code)?owners|todo|changelog|changes"
    r"|contributing|makefile|justfile|dockerfile|jenkinsfile",
    re.IGNORECASE,
)


def is_leftover(name: str) -> bool:
    """What editors, merges and backups leave behind, and hidden files: worth a note."""
    return _LEFTOVER.fullmatch(name) is not None


def is_misnamed(name: str) -> bool:
    """What may well be a spec under a name that is not read: x.json, x.YAML, or x alone."""
    known = is_leftover(name) or _FOR_PEOPLE.fullmatch(name)
    return not known and _MISNAMED.fullmatch(name) is not None
