"""Requirements of a bundle version: agreed wheels, and modules to import as a test.

Judged again here: pip takes options from a list of requirements, and from some of them commands.
Only the one form is taken in which the control machine writes a lock that it has read.
"""

from __future__ import annotations

import re
from typing import Any

from .paths import Refusal

PYTHON = re.compile(r"3\.[0-9]{1,2}")
MODULE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
INDEX = re.compile(r"(https?://|file:///)[!-~]+")
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
REQUIREMENT = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9._,-]+\])?==[A-Za-z0-9.!+_-]+"
    r"(?<!(?i:\.zip|\.whl|\.tgz|\.tar|\.tbz|\.txz|\.tlz|\.bz2))(?<!(?i:\.gz|\.xz|\.lz))"
    r"(?<!(?i:\.lzma))"
    r"( ; ((?! -)[A-Za-z0-9 ._\"<>=!()~*,+/|-])+)?( --hash=sha256:[0-9a-f]{64})+"
)


def check(item: dict[str, Any]) -> None:
    index = item["index"]
    # Lines end with a line feed alone: what else ends one for pip stands in none.
    *lines, rest = item["lock"].split("\n")
    if strange := next((line for line in lines if not REQUIREMENT.fullmatch(line)), rest):
        raise Refusal("item_invalid", f"no requirement with hashes: {strange!r}"[:200])
    if not DIGEST.fullmatch(item["lockDigest"]):
        raise Refusal("item_invalid", "the digest of the requirements is none")
    if not PYTHON.fullmatch(item["python"]):
        raise Refusal("item_invalid", f"no version of Python: {item['python']!r}")
    if not all(MODULE.fullmatch(name) for name in item["imports"]):
        raise Refusal("item_invalid", f"no modules: {item['imports']!r}"[:200])
    if index and not INDEX.fullmatch(index):
        raise Refusal("item_invalid", f"no index: {index!r}"[:200])
