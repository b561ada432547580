"""Installs: a bundle version is on a node once the node has shown it."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import replace

from reconciler.model.host.evidence import Observation
from reconciler.model.host.facts.runtime_fact import RuntimeWord, read_runtime, runtime_key
from reconciler.model.plan.items.bundle import DiscardItem, StageItem
from reconciler.model.plan.work import WaveIntent, WaveOutcome
from reconciler.model.ref import Ref
from reconciler.model.state.event import EventType
from reconciler.model.state.install import Install, InstallState
from reconciler.store.registry.contract import Table
from reconciler.store.transaction import EventDraft, Record

EVENTS: Mapping[InstallState, EventType] = {
    InstallState.STAGING: EventType.STAGING,
    InstallState.STAGED: EventType.STAGED,
    InstallState.FAILED: EventType.STAGING_FAILED,
}

_NAMES = ("node", "bundle", "version", "lock_digest", "state", "digest", "since", "problem")
_READ = f"SELECT {', '.join(_NAMES)} FROM install"
_UPSERT = (
    f"INSERT INTO install ({', '.join(_NAMES)}) VALUES ({', '.join('?' * len(_NAMES))})"
    " ON CONFLICT (node, bundle, version) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in _NAMES[3:])
)


def read_installs(connection: sqlite3.Connection) -> tuple[Install, ...]:
    """Every version on every node that was asked for it."""
    return tuple(map(_install, connection.execute(f"{_READ} ORDER BY node, bundle, version")))


def hold(record: Record, intent: WaveIntent) -> None:
    """Write versions that hosts are going to be asked for; earlier requests keep their time."""
    for step in intent.steps:
        if not isinstance(step.item, StageItem):
            continue
        wanted = Install(
            node=step.node,
            bundle=step.item.bundle,
            version=step.item.version,
            lock_digest=step.item.lock_digest,
            state=InstallState.STAGING,
        )
        before = _known(record, wanted)
        if before is None or replace(before, since="") != wanted:
            _write(record, wanted, before)


def settle(record: Record, wave: WaveOutcome) -> None:
    """What was asked for and refused has failed; what was discarded, and shown to be, is gone."""
    for outcome in wave.steps:
        node, item = outcome.step.node, outcome.step.item
        if isinstance(item, DiscardItem) and outcome.ok:
            _discard(record, node, item)
        elif isinstance(item, StageItem) and outcome.problem and not outcome.unknown:
            for one in _on(record, node):
                if (one.bundle, one.version) == (item.bundle, item.version):
                    problem = f"{outcome.problem.code}: {outcome.problem.message}"
                    _write(record, _as(one, InstallState.FAILED, problem=problem), one)


def observe(record: Record, observations: Sequence[Observation]) -> None:
    """What nodes show of those that they have not shown yet. Nothing seen says nothing.

    What was staged keeps the digest that it had then: whatever differs from it is drift.
    """
    for seen in observations:
        shown = (seen.facts.platform if seen.facts else None) or {}
        for one in _on(record, seen.node) if shown else ():
            fact = shown.get(runtime_key(one.bundle, one.version))
            if fact and one.state is not InstallState.STAGED:
                now = _judged(one, fact)
                if now != one:
                    _write(record, now, one)


def unsee(record: Record, gone: Sequence[Ref]) -> None:
    """Another host may come by the name of a node."""
    record.connection.executemany(
        "DELETE FROM install WHERE node = ?", [(ref.name,) for ref in gone if ref.kind == "node"]
    )


def _judged(one: Install, fact: str) -> Install:
    """Staged is what a host names by its digest; of all else, what is told is the problem."""
    told = read_runtime(fact)
    if told.word is RuntimeWord.STAGED and told.rest:
        return _as(one, InstallState.STAGED, digest=told.rest)
    if told.word is RuntimeWord.STAGING:
        return _as(one, InstallState.STAGING)
    has_failed = told.word is RuntimeWord.FAILED
    return _as(one, InstallState.FAILED, problem=told.rest if has_failed else fact)


def _as(one: Install, state: InstallState, *, digest: str = "", problem: str = "") -> Install:
    return replace(one, state=state, digest=digest, problem=problem)


def _on(record: Record, node: str) -> list[Install]:
    return [_install(row) for row in record.connection.execute(f"{_READ} WHERE node = ?", (node,))]


def _known(record: Record, one: Install) -> Install | None:
    found = [o for o in _on(record, one.node) if (o.bundle, o.version) == (one.bundle, one.version)]
    return found[0] if found else None


def _write(record: Record, one: Install, before: Install | None) -> None:
    record.write(
        EventDraft(
            type=EVENTS[one.state],
            ref=Ref("bundle", "", one.bundle),
            before={"state": before.state.value} if before else None,
            after={"node": one.node, "version": one.version, "digest": one.digest},
            reason=one.problem,
        )
    )
    since = before.since if before and before.state is one.state else record.at
    values = (one.lock_digest, one.state.value, one.digest, since, one.problem)
    record.connection.execute(_UPSERT, (one.node, one.bundle, one.version, *values))


def _discard(record: Record, node: str, item: DiscardItem) -> None:
    ref = Ref("bundle", "", item.bundle)
    after = {"node": node, "version": item.version}
    record.write(EventDraft(type=EventType.DISCARDED, ref=ref, after=after))
    record.connection.execute(
        "DELETE FROM install WHERE node = ? AND bundle = ? AND version = ?",
        (node, item.bundle, item.version),
    )


def _install(row: Sequence[str]) -> Install:
    node, bundle, version, lock_digest, state, digest, since, problem = row
    return Install(
        node=node,
        bundle=bundle,
        version=version,
        lock_digest=lock_digest,
        state=InstallState(state),
        digest=digest,
        since=since,
        problem=problem,
    )


TABLE = Table(
    hold=hold, settle=settle, observe=observe, unsee=unsee, read={"installs": read_installs}
)
