"""Stops: the named moments of a walk at which a test kills this process, to see what stays true.

`GPUAAS_STOP_AT=NAME` ends it by SIGKILL when it comes to NAME, `NAME#2` when it does so for the
second time. `GPUAAS_STOP_LOG=FILE` gets a line for each stop that is come to. With neither set a
stop costs one comparison.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

STOPS: Mapping[str, str] = {
    "lock.taken": "this process holds the lock and has said so",
    "take_over_lock.before": "a dead holder is written down, not committed",
    "take_over_lock.after": "a dead holder is written down",
    "prune.before": "old runs are gone, not committed",
    "prune.after": "old runs are gone",
    "archive.during": "old events lie in a file under a name that nobody takes for one",
    "archive.before": "old events lie in a file, and are gone from the state, not committed",
    "archive.after": "old events lie in a file, and are gone from the state",
    "close_open_steps.before": "what a crash left open is called unknown, not committed",
    "close_open_steps.after": "what a crash left open is called unknown",
    "stop_waiting.before": "requests that nobody wants any more are gone, not committed",
    "stop_waiting.after": "requests that nobody wants any more are gone",
    "unsee.before": "what forgotten nodes said is gone, not committed",
    "unsee.after": "what forgotten nodes said is gone",
    "look.before": "hosts are about to be asked what they show",
    "look.during": "a host is being asked",
    "look.after": "hosts have told what they show",
    "observe.before": "what hosts told outside of a wave is written, not committed",
    "observe.after": "what hosts told outside of a wave is written",
    "retry.before": "somebody's word has cleared what a node failed at, not committed",
    "retry.after": "somebody's word has cleared what a node failed at",
    "override.before": "somebody's word has freed what was not proved, not committed",
    "override.after": "somebody's word has freed what was not proved",
    "fence.before": "somebody's word has cut an allocation off a volume, not committed",
    "fence.after": "somebody's word has cut an allocation off a volume",
    "reopen.before": "somebody's word has given files to another allocation, not committed",
    "reopen.after": "somebody's word has given files to another allocation, no host knows of it",
    "reopened.before": "which files a host has given to another allocation is told, not committed",
    "reopened.after": "which files a host has given to another allocation is told",
    "approve.before": "leave for what was held is written, not committed",
    "approve.after": "leave for what was held is given",
    "accept_history.before": "a rewritten history is followed on the books, not committed",
    "accept_history.after": "a rewritten history is followed on the books, not yet in the mirror",
    "suspend.before": "somebody is shut out on the books, not committed",
    "suspend.after": "somebody is shut out on the books, no host knows of it",
    "begin_revocation.before": "who is to be shut out on which host is written, not committed",
    "begin_revocation.after": "who is to be shut out on which host is told to be pending",
    "finish_revocation.before": "who is shut out on a host is written, not committed",
    "finish_revocation.after": "who is shut out on a host is no longer pending",
    "resume.before": "a suspension is over on the books, not committed",
    "resume.after": "a suspension is over on the books, no host knows of it",
    "judge_doubts.before": "what is no longer in doubt is written, not committed",
    "judge_doubts.after": "what is no longer in doubt is written",
    "accept_drift.before": "somebody's word that a drift may stay is written, not committed",
    "accept_drift.after": "somebody's word that a drift may stay counts",
    "retract_drift.before": "a word about a drift is taken back, not committed",
    "retract_drift.after": "a word about a drift counts no more",
    "let_go.before": "an allocation is let go of, not committed",
    "let_go.after": "an allocation is let go of, and stays on its host",
    "refuse.before": "what the plan would not do is written, not committed",
    "refuse.after": "what the plan would not do is written",
    "snapshot.before": "the state as it was before this apply is about to be kept",
    "copy.during": "a copy of the state is whole, under a name that nobody takes for one",
    "snapshot.after": "the state as it was before this apply is kept",
    "begin_run.before": "the run is written, not committed",
    "begin_run.after": "the run is written, nothing is intended yet",
    "use_plan.before": "the saved plan is marked as used, not committed",
    "use_plan.after": "the saved plan is marked as used",
    "begin_wave.before": "claims and intent are written, not committed",
    "begin_wave.after": "claims and intent stand, no host was touched",
    "play.before": "all that hosts are to be told is written, no host was touched",
    "play.during": "a host has been given its work",
    "play.after": "hosts have done their work and answered",
    "reboot.before": "hosts go down to start anew, and nobody has looked at them since",
    "reboot.after": "hosts that were to start anew are back, or nobody waits for them",
    "build.before": "hosts build bundles, and nobody has looked since they began",
    "build.after": "bundles stand or have failed, and nothing of it is written",
    "settle.before": "a prepared host shows what it should, and waits for a word",
    "settle.after": "a prepared host was told to keep or to restore",
    "prove.before": "released places have been looked at, nothing is proved",
    "prove.after": "proofs are made, not written",
    "finish_wave.before": "ends, evidence, proofs and freed claims are written, not committed",
    "finish_wave.after": "ends, evidence, proofs and freed claims stand",
    "record.before": "changes without work on hosts are written, not committed",
    "record.after": "changes without work on hosts stand",
    "wait.before": "who waits for room is written, not committed",
    "wait.after": "who waits for room is written",
    "end_run.before": "the end of the run is written, not committed",
    "end_run.after": "the end of the run is written",
    "publish.before": "nothing of this run is published",
    "publish.during": "some projects' files are published",
    "publish.after": "all is published",
    "create.before": "a new state is built beside its place",
    "create.after": "a new state is in its place",
    "migrate.before": "an older state is backed up and migrated, not committed",
    "migrate.after": "the state is of this version",
    "rebuild.before": "what hosts told of lost allocations is written, not committed",
    "rebuild.after": "what hosts told of lost allocations is written",
    "rebuilt.before": "a rebuilt state is whole beside its place",
    "rebuilt.after": "a rebuilt state is in its place",
    "restore.before": "the copy is checked and lies beside its place",
    "restore.during": "the state before is kept under another name",
    "restore.after": "the copy is in its place",
    "scan.before": "a host is about to be asked for its keys",
    "scan.after": "a host has told its keys",
}
"""Every stop, in about the order of a walk, and what has happened when it is come to."""

STOP_AT, STOP_LOG = "GPUAAS_STOP_AT", "GPUAAS_STOP_LOG"

_wanted, _, _number = os.environ.get(STOP_AT, "").partition("#")
_log = os.environ.get(STOP_LOG, "")
_watched = bool(_wanted or _log)
_times: Counter[str] = Counter()


def reach(stop: str) -> None:
    """This process has come to `stop`, a name of the table."""
    if _watched:
        _come_to(stop)


@contextmanager
def around(what: str) -> Iterator[None]:
    """The stops before and after `what`; one that fails does not come to the second."""
    reach(f"{what}.before")
    yield
    reach(f"{what}.after")


def _come_to(stop: str) -> None:
    if stop not in STOPS:
        raise LookupError(f"{stop} is no stop of the table")
    _times[stop] += 1
    if _log:
        with open(_log, "a", encoding="ascii") as file:
            file.write(f"{stop}\n")
    if stop == _wanted and _times[stop] == int(_number or 1):
        os.kill(os.getpid(), signal.SIGKILL)
