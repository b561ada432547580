"""What a version of a bundle may be made of: agreed wheels, and modules to try.

Judged again here: pip takes options from a list of requirements, and from some of them commands.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any, Iterator

from .paths import Refusal

PYTHON = re.compile(r"3\.[0-9]{1,2}")
MODULE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
INDEX = re.compile(r"(https?://|file:///)[!-~]+")
COMMENT = re.compile(r"(^|\s)#.*")
REQUIREMENT = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9._,-]+\])?==[A-Za-z0-9.!+_-]+"
    r"( ?;[A-Za-z0-9 ._\"'<>=!()-]+)?( --hash=sha256:[0-9a-f]{64})+"
)


def check(item: dict[str, Any]) -> None:
    lock, index = item["lock"], item["index"]
    if "sha256:" + hashlib.sha256(lock.encode()).hexdigest() != item["lockDigest"]:
        raise Refusal("item_invalid", "the requirements are not those that were agreed")
    for line in _lines_of(lock):
        if not REQUIREMENT.fullmatch(line):
            raise Refusal("item_invalid", f"no requirement with hashes: {line!r}"[:200])
    if not PYTHON.fullmatch(item["python"]):
        raise Refusal("item_invalid", f"no version of Python: {item['python']!r}")
    if not all(MODULE.fullmatch(name) for name in item["imports"]):
        raise Refusal("item_invalid", f"no modules: {item['imports']!r}"[:200])
    if index and not INDEX.fullmatch(index):
        raise Refusal("item_invalid", f"no index: {index!r}"[:200])


def _lines_of(lock: str) -> Iterator[str]:
    """As pip joins them; without comments and with single blanks."""
    for line in lock.replace("\\\n", " ").split("\n"):
        words = " ".join(COMMENT.sub("", line).split())
        if words:
            yield words
