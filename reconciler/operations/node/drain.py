"""`node drain`: an operator's intent for a node, written into its file.

Nothing happens by it on any host: it counts once it is applied.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from reconciler.kinds.node.spec import AdminState, NodeSpec
from reconciler.model.moment import format_moment
from reconciler.model.problem import ProblemError, Source, refuse
from reconciler.model.records import dataclass
from reconciler.model.spec.resource import Resource
from reconciler.operations.fleet import Fleet
from reconciler.operations.references import node_of
from reconciler.operations.specs import read_desired
from reconciler.specs.edit.edit import set_values
from reconciler.specs.git import git

PATH = ("spec", "admin")
ENDED_BY_HAND = frozenset({AdminState.UNAVAILABLE, AdminState.LOST})
"""States that no undrain ends: somebody has to have looked at the machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """What an operator intends for a node; `evacuate` also moves its allocations."""

    name: str
    reason: str = ""
    until: datetime | None = None
    evacuate: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Administered:
    """What was written and where; `commit` is empty unless the file was committed.

    Where it says so already nothing was `changed`.
    """

    ref: str
    before: str
    state: str
    reason: str
    until: str
    file: str
    line: int
    commit: str = ""
    changed: bool = True


def drain(fleet: Fleet, intent: Intent, *, commit: bool) -> Administered:
    """Place nobody new on a node. Raises ProblemError, and then nothing was written."""
    state = AdminState.EVACUATING if intent.evacuate else AdminState.DRAINING
    until = {"until": format_moment(intent.until)} if intent.until else {}
    if intent.until is not None and intent.until <= fleet.now():
        raise refuse("usage", "--until is over already", "name a time to come")
    wanted = {"state": state.value, "reason": intent.reason, **until}
    return _administer(fleet, intent.name, wanted, commit=commit)


def undrain(fleet: Fleet, name: str, *, commit: bool) -> Administered:
    """Let a node take tenants again. Raises ProblemError, and then nothing was written."""
    return _administer(fleet, name, {"state": AdminState.ACTIVE.value}, commit=commit)


def _administer(
    fleet: Fleet, name: str, wanted: Mapping[str, str], *, commit: bool
) -> Administered:
    node = node_of(read_desired(fleet), name.removeprefix("node/"))
    admin = node.spec.admin
    now = {"state": admin.state, "reason": admin.reason or "", "until": admin.until or ""}
    found = Administered(
        ref=str(node.ref),
        before=admin.state,
        state=wanted["state"],
        reason=wanted.get("reason", ""),
        until=wanted.get("until", ""),
        file=node.file,
        line=node.line,
    )
    if now == {"reason": "", "until": "", **wanted}:
        if commit:
            git.insist_on_commit(fleet.settings, node.file)
        return replace(found, changed=False)
    if wanted["state"] == AdminState.ACTIVE and admin.state in ENDED_BY_HAND:
        raise refuse(
            "usage",
            f"{node.ref} is {admin.state}, which is more than draining: {admin.reason}",
            f"look at the machine, then edit spec.admin in {node.file}",
        )
    if commit:
        git.insist_on_rest(fleet.settings, node.file)
    place = _write(fleet, node, wanted)
    word = "Undrain" if wanted["state"] == AdminState.ACTIVE else "Drain"
    message = f"{word} {node.ref}" + (f": {wanted['reason']}" if wanted.get("reason") else "")
    made = git.commit(fleet.settings, node.file, message) if commit else ""
    return replace(found, line=place.line, commit=made)


def _write(fleet: Fleet, node: Resource[NodeSpec], wanted: Mapping[str, str]) -> Source:
    """Write the value as a whole where it is on one line; else word by word, keeping comments."""
    settings, file, document = fleet.settings, node.file, node.document
    try:
        return set_values(settings, file, document, PATH[:1], {PATH[1]: wanted})
    except ProblemError:
        # An end that was meant for something else would stay beside it.
        if node.spec.admin.until and "until" not in wanted and "reason" in wanted:
            raise
        return set_values(settings, file, document, PATH, wanted)
