"""Backoff: what failed is tried again after a delay that doubles, and nothing else waits for it.

Time is that of the machine since its boot, which nobody sets back (F-REC-14). A new commit, a
success or somebody's word begin anew. It outlives the loop: kept beside the state, lost without
harm, good for one boot.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from pathlib import Path

from reconciler.model.codec import decode, encode
from reconciler.model.records import dataclass
from reconciler.operations.fleet import Fleet

FIRST_SECONDS = 30.0
MOST_SECONDS, MOST_OF_NODES = 1800.0, 300.0
"""What is wrong with a resource mostly needs a person; a host that is away comes back by itself."""

SPACE, KEY = "loop", "pace"
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

JITTER = 0.2
FLIPS, FLIP_SECONDS = 5, 900.0
"""So many repairs of one thing within this time of each other: somebody else wants it otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """`count` failures in a row; it is not tried again before `until`. `why` is the last reason."""

    count: int
    since: float
    until: float
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flip:
    """Repairs of one resource that did not last: how many, and when the last one was."""

    count: int
    at: float


@dataclass(slots=True, kw_only=True)
class Pace:
    """Next attempts by name: `node/NAME` for hosts that do not answer, refs for what fails by
    itself.
    """

    commit: str = ""
    waits: dict[str, Wait] = field(default_factory=dict)
    flips: dict[str, Flip] = field(default_factory=dict)

    def begin(self, commit: str) -> None:
        """A new commit may have mended whatever it was: all is tried at once, as if anew."""
        if commit != self.commit:
            self.commit = commit
            self.waits = {n: replace(one, count=0, until=0.0) for n, one in self.waits.items()}

    def waiting(self, now: float) -> Mapping[str, Wait]:
        return {name: one for name, one in self.waits.items() if one.until > now}

    def failed(self, name: str, why: str, now: float, chance: Callable[[], float]) -> Wait:
        """`chance` gives a number from 0 to 1: not all that failed at once come back at once."""
        known = self.waits.get(name)
        count = known.count + 1 if known else 1
        most = MOST_OF_NODES if name.startswith("node/") else MOST_SECONDS
        seconds = min(most, FIRST_SECONDS * 2 ** min(count - 1, 20))
        until = now + seconds * (1 + JITTER * chance())
        one = Wait(count=count, since=known.since if known else now, until=until, why=why)
        self.waits[name] = one
        return one

    def succeeded(self, name: str) -> Wait | None:
        """What it had waited for, if it had failed before."""
        return self.waits.pop(name, None)

    def keep(self, names: Iterable[str]) -> None:
        """What nobody wants any more waits no longer."""
        wanted = set(names)
        for name in [name for name in self.waits if name not in wanted]:
            del self.waits[name]

    def repaired(self, name: str, now: float, chance: Callable[[], float]) -> bool:
        """Whether that is contested: mended again and again, each time soon after the last one."""
        known = self.flips.get(name)
        soon = known is not None and now - known.at <= FLIP_SECONDS
        one = Flip(count=known.count + 1 if known and soon else 1, at=now)
        self.flips[name] = one
        self.flips = {n: f for n, f in self.flips.items() if now - f.at <= FLIP_SECONDS}
        if one.count < FLIPS:
            return False
        wait = self.failed(name, "it is changed again as soon as it is mended", now, chance)
        self.waits[name] = replace(wait, count=min(wait.count, 4))
        return True

    def contested(self, now: float) -> tuple[str, ...]:
        """What was mended so often up to now, of what may be changed again."""
        lately = {name: one for name, one in self.flips.items() if now - one.at <= FLIP_SECONDS}
        return tuple(sorted(name for name, one in lately.items() if one.count >= FLIPS))


def read_pace(fleet: Fleet) -> Pace:
    with fleet.cache() as cache:
        row = cache.get_many(SPACE, [KEY]).get(KEY)
    try:
        kept = json.loads(row) if row else {}
        return decode(Pace, kept["pace"]) if kept.get("boot") == _boot() else Pace()
    except (ValueError, TypeError, KeyError, AttributeError):
        return Pace()


def keep_pace(fleet: Fleet, pace: Pace) -> None:
    with fleet.cache() as cache:
        cache.put_many(SPACE, {KEY: json.dumps({"boot": _boot(), "pace": encode(pace)})})


def _boot() -> str:
    """Times since one boot mean nothing in another."""
    try:
        return BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""
