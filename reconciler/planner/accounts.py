"""Accounts: the uid of an allocation and the gid of its project, where a node isolates by them.

Counted over the whole fleet and never given twice (rule 15), so that a file that was left behind
anywhere can never become somebody else's.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping

from reconciler.model.capacity import Isolation
from reconciler.model.descriptor import LAST_UID
from reconciler.model.desired import Desired
from reconciler.model.evidence import Observation
from reconciler.model.problem import ProblemError, refuse
from reconciler.model.world import Counters

NO_ACCOUNT = (0, 0)


class Taken:
    """Numbers that hosts show in use by others: given to nobody of ours, on whatever host."""

    def __init__(self, observations: Mapping[str, Observation]) -> None:
        self._observations = observations
        self._ranges: dict[str, list[tuple[int, int]]] = {}

    def free(self, kind: str, number: int) -> int:
        """This one or the next that no host shows in use as `uid` or `gid`."""
        ranges = self._of(kind)
        at = bisect_right(ranges, (number, LAST_UID + 1)) - 1
        return max(number, ranges[at][1] + 1) if at >= 0 else number

    def _of(self, kind: str) -> list[tuple[int, int]]:
        """In order, none touching the next; read once, and only where somebody gets a number."""
        if kind not in self._ranges:
            told = {
                part
                for seen in self._observations.values()
                for part in _told(seen, kind).split(",")
                if part
            }
            self._ranges[kind] = _joined(sorted(map(_range, told)))
        return self._ranges[kind]


def _joined(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for first, last in ranges:
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], last))
        else:
            joined.append((first, last))
    return joined


def _told(seen: Observation, kind: str) -> str:
    named = seen.facts.platform if seen.facts else None
    told = (named or {}).get(f"taken {kind}", "")
    return told if TOLD.fullmatch(told) else ""


def _range(part: str) -> tuple[int, int]:
    first, _, last = part.partition("-")
    return int(first), int(last or first)


TOLD = re.compile(r"\d{1,10}(-\d{1,10})?(,\d{1,10}(-\d{1,10})?)*", re.ASCII)


class Accounts:
    """Gives numbers to new allocations, each one once within a plan."""

    def __init__(self, desired: Desired, counters: Counters, taken: Taken) -> None:
        posix = desired.settings.posix
        self._desired = desired
        self._taken = taken
        self._uids = dict(counters.uids)
        self._gids = dict(counters.gids)
        self._next_uid = max(posix.first_uid, counters.last_uid + 1)
        self._next_gid = max(posix.first_gid, counters.last_gid + 1)

    def of(self, allocation: str, project: str, isolation: Isolation) -> tuple[int, int]:
        """(uid, gid) of an allocation, as it has them or anew; (0, 0) without an account.

        Raises ProblemError `uids_exhausted`, or `gid_taken` for one that was to be adopted.
        """
        if isolation is not Isolation.ACCOUNT:
            return NO_ACCOUNT
        uid, gid = self._uids.get(allocation), self._gid(project)
        if uid is None:
            uid = self._uids[allocation] = self._taken.free("uid", self._next_uid)
            self._next_uid = uid + 1
        if max(uid, gid) > LAST_UID:
            raise _used_up()
        return uid, gid

    def _gid(self, project: str) -> int:
        if project not in self._gids:
            resource = self._desired.get("project", project)
            adopted = resource.spec.gid if resource else None
            if adopted in self._gids.values():
                raise _taken(project, adopted)
            self._gids[project] = adopted or self._taken.free("gid", self._next_gid)
            self._next_gid = max(self._next_gid, self._gids[project] + 1)
        return self._gids[project]


def account_of(allocation: str, project: str, counters: Counters) -> tuple[int, int]:
    """(uid, gid) that an allocation has had since its claim was made."""
    uid = counters.uids.get(allocation)
    return NO_ACCOUNT if uid is None else (uid, counters.gids.get(project, 0))


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
