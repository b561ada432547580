"""What a resource takes with it when it leaves the books or is renamed.

The order is the order. A feature that keeps something under a ref has a row here.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Sequence

from reconciler.model.plan.verb import Verb
from reconciler.model.ref import Ref
from reconciler.store.tables import (
    acceptances,
    accounts,
    attachments,
    installs,
    observations,
    people,
    revocations,
    volumes,
)
from reconciler.store.transaction import Record

STAYS: tuple[Callable[[sqlite3.Connection, Collection[str]], frozenset[str]], ...] = (
    volumes.in_hand,
)
"""Which of these refs stay on the books, whatever documents say."""

LEAVE: tuple[Callable[[Record, Sequence[Ref]], None], ...] = (volumes.leave,)
"""What becomes of what they leave behind, while all that they belong to is still recorded."""

UNSEE: tuple[Callable[[Record, Sequence[Ref]], None], ...] = (observations.forget, installs.forget)
"""What was seen under a name is no evidence of what comes by it later."""

FORGET: tuple[Callable[[Record, Sequence[Ref]], None], ...] = (
    *UNSEE,
    people.forget,
    revocations.forget,
    acceptances.forget,
    volumes.forget,
)
"""What goes with them."""

RENAME: tuple[Callable[[Record, Ref, Ref], None], ...] = (
    people.rename,
    revocations.rename,
    acceptances.rename,
    volumes.rename,
    attachments.rename,
    accounts.rename_gid,
)
"""What goes on under the other name."""

SHOW_NOTHING = frozenset({Verb.FORGET})
"""Verbs after which a host shows all that it has shown before."""


def unsee(record: Record, nodes: Sequence[Ref]) -> None:
    """What these said counts no more."""
    for part in UNSEE:
        part(record, nodes)
