"""Errors of GPUs: what their driver reports in any field, and what the kernel has logged.

By PCI address, since a card that fell off the bus has no other name left. What they mean is not
judged here.
"""

from __future__ import annotations

import re
from typing import Iterator, Mapping, Optional

from .cards import Inquiry, inquiry, on_bus
from .probes import Probes, printable
from .smi import INFOROM
from .smi_log import Card
from .xids import read_xids

NONE = frozenset({"", "0", "no", "n/a", "not supported", "not available", "not found"})
LACKS = frozenset({*NONE, "function not found", "insufficient permissions", "not applicable"})
DEPRECATED = "functionality has been deprecated"
ERROR = re.compile(
    r"err!?|error|unknown error|(gpu )?(is )?lost|(gpu )?(requires|needs) reset|reset required"
    r"|(gpu )?(has )?fallen off the bus.*|.*driver/library version mismatch.*",
    re.IGNORECASE,
)
"""Words for a card in error where they stand without brackets."""

COUNTED = {
    "ecc.errors.uncorrected.volatile.total": "uncorrected",
    "retired_pages.pending": "pages pending",
}
ROWS = {
    "remapped_rows/remapped_row_pending": "rows pending",
    "remapped_rows/remapped_row_failure": "rows failed",
}
MIG_OFF = frozenset({"disabled", "n/a", "not supported"})
DONE, WELL = "completed", frozenset({"success", "n/a", "not supported", ""})
MAX_WORDS = 120


def read_card_errors(probes: Probes) -> dict[str, list[str]]:
    """The errors of each GPU, as words; a sound one has none.

    The words are `xid 79`, `uncorrected 3`, `pages pending`, `rows pending`, `rows failed`, `says
    <word>`, `mig Enabled`, `fabric In Progress`, `recovery Reset`, `lost <words>` and `inforom
    corrupted`. What a GPU does not answer, or not in a known form, is `… unknown`.
    """
    told = inquiry(probes)
    found = read_xids(probes)
    for address, row in told.rows.items():
        found.setdefault(address, set()).update(of_row(row), of_log(told.log.get(address), row))
    for address, row in told.dead.items():
        found.setdefault(address, set()).update(said_in(row))
    for address, words in remarked(probes, told):
        found.setdefault(address, set()).add(words)
    return {address: sorted(errors) for address, errors in found.items() if errors}


def remarked(probes: Probes, told: Inquiry) -> Iterator[tuple[str, str]]:
    """A line about a card beside the answer; and cards on the bus of which nothing was said."""
    named = {remark.address for remark in told.remarks}
    for remark in told.remarks:
        if INFOROM.search(remark.words):
            if remark.address:
                yield remark.address, "inforom corrupted"
        elif remark.address:
            word = "says" if remark.address in told.rows else "lost"
            yield remark.address, printable(f"{word} {remark.words}")[:MAX_WORDS]
    nameless = [remark.words for remark in told.remarks if not remark.address]
    for address in on_bus(probes) if nameless else ():
        if address not in named.union(told.rows, told.dead):
            yield address, printable(f"lost {nameless[0]}")[:MAX_WORDS]


def of_row(row: Mapping[str, str]) -> Iterator[str]:
    for field, word in COUNTED.items():
        if told := counted(word, row.get(field)):
            yield told
    yield from said_in(row)


def of_log(card: Optional[Card], row: Mapping[str, str]) -> Iterator[str]:
    """A card without a long answer does not say what its rows, its division and its fabric are."""
    told = card.told if card is not None and card.whole else {}
    mig = bare(row.get("mig.mode.current", "") or told.get("mig_mode/current_mig", ""))
    if mig.lower() not in MIG_OFF:
        yield f"mig {mig or 'unknown'}"
    if not told:
        yield from (f"{word} unknown" for word in ROWS.values())
        return
    if "remapped_rows" not in told:
        for place, word in ROWS.items():
            if words := counted(word, told.get(place)):
                yield words
    yield from of_fabric(told)
    yield from of_recovery(told)
    yield from said_in(told)


def of_fabric(told: Mapping[str, str]) -> Iterator[str]:
    """Of boards with switches alone: all others answer that they have none."""
    state, status = (bare(told.get(f"fabric/{part}", "")) for part in ("state", "status"))
    if state.lower() in LACKS:
        return
    if state.lower() != DONE:
        yield f"fabric {state}"
    elif status.lower() not in WELL:
        yield f"fabric {state}, {status}"
    elif bare(told.get("fabric/health/summary", "")).lower() == "unhealthy":
        yield "fabric unhealthy"


def of_recovery(told: Mapping[str, str]) -> Iterator[str]:
    action = bare(told.get("gpu_recovery_action", ""))
    if action.lower() not in LACKS | {"none"} and not is_error(action):
        yield f"recovery {action}"
    if bare(told.get("gpu_reset_status/reset_required", "")).lower() == "yes":
        yield "recovery Reset"


def said_in(values: Mapping[str, str]) -> Iterator[str]:
    """Words for an error, in whatever field they stand."""
    for value in values.values():
        if is_error(value):
            yield printable(f"says {bare(value)}")[:MAX_WORDS]


def is_error(value: str) -> bool:
    """In brackets stands why there is no value: that a card has none of the sort, or an error."""
    word = bare(value).lower()
    if word in LACKS or DEPRECATED in word:
        return False
    in_brackets = value.startswith("[") and value.endswith("]")
    return in_brackets or ERROR.fullmatch(word) is not None


def counted(word: str, value: Optional[str]) -> str:
    if value is None:
        return f"{word} unknown"
    told = bare(value)
    if told.lower() in NONE or DEPRECATED in told.lower():
        return ""
    if told.isascii() and told.isdigit():
        return f"{word} {told}"
    return word if told == "Yes" else f"{word} unknown"


def bare(value: str) -> str:
    return value.strip().strip("[]").strip()
