"""Numbers of a tenant on its host: all of them follow from its uid, which is never reused."""

from __future__ import annotations

LAST_UID = 59999
"""Of a tenant; numbers above belong to systemd and to subordinate ids."""

SUBIDS = 1 << 16
"""How many numbers there are inside of a tenant's containers."""


def loopback_of(uid: int) -> str:
    """Its own address on the loopback of its host."""
    return f"127.77.{uid >> 8}.{uid & 255}"


def inside(first: int, last: int = 0) -> tuple[int, int]:
    """The first and the last number inside of the containers of these uids."""
    return first * SUBIDS, (last or first) * SUBIDS + SUBIDS - 1


def numbers(first: int, last: int = 0) -> tuple[str, str]:
    """Every number of these uids, as nft writes ranges: their own, and those inside."""
    own = f"{first}-{last}" if last else str(first)
    return own, "-".join(map(str, inside(first, last)))
