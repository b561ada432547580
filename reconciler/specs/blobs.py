"""Blobs: what files say in the commits that have them, each document's value by its ref.

Remembered by the id of the blob, so that each is read and parsed once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping

from reconciler.model.canonical import digest
from reconciler.model.document import DocumentCache
from reconciler.model.ref import Ref
from reconciler.specs.documents import read_documents
from reconciler.specs.history import Git
from reconciler.specs.judging import ref_of
from reconciler.specs.library import SIZE_LIMIT, program_digest
from reconciler.specs.text import is_pointer

ABSENT = ""
"""The value of a document that is not there, and the name of no blob."""

ANY = ""
"""In the place of a name: a document of any name may stand there."""

_WORD = re.compile(rb"[A-Za-z0-9._-]+")
_ID = re.compile(r"[0-9a-f]{40,64}")

Documents = Mapping[Ref, str]


class Blobs:
    """A blob is named by its id, or by `COMMIT:./PATH`; `load` reads many at once."""

    def __init__(self, git: Git, cache: DocumentCache) -> None:
        self._git = git
        self._cache = cache
        self._space = f"blobs {program_digest()}"
        self._content: dict[str, bytes] = {}
        self._said: dict[str, Documents | None] = {}
        self._fresh: dict[str, str] = {}

    def load(self, names: Iterable[str]) -> None:
        wanted = {name for name in names if name not in self._content and name not in self._said}
        wanted.discard(ABSENT)
        if not wanted:
            return
        ids = [name for name in wanted if _ID.fullmatch(name)]
        for name, row in self._cache.get_many(self._space, ids).items():
            self._said[name] = _restored(row)
        rest = sorted(self._small(wanted - self._said.keys()))
        if rest:
            said = self._git("cat-file", "--batch", stdin="".join(f"{name}\n" for name in rest))
            self._content.update(_contents(said.encode("utf-8", "surrogateescape"), rest))

    def _small(self, names: Collection[str]) -> set[str]:
        """Those that git may be asked for the text of; the others no file of specs can be."""
        if not names:
            return set()
        asked = sorted(names)
        said = self._git("cat-file", "--batch-check", stdin="".join(f"{one}\n" for one in asked))
        large = {
            name
            for name, line in zip(asked, said.split("\n"), strict=False)
            if (size := line.rpartition(" ")[2]).isdecimal() and int(size) > SIZE_LIMIT
        }
        self._said.update(dict.fromkeys(large))
        return set(asked) - large

    def keep(self) -> None:
        """Remember all that was read since."""
        if self._fresh:
            self._cache.put_many(self._space, self._fresh)
            self._fresh = {}

    def documents(self, name: str) -> Documents | None:
        """All that a loaded blob says; None if nobody can tell."""
        if name == ABSENT:
            return {}
        if name not in self._said:
            content = self._content.pop(name)
            self._said[name] = found = documents_of(content)
            if _ID.fullmatch(name):
                self._fresh[name] = _stored(found)
        return self._said[name]

    def names(self, name: str) -> Iterable[str]:
        """The names that documents in a loaded blob may have; ANY where its text cannot tell."""
        content = self._content.get(name)
        if content is None:
            found = self.documents(name)
            return {ANY} if found is None else {ref.name for ref in found}
        if b"\\" in content:
            return {ANY}
        return {word.decode() for word in _WORD.findall(content)}

    def value(self, name: str, ref: Ref) -> str:
        """The value of a document in a loaded blob; one of its own for what nobody can read."""
        content = self._content.get(name)
        if content is not None and b"\\" not in content and ref.name.encode() not in content:
            # Parsing costs much, and without escapes a name stands in the text as it is.
            return ABSENT
        found = self.documents(name)
        return f"unreadable {name}" if found is None else found.get(ref, ABSENT)


def documents_of(content: bytes) -> Documents | None:
    """The digest of each document's parsed value; None where one cannot be told from another."""
    if is_pointer(content):
        return None
    parsed = read_documents("", content)
    if not parsed.complete:
        return None
    found: dict[Ref, str] = {}
    for located in parsed.documents:
        ref = ref_of(located.document.value)
        if ref is not None:
            value = digest(located.document.value)
            found[ref] = digest([found[ref], value]) if ref in found else value
    return found


def _contents(said: bytes, names: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """What `cat-file --batch` answers, in the order of what was asked; nothing for what is not."""
    at = 0
    for name in names:
        end = said.index(b"\n", at)
        words = said[at:end].split(b" ")
        at = end + 1
        size = int(words[-1]) if words[-1].isdigit() else -1
        yield name, said[at : at + size] if size >= 0 else b""
        at += size + 1


def _stored(found: Documents | None) -> str:
    rows = None if found is None else [[*ref, value] for ref, value in found.items()]
    return json.dumps(rows)


def _restored(row: str) -> Documents | None:
    rows = json.loads(row)
    return None if rows is None else {Ref(*ref): value for *ref, value in rows}
