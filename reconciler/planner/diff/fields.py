"""Fields: how one normal form differs from another, and the change word of each difference.

Entries of keyed lists are compared by their key, never by their position, so that taking one out
of the middle touches none of the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from reconciler.model.plan.plan import FieldChange

KEYS = ("id", "name", "user", "allocation", "bundle", "version", "from", "at", "mountPath")
"""What entries of keyed lists are called by, in the order in which they are tried."""

UNKNOWN_FIELD = "refuse"
"""The word for a field that no rule names: fail closed."""

_ENTRY = re.compile(r"\[[^\]]*\]")


def compare_fields(
    before: Mapping[str, object], after: Mapping[str, object], rules: Mapping[str, str]
) -> tuple[FieldChange, ...]:
    """Every leaf that differs, in order of its path."""
    return tuple(
        FieldChange(path=path, before=old, after=new, rule=word_of(path, rules))
        for path, old, new in sorted(_differences("", before, after), key=lambda found: found[0])
    )


def word_of(path: str, rules: Mapping[str, str]) -> str:
    """The change word of the field at `path`: its own rule, else that of what it is part of."""
    plain = _ENTRY.sub("[]", path)
    at = plain
    while at:
        for known in (at, f"{at}[]"):
            if known in rules:
                return rules[known]
        at = at[:-2] if at.endswith("[]") else at.rpartition(".")[0]
    below = {word for known, word in rules.items() if known.startswith((f"{plain}.", f"{plain}["))}
    return below.pop() if len(below) == 1 else UNKNOWN_FIELD


def entry_of(path: str, field: str) -> str:
    """The key of the entry of `field` that `path` leads into: `s0` of `spec.slots[s0].gpu`."""
    found = re.match(re.escape(field) + r"\[([^\]]*)\]", path)
    return found[1] if found else ""


def _differences(path: str, before: object, after: object) -> Iterator[tuple[str, object, object]]:
    if before == after:
        return
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in before.keys() | after.keys():
            inner = f"{path}.{key}" if path else str(key)
            yield from _differences(inner, before.get(key), after.get(key))
        return
    old, new = _keyed(before), _keyed(after)
    if old is None or new is None or not (old or new):
        yield path, before, after
        return
    for key in old.keys() | new.keys():
        yield from _differences(f"{path}[{key}]", old.get(key), new.get(key))
    kept = [key for key in old if key in new]
    if kept != [key for key in new if key in old]:
        yield path, list(old), list(new)


def _keyed(entries: object) -> Mapping[str, object] | None:
    """The entries of a list by their key; None if they have none. A missing list is empty."""
    if entries is None:
        return {}
    if not isinstance(entries, Sequence) or isinstance(entries, str):
        return None
    if not all(isinstance(entry, Mapping) for entry in entries):
        return None
    for key in KEYS:
        names = [_name(entry, key) for entry in entries]
        if all(names) and len(set(names)) == len(names):
            return dict(zip(names, entries, strict=True))
    return None


def _name(entry: Mapping[str, object], key: str) -> str:
    if key == "bundle" and "version" in entry:
        return f"{entry.get(key, '')}@{entry['version']}"
    return str(entry.get(key, ""))
