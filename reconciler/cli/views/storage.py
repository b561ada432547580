"""Storages as text: where data is, what it is attached to, and whom to ask about kept data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from reconciler.cli.text import BLANK, Span, Style, TextLine, column, dim, line, strong
from reconciler.cli.views import problems as problems_view
from reconciler.cli.views import tables
from reconciler.model.state.reopening import Reopening
from reconciler.model.state.volume import VolumeState
from reconciler.operations.storage.fence import Fenced, Severed
from reconciler.operations.storage.reopen import Reopened
from reconciler.operations.storage.storage import (
    UNKNOWN,
    UNUSED,
    StorageHolder,
    StorageRow,
    StorageShown,
)

LABEL = 11
TITLES = "STORAGE STATE CLASS GiB USED WHERE ATTACHED PRICE/month"
KEPT_TITLES = "DATA STATE OF GiB SINCE WHERE VOLUME PRICE/month"
STYLES = {
    VolumeState.MADE.value: Style.GOOD,
    VolumeState.WIPING.value: Style.BAD,
    UNKNOWN: Style.BAD,
    UNUSED: Style.PLAIN,
}
EVERYWHERE = "every node of its class"


def rows(found: Iterable[StorageRow], *, width: int = 0) -> Iterator[TextLine]:
    table: list[tables.Row] = [
        (
            row.ref.removeprefix("storage/"),
            _toned(row.state),
            row.class_name,
            str(row.size_gib),
            _used(row),
            row.node or (EVERYWHERE if row.volume else ""),
            ", ".join(f"{_short(one.allocation)} {one.mode}" for one in row.holders),
            _price(row),
        )
        for row in found
    ]
    right = "GiB USED PRICE/month"
    yield from tables.lines(TITLES, table, width=width, right=right, none="no storage")


def orphans(found: tuple[StorageRow, ...], *, width: int = 0) -> Iterator[TextLine]:
    table: list[tables.Row] = [
        (
            row.ref.removeprefix("storage/") or "?",
            _toned(row.state),
            row.owner,
            str(row.size_gib) if row.ref else "",
            row.since,
            row.node or EVERYWHERE,
            row.volume,
            _price(row),
        )
        for row in found
    ]
    right = "GiB PRICE/month"
    none = "no data is kept that no document names"
    yield from tables.lines(KEPT_TITLES, table, width=width, right=right, none=none)
    if any(row.ref for row in found):
        yield line(dim("a Storage document of that name, or with it as formerName, takes it back;"))
        yield line(dim("to be rid of it, take it back with onDelete: wipe, apply, and remove it"))
    if any(not row.ref for row in found):
        yield line(dim("what no state knows of is taken in by: gpuaas state rebuild"))


def lines(found: StorageShown, *, width: int = 0) -> Iterator[TextLine]:
    row = found.row
    yield line(
        strong(row.ref), "   ", _toned(row.state), f" since {row.since}" if row.since else ""
    )
    if found.file:
        commit, author = found.origin.commit, found.origin.author
        by = f" in {commit[:7]} by {author}" if commit else ", not committed"
        yield _fact("file", f"{found.file}:{found.line}{by}")
    yield _fact("class", " · ".join(filter(None, (row.class_name, row.backend, row.access))))
    used = f", {_used(row)} used" if row.used_mib is not None else ""
    yield _fact("size", f"{row.size_gib} GiB{used}")
    if row.volume:
        yield _fact("data", f"volume {row.volume} on {row.node or EVERYWHERE}")
    yield from (_fact("owner", row.owner),) if row.owner else ()
    yield from (_fact("price", f"{_price(row)} a month"),) if row.price_per_month else ()
    yield from _holders(row.holders, width)
    if found.past:
        yield BLANK
        yield line(strong("HAD IT BEFORE"))
        titles = "ALLOCATION ID NODE MODE SINCE UNTIL ENDED-BY WHY"
        yield from tables.lines(titles, [_past(one) for one in found.past], width=width)
        if found.row.holders:
            short = row.ref.removeprefix("storage/")
            how = f"gpuaas storage reopen {short} --from ID --to ALLOCATION"
            yield line(dim(f"files that they closed to others stay closed: {how}"))


def severed(shown: Severed) -> Iterator[TextLine]:
    """What somebody is about to swear to."""
    one = shown.holder
    gone = one.phase or "gone"
    who = f"{one.allocation} ({one.allocation_id}, {gone})"
    yield line(strong(shown.storage), f" is attached to {who} as {one.mode} on {one.node}", hang=2)
    yield line(f"  {shown.silent}", hang=2)
    yield line("If it still writes there, what the next one writes is damaged. Nothing is asked of")
    yield line("the host: be sure that it is off, or that its tenant can reach the data no more.")


def fenced(found: Fenced) -> Iterator[TextLine]:
    one, short = found.severed.holder, found.severed.storage.removeprefix("storage/")
    yield line(
        strong(one.allocation),
        f" ({one.allocation_id}) is ",
        Span("cut off", Style.WARN),
        f" from {found.severed.storage} by the word of {found.actor}: {found.reason}",
        hang=2,
    )
    left = ", ".join(f"{_short(other.allocation)} {other.mode}" for other in found.left)
    yield line(f"it is still attached to {left}" if left else "nobody has it now", hang=2)
    yield line(dim(f"it is for good, and kept: gpuaas storage show {short}"))
    for problem in found.problems:
        yield from problems_view.one(problem)


def reopening(shown: Reopening) -> Iterator[TextLine]:
    """Whose files are about to be whose."""
    old, new = shown.old, shown.new
    whose = ", ".join(person or "people whom nobody has written down" for person in old.people)
    yield line(
        strong(str(shown.storage)),
        f" on {shown.node}: what {_short(old.ref)} ({old.allocation_id}, uid {old.uid},"
        f" until {old.until}) has left becomes that of {_short(str(new.ref))}"
        f" ({new.allocation_id}, uid {new.uid})",
        hang=2,
    )
    yield line(f"  it was owned by {whose or 'nobody knows whom'}, and is by {new.owner}", hang=2)
    said = f"This opens them, closed ones too, to all who may log in there: {', '.join(new.people)}"
    yield line(Span(said, Style.BAD if shown.to_others else Style.PLAIN), hang=2)
    yield line("Nobody else's files are touched, and no group and no mode changes.")


def reopened(found: Reopened) -> Iterator[TextLine]:
    one = found.reopening
    short = str(one.storage).removeprefix("storage/")
    new = _short(str(one.new.ref))
    yield line(
        strong(str(found.changed)),
        f" files of {one.old.allocation_id} in {short} are that of ",
        strong(new),
        f", by the word of {found.actor}: {found.reason}",
        hang=2,
    )
    if found.left:
        yield line(Span("left as they were: ", Style.WARN), found.left, hang=2)
    for problem in found.problems:
        yield from problems_view.one(problem)


def _holders(found: tuple[StorageHolder, ...], width: int) -> Iterator[TextLine]:
    yield BLANK
    yield line(strong("ATTACHED TO"), "" if found else "  nobody")
    if not found:
        return
    table: list[tables.Row] = [
        (
            one.allocation.removeprefix("allocation/"),
            one.allocation_id,
            one.node,
            one.mode,
            one.mount_path,
            one.since,
            one.phase or Span("gone", Style.BAD),
        )
        for one in found
    ]
    yield from tables.lines("ALLOCATION ID NODE MODE AT SINCE PHASE", table, width=width)


def _past(one: Mapping[str, Any]) -> tables.Row:
    by = f" of {one['fenced_by']}" if one["fenced_by"] else ""
    return (
        _short(one["ref"]),
        one["allocation_id"],
        one["node"],
        one["mode"],
        one["since"],
        one["ended"],
        f"{one['ended_by']}{by}",
        one["fenced_why"] or "",
    )


def _toned(state: str) -> Span:
    return Span(state, STYLES.get(state, Style.WARN))


def _used(row: StorageRow) -> str:
    if row.used_mib is None:
        return UNKNOWN if row.volume else ""
    return f"{row.used_mib} MiB"


def _price(row: StorageRow) -> str:
    return f"{row.price_per_month} {row.currency}" if row.price_per_month else ""


def _short(ref: str) -> str:
    return ref.removeprefix("allocation/")


def _fact(label: str, text: str) -> TextLine:
    return line(dim(column(label, LABEL)), text, hang=LABEL)
