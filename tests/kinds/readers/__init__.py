"""Who keeps what a document says: for every field of every schema, a module that reads it.

A kind has a file of its own here, a field a line, and `settings` has one too; nothing is done of a
kind without a file, each is blocked by its `unsupported`. After the field stands the module, and
after a colon the attribute by which it reads the field, where that is not the field's own name.
`shown` are words for people, which `gpuaas show` prints as they stand. `refused` are legal only
beside a value that is refused itself. `only-choice` has one legal value, which says what happens
anyway.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from reconciler.model.ref import KIND_WORDS

FOLDER = Path(__file__).parent


def stated() -> Iterator[tuple[str, str, bool]]:
    """Each field with its reader, and whether it has one choice only."""
    for path in sorted(FOLDER.glob("*.txt")):
        for line in path.read_text("utf-8").splitlines():
            field, reader, *only = line.split()
            assert only in ([], ["only-choice"]), line
            yield f"{path.stem}.{field}", reader, bool(only)


STATED = tuple(stated())
READERS = {field: reader for field, reader, _ in STATED if reader not in ("shown", "refused")}
SHOWN = frozenset(field for field, reader, _ in STATED if reader == "shown")
ONE_CHOICE = frozenset(field for field, _, only in STATED if only)
REFUSED_BESIDE = tuple(field for field, reader, _ in STATED if reader == "refused")
WHOLLY_REFUSED = tuple(
    word for word in KIND_WORDS.values() if not (FOLDER / f"{word}.txt").exists()
)
