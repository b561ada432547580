"""The contract of a table: what it writes at each moment of an apply, and what it reads.

A moment that a table leaves out is nothing to it. At each moment tables are asked in the order of
`registry.TABLES`, and events are told in that order.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field

from reconciler.model.host.evidence import Observation
from reconciler.model.plan.work import WaveIntent, WaveOutcome
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.state.world import Recorded
from reconciler.store.transaction import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Each module of `store/tables` that has any of this defines one, as `TABLE`."""

    hold: Callable[[Record, WaveIntent], None] | None = None
    """A wave begins: what its steps are about to take, or to make, is held from now on."""
    begin: Callable[[Record, WaveIntent], None] | None = None
    """A wave begins, and all that it takes is held: its steps, and what goes with them."""

    settle: Callable[[Record, WaveOutcome], None] | None = None
    """A wave has ended: what became of its steps."""
    observe: Callable[[Record, Sequence[Observation]], None] | None = None
    """What nodes have said, in a wave or outside of any."""
    conclude: Callable[[Record, WaveOutcome], None] | None = None
    """A wave has ended, and what nodes said is written: what follows from both."""

    keep: Callable[[Record, Sequence[Recorded]], None] | None = None
    """Resources as they are applied from now on."""
    done: Callable[[Record, Sequence[Ref]], None] | None = None
    """All that was done, whether recorded or gone."""
    end: Callable[[Record, Sequence[Ref]], None] | None = None
    """A wave has ended: what was to leave the books."""
    note: Callable[[Record, Sequence[Ref]], None] | None = None
    """What was done without any host."""

    stays: Callable[[sqlite3.Connection, Collection[str]], frozenset[str]] | None = None
    """Which of these refs stay on the books, whatever documents say."""
    leave: Callable[[Record, Sequence[Ref]], None] | None = None
    """Refs leave the books: what they leave behind, while all they belong to is still recorded."""
    unsee: Callable[[Record, Sequence[Ref]], None] | None = None
    """What was seen under these names is no evidence of what comes by them later."""
    forget: Callable[[Record, Sequence[Ref]], None] | None = None
    """Refs have left the books: what goes with them."""
    rename: Callable[[Record, Ref, Ref], None] | None = None
    """What goes on under the other name."""

    read: Mapping[str, Callable[[sqlite3.Connection], object]] = field(default_factory=dict)
    """What it gives to the World: the name of a field, and how that is read."""
