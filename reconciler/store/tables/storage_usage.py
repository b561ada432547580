"""Usage of storage: so many GiB from when a host had them until it had wiped them.

What is kept is used as well: it takes the same room. The price is that of its class at the moment
at which a record begins; what has grown begins a new one.
"""

from __future__ import annotations

import json

from reconciler.model.moment import parse_moment
from reconciler.model.ref import parse_ref
from reconciler.store.transaction import Record


def begin(record: Record, volume: str) -> None:
    """From now on so much is used; nothing happens while it is what is being counted."""
    storage, class_, gib = record.connection.execute(
        "SELECT storage, class, size_gib FROM volume WHERE id = ?", (volume,)
    ).fetchone()
    open_ = record.connection.execute(
        "SELECT gib FROM storage_usage WHERE volume = ? AND ended = ''", (volume,)
    ).fetchone()
    if open_ == (gib,):
        return
    end(record, volume)
    ref = parse_ref(storage)
    project = ref.project if ref else ""
    record.connection.execute(
        "INSERT INTO storage_usage (volume, started, gib, storage, tenant, project, class,"
        " price_per_gib_month, currency) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *(volume, record.at, gib, storage),
            _tenant(record, project),
            project,
            class_,
            *_price(record, class_),
        ),
    )


def end(record: Record, volume: str) -> None:
    record.connection.execute(
        "UPDATE storage_usage SET ended = ? WHERE volume = ? AND ended = ''", (record.at, volume)
    )


def _tenant(record: Record, project: str) -> str:
    row = record.connection.execute(
        "SELECT json_extract(normal, '$.spec.tenant') FROM resource WHERE ref = ?",
        (f"project/{project}",),
    ).fetchone()
    return (row[0] if row else "") or ""


def _price(record: Record, class_: str) -> tuple[str, str]:
    """(price a GiB and month, currency); both empty if its class names none for this moment."""
    row = record.connection.execute(
        "SELECT json_extract(normal, '$.spec.prices') FROM resource WHERE ref = ?",
        (f"storage_class/{class_}",),
    ).fetchone()
    now = parse_moment(record.at)
    prices = json.loads(row[0]) if row and row[0] else []
    past = [
        (since, one)
        for one in prices
        if now and (since := parse_moment(one["from"])) and since <= now
    ]
    if not past:
        return "", ""
    _, last = max(past, key=lambda pair: pair[0])
    return str(last["perGiBMonth"]), str(last["currency"])
