"""Taints: what is unknown of a node since the state was lost, and what ended that."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence

from reconciler.model.codec import encode
from reconciler.model.ref import Ref
from reconciler.model.state.event import EventType
from reconciler.model.state.rebuilt import EndedDoubt, JudgedDoubts
from reconciler.model.state.world import Doubt, DoubtKind
from reconciler.store.registry.contract import Table
from reconciler.store.transaction import EventDraft, Record


def read_doubts(connection: sqlite3.Connection) -> tuple[Doubt, ...]:
    rows = connection.execute("SELECT node, kind, reason, since FROM doubt ORDER BY node, kind")
    return tuple(
        Doubt(node=node, kind=DoubtKind(kind), reason=reason, since=since)
        for node, kind, reason, since in rows
    )


def judge(record: Record, judged: JudgedDoubts, why: str = "") -> None:
    """What a look has come to, or somebody's word of `why` no look is to be waited for."""
    begin(record, judged.kept)
    end(record, judged.ended, why)


def begin(record: Record, doubts: Iterable[Doubt]) -> None:
    """One that is there already stays as old as it is, with the reason of now."""
    known = {(one.node, one.kind) for one in read_doubts(record.connection)}
    doubts = sorted(doubts, key=lambda one: (one.node, one.kind))
    record.write(
        *(
            EventDraft(
                type=EventType.DOUBTED,
                ref=_node(one.node),
                after={"kind": one.kind},
                reason=one.reason,
            )
            for one in doubts
            if (one.node, one.kind) not in known
        )
    )
    record.connection.executemany(
        "INSERT INTO doubt (node, kind, reason, since) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (node, kind) DO UPDATE SET reason = excluded.reason",
        [(one.node, one.kind.value, one.reason, record.at) for one in doubts],
    )


def end(record: Record, ended: Sequence[EndedDoubt], why: str = "") -> None:
    """With what was measured; or with `why`, where somebody's word stands for that."""
    record.write(
        *(
            EventDraft(
                type=EventType.DOUBT_ENDED,
                ref=_node(one.node),
                after={"kind": one.kind, "checks": encode(one.checks)},
                reason=why,
            )
            for one in ended
        )
    )
    record.connection.executemany(
        "DELETE FROM doubt WHERE node = ? AND kind = ?",
        [(one.node, one.kind.value) for one in ended],
    )


def raise_floors(connection: sqlite3.Connection, least: Mapping[str, int]) -> None:
    """From now on every counter goes on above these, whatever rows of it there are."""
    before = floors(connection)
    connection.executemany(
        "INSERT INTO counter_floor (counter, number) VALUES (?, ?)"
        " ON CONFLICT (counter) DO UPDATE SET number = excluded.number",
        sorted(one for one in least.items() if one[1] > before.get(one[0], -1)),
    )


def highest(connection: sqlite3.Connection) -> Mapping[str, int]:
    """The highest uid and gid that were given to anybody, or that may have been."""
    least = floors(connection)
    given = dict(
        connection.execute("SELECT kind, max(number) FROM posix_id GROUP BY kind").fetchall()
    )
    return {kind: max(given.get(kind, 0), least.get(kind, 0)) for kind in ("uid", "gid")}


def both(nodes: Iterable[str], reason: str, since: str) -> Iterable[Doubt]:
    """Everything that can be in doubt about these nodes."""
    for node in sorted(nodes):
        for kind in DoubtKind:
            yield Doubt(node=node, kind=kind, reason=reason, since=since)


def floors(connection: sqlite3.Connection) -> Mapping[str, int]:
    return dict(connection.execute("SELECT counter, number FROM counter_floor").fetchall())


def _node(name: str) -> Ref:
    return Ref("node", "", name)


TABLE = Table(read={"doubts": read_doubts})
