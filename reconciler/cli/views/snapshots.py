"""Snapshots of the state, as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reconciler.cli.text import TextLine
from reconciler.cli.views import tables
from reconciler.model.state.snapshot import Snapshot

MIB = 1 << 20


def lines(found: Sequence[Snapshot], width: int) -> Iterator[TextLine]:
    rows = [
        (
            f"#{one.serial}",
            one.at,
            f"{one.size / MIB:.1f} MiB",
            one.run,
            one.commit[:7],
            one.problem,
        )
        for one in found
    ]
    return tables.lines(
        "STATE TAKEN SIZE AFTER COMMIT PROBLEM",
        rows,
        width=width,
        right="SIZE",
        none="no apply has kept a snapshot yet",
    )
