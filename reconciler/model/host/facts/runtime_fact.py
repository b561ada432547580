"""Runtime facts: what a host tells of the versions of bundles that it has, as named facts."""

from __future__ import annotations

from enum import StrEnum

from reconciler.model.records import dataclass

LISTED = "runtime *"
"""The fact of a host that tells all of its runtimes: what it does not name is not there."""


class RuntimeWord(StrEnum):
    STAGED = "staged"
    STAGING = "staging"
    FAILED = "failed"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeFact:
    """`staged DIGEST`, `staging PHASE`, `failed CODE: REASON` or `changed COUNT: PATH`.

    `rest` is what follows the word. Nothing, and what nobody knows to read, has no word.
    """

    text: str
    word: RuntimeWord | None = None
    rest: str = ""


def runtime_key(bundle: str, version: str) -> str:
    """The name of the fact that tells how a version stands on a host."""
    return f"runtime {bundle}/{version}"


def default_key(bundle: str) -> str:
    """The name of the fact that tells which version of a bundle is the host's default."""
    return f"current {bundle}"


def staged(digest: str) -> str:
    """What a host tells of a version that stands as it was built."""
    return f"{RuntimeWord.STAGED} {digest}"


def read_runtime(text: str) -> RuntimeFact:
    word, _, rest = text.partition(" ")
    known = RuntimeWord(word) if word in _WORDS else None
    return RuntimeFact(text=text, word=known, rest=rest if known else "")


_WORDS = frozenset(word.value for word in RuntimeWord)
