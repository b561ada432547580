"""Revocations that are pending: steps that take access away and have not ended well since.

Each such step says in its event whose access ends with it, those still pending before included.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator

from reconciler.model.capacity import Claim, ClaimState
from reconciler.model.lifecycle import StepState
from reconciler.model.ref import Ref
from reconciler.model.world import Revocation

SYNC = "access.sync"

_IN_DOUBT = "SELECT project, name FROM resource WHERE kind = 'allocation' AND basis = ''"
_TRIES = (
    "SELECT id, run, node, state, started FROM step WHERE ref = ? AND verb = ?"
    " ORDER BY run DESC, wave DESC, id"
)
_STARTED = (
    "SELECT after FROM event WHERE ref = ? AND run = ? AND type = 'step_started'"
    " ORDER BY sequence DESC"
)


def read_revocations(
    connection: sqlite3.Connection, claims: Iterable[Claim]
) -> Iterator[Revocation]:
    """Of every allocation that is in doubt, or given up and not proved gone."""
    refs = {Ref("allocation", project, name) for project, name in connection.execute(_IN_DOUBT)}
    refs |= {claim.ref for claim in claims if claim.state is not ClaimState.HELD}
    for ref in sorted(refs):
        yield from _of(connection, ref)


def _of(connection: sqlite3.Connection, ref: Ref) -> Iterator[Revocation]:
    """The tries of one step, newest first, up to the one that ended well, are one revocation."""
    tries: dict[str, list[tuple[str, str, str]]] = {}
    ended: set[str] = set()
    for step, run, node, state, started in connection.execute(_TRIES, (str(ref), SYNC)):
        if state == StepState.DONE:
            ended.add(step)
        elif step not in ended:
            tries.setdefault(step, []).append((run, node, started))
    for step, ((run, node, _), *before) in tries.items():
        people = _people(connection, ref, run, step)
        since = before[-1][2] if before else tries[step][0][2]
        if people:
            yield Revocation(ref=ref, node=node, people=people, since=since)


def _people(connection: sqlite3.Connection, ref: Ref, run: str, step: str) -> tuple[str, ...]:
    for (after,) in connection.execute(_STARTED, (str(ref), run)):
        told = json.loads(after)
        if told["step"] == step:
            return tuple(told.get("revokes", ()))
    return ()
