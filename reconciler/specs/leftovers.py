"""Files that look like a spec and are none: what editors, merges and backups leave behind."""

from __future__ import annotations

import re

_LEFTOVER = re.compile(
    r".*\.ya?ml[^/]+"  # x.yaml~  x.yaml.BAK  x.yaml.orig  .x.yaml.swp
    r"|[.#].*\.ya?ml#?"  # .x.yaml  .#x.yaml  #x.yaml#
    r"|.*\.ya?ml"  # x.YAML: an ending is taken as it is written
    r"|\.goutputstream-.*|.*\.sw[a-p]|.*~",
    re.IGNORECASE,
)


def is_leftover(name: str) -> bool:
    """Whether a file that is not read is worth a note, since somebody may think that it is."""
    return _LEFTOVER.fullmatch(name) is not None
