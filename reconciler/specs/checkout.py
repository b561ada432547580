"""Checkout: whether a file lies in the folder byte for byte as its commit has it.

Attributes that a commit brings along (an encoding, `ident`, line ends) make a file say something
else than its blob does, and nobody has edited it then.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from hashlib import sha1, sha256

from reconciler.model.problem import ProblemError
from reconciler.specs.history import Git


def as_they_are(git: Git, folder: str, paths: Collection[str]) -> frozenset[str]:
    """The paths below `folder` whose bytes are those of HEAD, as far as git says."""
    # Git gives no answer at all if one of those that it is asked for is not there.
    there = (path for path in paths if os.path.isfile(f"{folder}/{path}"))
    named = sorted(path for path in there if _fills_a_line(path) and _fills_a_line(folder))
    if not named:
        return frozenset()
    asked = "".join(f"HEAD:./{path}\n" for path in named)
    committed = git("cat-file", "--batch-check=%(objectname)", stdin=asked).split("\n")
    here = git(
        *("hash-object", "--no-filters", "--stdin-paths"),
        stdin="".join(f"{folder}/{path}\n" for path in named),
    ).split("\n")
    rows = zip(named, committed, here, strict=False)
    return frozenset(path for path, blob, found in rows if blob == found)


def is_as_checked_out(git: Git, path: str, content: bytes) -> bool:
    """Whether git itself, with its filters, makes these bytes of what HEAD has in their place.

    Nobody has edited them then, though git may call them modified. A filter that fails may make
    anything of it.
    """
    entry = git("ls-tree", "HEAD", "--", f"./{path}").partition("\t")[0].split(" ")
    if len(entry) < 3:
        return False
    blob = entry[2]
    if _blob_id(content, len(blob)) == blob:
        return True
    try:
        made = git("cat-file", "--filters", f"HEAD:./{path}")
    except ProblemError:
        return True
    return made.encode("utf-8", "surrogateescape") == content


def _blob_id(content: bytes, length: int) -> str:
    blob = b"blob %d\0%b" % (len(content), content)
    made = sha256(blob) if length == 64 else sha1(blob, usedforsecurity=False)
    return made.hexdigest()


def _fills_a_line(path: str) -> bool:
    """Git is asked for each on a line of its own, and takes a quote at its start for one."""
    return "\n" not in path and not path.startswith('"')
