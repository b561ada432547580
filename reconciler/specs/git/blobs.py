"""Blobs: the content of files in the commits that have them, each document's value by its ref.

Remembered by the id of the blob, so that each is read and parsed once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import field

from reconciler.model.canonical import digest
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.spec.document import DocumentCache
from reconciler.specs.git.history import Git
from reconciler.specs.read.check_file import ref_of
from reconciler.specs.read.library import SIZE_LIMIT, program_digest
from reconciler.specs.read.text import is_pointer
from reconciler.specs.read.yaml_reader import read_documents

ABSENT = ""
"""The value of a document that is not there, and the name of no blob."""

ANY = ""
"""In the place of a name: a document of any name may stand there."""

UNREADABLE = "unreadable "
"""How the value begins of a document that may stand in a blob which nobody can read."""

UNSAID = "unsaid"
"""The value of what a file says and its commit does not, though nobody has edited it."""

_SEVERAL = "several"
"""How the value begins of what a file states more than once; each of them follows."""

_WORD = re.compile(rb"[A-Za-z0-9._-]+")
_ID = re.compile(r"[0-9a-f]{40,64}")
WORDS_LIMIT = 8 << 20
"""In a longer text that nobody can read any name may stand."""

Documents = Mapping[Ref, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Said:
    """What a blob says; `documents` is None if nobody can tell, and then `words` are its names."""

    documents: Documents | None = None
    words: frozenset[str] = field(default_factory=lambda: frozenset({ANY}))

    def may_hold(self, name: str) -> bool:
        return ANY in self.words or name in self.words


_UNKNOWN = _Said()


class Blobs:
    """A blob is named by its id, or by `COMMIT:./PATH`; `load` reads many at once."""

    def __init__(self, git: Git, cache: DocumentCache) -> None:
        self._git = git
        self._cache = cache
        self._space = f"blobs {program_digest()}"
        self._content: dict[str, bytes] = {}
        self._plain: dict[str, bool] = {}
        self._said: dict[str, _Said] = {}
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
            for name, content in contents(said.encode("utf-8", "surrogateescape"), rest):
                if content is not None:
                    self._content[name] = content
                else:
                    # A blob that a commit has and git does not show may say anything; a path that
                    # a commit has not says nothing.
                    self._said[name] = _UNKNOWN if _ID.fullmatch(name) else _Said(documents={})

    def _small(self, names: Collection[str]) -> set[str]:
        """Files small enough to ask git for; no spec file can be larger."""
        if not names:
            return set()
        asked = sorted(names)
        said = self._git("cat-file", "--batch-check", stdin="".join(f"{one}\n" for one in asked))
        large = {
            name
            for name, line in zip(asked, said.split("\n"), strict=False)
            if (size := line.rpartition(" ")[2]).isdecimal() and int(size) > SIZE_LIMIT
        }
        self._said.update(dict.fromkeys(large, _UNKNOWN))
        return set(asked) - large

    def keep(self) -> None:
        """Remember all that was read since."""
        if self._fresh:
            self._cache.put_many(self._space, self._fresh)
            self._fresh = {}

    def documents(self, name: str) -> Documents | None:
        """All that a loaded blob says; None if nobody can tell."""
        return {} if name == ABSENT else self._said_of(name).documents

    def _said_of(self, name: str) -> _Said:
        if name not in self._said:
            content = self._content.pop(name)
            found = documents_of(content)
            words = frozenset(_words(content)) if found is None else frozenset()
            self._said[name] = _Said(documents=found, words=words)
            if _ID.fullmatch(name):
                self._fresh[name] = _stored(self._said[name])
        return self._said[name]

    def names(self, name: str) -> Iterable[str]:
        """The names that documents in a loaded blob may have; ANY where its text cannot tell."""
        content = self._content.get(name)
        if content is not None:
            return _words(content)
        said = self._said_of(name)
        if said.documents is None:
            return said.words
        return {ref.name for ref in said.documents}

    def value(self, name: str, ref: Ref) -> str:
        """The value of a document in a loaded blob; one of its own for what nobody can read.

        It is the same whether the blob was read just now or is remembered.
        """
        if name == ABSENT or self._is_plainly_without(name, ref.name):
            return ABSENT
        said = self._said_of(name)
        if said.documents is not None:
            return said.documents.get(ref, ABSENT)
        return f"{UNREADABLE}{name}" if said.may_hold(ref.name) else ABSENT

    def _is_plainly_without(self, blob: str, name: str) -> bool:
        """Parsing costs much, and in plain text a name stands as it is."""
        content = self._content.get(blob)
        if content is None or name.encode() in content:
            return False
        if blob not in self._plain:
            self._plain[blob] = _is_plain(content)
        return self._plain[blob]


def _is_plain(content: bytes) -> bool:
    """Whether every name stands in the text as it is written, even where nobody can read it."""
    if len(content) > WORDS_LIMIT or b"\\" in content or b"\0" in content or is_pointer(content):
        return False
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def _words(content: bytes) -> set[str]:
    if not _is_plain(content):
        return {ANY}
    return {word.decode() for word in _WORD.findall(content)}


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
            found[ref] = f"{_SEVERAL} {found[ref]} {value}" if ref in found else value
    return found


def may_come_from(value: str, before: str) -> bool:
    """Whether a document may have had its value before, where another was seen.

    In a text that nobody can read, or stated more than once.
    """
    several = before.startswith(_SEVERAL) and value in before.split(" ")
    return several or before.startswith(UNREADABLE)


def contents(said: bytes, names: Iterable[str]) -> Iterator[tuple[str, bytes | None]]:
    """What `cat-file --batch` answers, in the order of what was asked; None for what is not."""
    at = 0
    for name in names:
        end = said.index(b"\n", at)
        words = said[at:end].split(b" ")
        at = end + 1
        size = int(words[-1]) if words[-1].isdigit() else -1
        yield name, said[at : at + size] if size >= 0 else None
        at += size + 1


def _stored(said: _Said) -> str:
    if said.documents is None:
        return json.dumps({"words": sorted(said.words)})
    return json.dumps([[*ref, value] for ref, value in said.documents.items()])


def _restored(row: str) -> _Said:
    rows = json.loads(row)
    if isinstance(rows, dict):
        return _Said(words=frozenset(rows["words"]))
    return _Said(documents={Ref(*ref): value for *ref, value in rows}, words=frozenset())
