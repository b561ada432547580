"""Checkout: whether a file in the folder equals its commit, byte for byte.

Attributes that a commit brings along (an encoding, `ident`, line ends) make a file say something
else than its blob does, and nobody has edited it then.
"""

from __future__ import annotations

from collections.abc import Collection
from hashlib import sha1, sha256

from reconciler.model.problem import ProblemError
from reconciler.specs.git.history import Git, entries
from reconciler.specs.read.library import read_file


def as_they_are(git: Git, folder: str, paths: Collection[str]) -> frozenset[str]:
    """The paths below `folder` whose bytes are those of HEAD, as far as git says."""
    if not paths:
        return frozenset()
    blobs = {path: blob for _, blob, path in entries(git, "HEAD") if path in paths}
    return frozenset(path for path, blob in blobs.items() if _is_blob(f"{folder}/{path}", blob))


def _is_blob(path: str, blob: str) -> bool:
    try:
        return _blob_id(read_file(path, path), len(blob)) == blob
    except ProblemError:
        return False


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
