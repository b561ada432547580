"""Accounts: the uid of an allocation and the gid of its project, on nodes that isolate by them.

Counted over the whole fleet and never given twice (rule 15), so that a file that was left behind
anywhere can never become somebody else's.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

from reconciler.kinds.project import PROJECTS
from reconciler.model.host.capacity import Isolation
from reconciler.model.host.evidence import Observation
from reconciler.model.host.facts.taken_fact import read_taken, taken_key
from reconciler.model.host.posix import LAST_UID
from reconciler.model.problem import ProblemError, refuse
from reconciler.model.spec.desired import Desired
from reconciler.model.state.rebuilt import MARGIN
from reconciler.model.state.world import Counters

Numbers = tuple[int | None, int | None]
NO_ACCOUNT: Numbers = (None, None)


NEAR, FARTHEST = MARGIN // 2, 10_000
"""So far ahead a number is looked for that no host shows, and that the host itself does not: there

is no end to what a host says. What is near is below what a state that was lost goes on above.
"""

Ranges = Sequence[tuple[int, int]]


class Taken:
    """Numbers of `uid` or `gid` that hosts show in use by others."""

    def __init__(self, observations: Mapping[str, Observation]) -> None:
        self._observations = observations
        self._ranges: dict[tuple[str, str], Ranges] = {}

    def free(self, kind: str, first: int, given: Container[int], node: str) -> int:
        """From `first` on, the first that was given to nobody and that no host shows.

        Where there is none near, one that at least `node` does not show; else that which was given
        to nobody. A host that shows all of them keeps none from the others: it refuses its own.
        """
        first = _next(first, given, ())
        for hosts, ahead in (("", NEAR), (node, FARTHEST)):
            most = min(first + ahead, LAST_UID)
            number = _next(first, given, self._of(kind, hosts), most)
            if number <= most:
                return number
        return first

    def _of(self, kind: str, node: str) -> Ranges:
        """Of all nodes without one; in order, none touching the next, read once and where asked."""
        if (kind, node) not in self._ranges:
            seen = self._observations
            asked = seen.values() if not node else filter(None, [seen.get(node)])
            told = {part for one in asked for part in _told(one, kind)}
            self._ranges[kind, node] = _joined(sorted(told))
        return self._ranges[kind, node]


def _next(number: int, given: Container[int], ranges: Ranges, most: int = LAST_UID) -> int:
    """From this on the first that is not given and in none of these ranges, or one past `most`."""
    while number <= most:
        at = bisect_right(ranges, (number, LAST_UID + 1)) - 1
        if at >= 0 and number <= ranges[at][1]:
            number = ranges[at][1] + 1
        elif number in given:
            number += 1
        else:
            break
    return number


def _joined(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for first, last in ranges:
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], last))
        else:
            joined.append((first, last))
    return joined


def _told(seen: Observation, kind: str) -> Iterator[tuple[int, int]]:
    named = seen.facts.platform if seen.facts else None
    return read_taken((named or {}).get(taken_key(kind), ""))


class Accounts:
    """Gives numbers to new allocations, each one once within a plan."""

    def __init__(self, desired: Desired, counters: Counters, taken: Taken) -> None:
        posix = desired.settings.posix
        self._desired = desired
        self._taken = taken
        self._uids = dict(counters.uids)
        self._gids = dict(counters.gids)
        self._given_uids = set(counters.uids.values())
        self._given_gids = {*counters.given_gids, *counters.gids.values()}
        self._first_uid = max(posix.first_uid, counters.least_uid + 1)
        self._first_gid = max(posix.first_gid, counters.least_gid + 1)

    def of(self, allocation: str, project: str, isolation: Isolation, node: str) -> Numbers:
        """(uid, gid) of an allocation, existing or new; both None without an account.

        Raises ProblemError `uids_exhausted`, or `gid_taken` for one that was to be adopted.
        """
        if isolation is not Isolation.ACCOUNT:
            return NO_ACCOUNT
        uid, gid = self._uids.get(allocation), self._gid(project, node)
        if uid is None:
            self._first_uid = _next(self._first_uid, self._given_uids, ())
            uid = self._taken.free("uid", self._first_uid, self._given_uids, node)
            self._uids[allocation] = uid
            self._given_uids.add(uid)
        if max(uid, gid) > LAST_UID:
            raise _used_up()
        return uid, gid

    def _gid(self, project: str, node: str) -> int:
        if project not in self._gids:
            resource = PROJECTS.get(self._desired, project)
            adopted = resource.spec.gid if resource else None
            if adopted is not None and adopted in self._gids.values():
                raise _taken(project, adopted)
            self._first_gid = _next(self._first_gid, self._given_gids, ())
            gid = adopted or self._taken.free("gid", self._first_gid, self._given_gids, node)
            self._gids[project] = gid
            self._given_gids.add(gid)
        return self._gids[project]


def account_of(allocation: str, project: str, counters: Counters) -> Numbers:
    """(uid, gid) of an allocation since its claim was made."""
    uid = counters.uids.get(allocation)
    return NO_ACCOUNT if uid is None else (uid, counters.gids.get(project))


def _taken(project: str, gid: int | None) -> ProblemError:
    return refuse(
        "gid_taken",
        f"gid {gid} of project {project} is that of another project",
        "take spec.gid out to get a number of its own",
    )


def _used_up() -> ProblemError:
    return refuse(
        "uids_exhausted",
        f"all numbers up to {LAST_UID} have been given to somebody",
        "start lower, in posix of gpuaas.yaml; none is ever given twice",
    )
