"""Accounts: logins, uids and gids; each is given once and kept for cleanup."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence

from reconciler.model.plan.claim import ClaimIntent
from reconciler.model.ref import Ref
from reconciler.model.state.world import Counters
from reconciler.store.registry.contract import Table
from reconciler.store.rows import stored_ref
from reconciler.store.tables.taints import floors, highest
from reconciler.store.transaction import Record


def keep_logins(record: Record, accounts: Iterable[tuple[str, str, str]]) -> None:
    """Write (login, allocation id, ref), each once; a login is never given to another."""
    record.connection.executemany(
        "INSERT INTO login (login, allocation_id, ref, since) SELECT ?1, ?2, ?3, ?4"
        " WHERE NOT EXISTS (SELECT 1 FROM login WHERE login = ?1 AND allocation_id = ?2)",
        [(*account, record.at) for account in sorted(accounts) if account[0]],
    )


def keep_numbers(record: Record, claims: Sequence[ClaimIntent]) -> None:
    """Write the uid of each allocation that gets an account, and the gid of its project."""
    uids = {("uid", claim.uid, claim.allocation_id) for claim in claims if claim.uid is not None}
    gids = {("gid", claim.gid, claim.project) for claim in claims if claim.gid is not None}
    _keep(record, uids | gids)


def keep_gids(record: Record, gids: Mapping[str, int]) -> None:
    """Write the gids of projects, whose files bear these numbers wherever they are."""
    _keep(record, {("gid", number, project) for project, number in gids.items()})


def _keep(record: Record, numbers: Collection[tuple[str, int, str]]) -> None:
    record.connection.executemany(
        "INSERT INTO posix_id (kind, number, owner, since) SELECT ?1, ?2, ?3, ?4"
        " WHERE NOT EXISTS (SELECT 1 FROM posix_id"
        " WHERE kind = ?1 AND number = ?2 AND owner = ?3 AND ended = '')",
        [(*one, record.at) for one in sorted(numbers)],
    )


def end_gids(record: Record, gone: Iterable[Ref]) -> None:
    """A project that comes back under the name of a former one gets none of its files."""
    record.connection.executemany(
        "UPDATE posix_id SET ended = ? WHERE kind = 'gid' AND owner = ? AND ended = ''",
        [(record.at, ref.name) for ref in gone if ref.kind == "project"],
    )


def rename_gid(record: Record, former: Ref, ref: Ref) -> None:
    """A project under another name keeps its files: the number stays, with a new owner."""
    if ref.kind != "project":
        return
    row = record.connection.execute(
        "SELECT number FROM posix_id WHERE kind = 'gid' AND owner = ? AND ended = ''",
        (former.name,),
    ).fetchone()
    if row is not None:
        record.connection.execute(
            "UPDATE posix_id SET owner = ? WHERE kind = 'gid' AND number = ?", (ref.name, row[0])
        )


def read_counters(connection: sqlite3.Connection) -> Counters:
    counts = connection.execute("SELECT ref, count FROM incarnation")
    login_of = dict(connection.execute("SELECT allocation_id, login FROM login").fetchall())
    numbers = connection.execute("SELECT kind, owner, number, ended FROM posix_id").fetchall()
    last, least = highest(connection), floors(connection)
    return Counters(
        incarnations={stored_ref(ref): count for ref, count in counts},
        logins=frozenset(login_of.values()),
        login_of=login_of,
        uids={owner: number for kind, owner, number, _ in numbers if kind == "uid"},
        gids={owner: number for kind, owner, number, end in numbers if kind == "gid" and not end},
        given_gids=frozenset(number for kind, _, number, _ in numbers if kind == "gid"),
        last_uid=last["uid"],
        last_gid=last["gid"],
        least_uid=least.get("uid", 0),
        least_gid=least.get("gid", 0),
        least_incarnation=least.get("incarnation", 0),
    )


TABLE = Table(rename=rename_gid, read={"counters": read_counters})
