"""What discovery changed in the spec of a node, and what has to be approved again."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.cli.text import TextLine, line
from reconciler.cli.views import edited
from reconciler.operations.node.correct import Corrected


def lines(found: Corrected) -> Iterator[TextLine]:
    if not found.changed:
        place = f"{found.file}:{found.line}"
        why = "nothing that a program may correct" if found.notes else "what is written"
        yield line(f"{found.ref} shows {why}: {place}. Nothing was written.")
        return
    for one in found.values:
        for key, value in one.after.items():
            path = ".".join(part for part in (one.slot, one.part, key) if part)
            yield line(f"  ~ {path}: {one.before[key]} -> {value}", hang=4)
    for name in found.added:
        yield line(f"  + {name}: a slot that nobody has approved")
    rows = {"written": f"{found.file}:{found.line}"}
    if found.fallen:
        rows["fallen"] = f"approvals of {', '.join(found.fallen)}"
    name = found.ref.removeprefix("node/")
    rows["then"] = f"read it, and: gpuaas node approve {name}"
    yield from edited.lines(
        "updated", f"{found.ref}, as its host shows it", rows, f"Update {found.ref}"
    )
