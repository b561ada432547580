"""Accounts: the uid of an allocation and the gid of its project, where a node isolates by them.

Counted over the whole fleet and never given twice (rule 15), so that a file that was left behind
anywhere can never become somebody else's.
"""

from __future__ import annotations

from reconciler.model.capacity import Isolation
from reconciler.model.descriptor import LAST_UID
from reconciler.model.desired import Desired
from reconciler.model.problem import ProblemError, refuse
from reconciler.model.world import Counters

NO_ACCOUNT = (0, 0)


class Accounts:
    """Gives numbers to new allocations, each one once within a plan."""

    def __init__(self, desired: Desired, counters: Counters) -> None:
        posix = desired.settings.posix
        self._desired = desired
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
            uid = self._uids[allocation] = self._next_uid
            self._next_uid += 1
        if max(uid, gid) > LAST_UID:
            raise _used_up()
        return uid, gid

    def _gid(self, project: str) -> int:
        if project not in self._gids:
            resource = self._desired.get("project", project)
            adopted = resource.spec.gid if resource else None
            if adopted in self._gids.values():
                raise _taken(project, adopted)
            self._gids[project] = adopted or self._next_gid
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
