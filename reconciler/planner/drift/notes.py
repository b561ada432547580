"""Notes: drift on hosts that a plan only reports."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from reconciler.model.host import layout
from reconciler.model.host.evidence import Observation
from reconciler.model.plan.drift import Acceptance, Becomes, Drift
from reconciler.model.plan.plan import Note
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.state.world import World

UNCHECKED = "unchecked"
MOST = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class StrayKey:
    """A line for sshd that somebody wrote into a home, and that opens nothing there.

    `ref` is the allocation of that home, or the node where the login is none of ours; `key` says
    what and where it is.
    """

    ref: Ref
    node: str
    login: str
    key: str
    at: str


def notes_of(drifts: Iterable[Drift], told: Collection[Ref]) -> Iterator[Note]:
    """Notes on everything that no change of the plan repairs; `told` are the refs of those changes.

    Of many notes of one sort in one place the first are shown, with the number of the others.
    """
    found: dict[tuple[Ref, str], list[Drift]] = {}
    for one in drifts:
        if one.becomes is not Becomes.REPAIRED or one.ref not in told:
            topic = UNCHECKED if one.becomes is Becomes.UNCHECKED else one.kind.value
            found.setdefault((one.ref, topic), []).append(one)
    for (ref, topic), several in found.items():
        for one in several[:MOST]:
            yield Note(ref=ref, topic=topic, text=one.text, accepted=by_whom(one.accepted))
        if len(several) > MOST:
            yield Note(ref=ref, topic=topic, text=f"{len(several) - MOST} more: gpuaas drift {ref}")


def by_whom(accepted: Acceptance | None) -> str:
    """Who accepted a drift, until when and why."""
    if accepted is None:
        return ""
    return f"accepted by {accepted.owner} until {accepted.until}: {accepted.reason}"


def key_files_of_nobody(world: World) -> Iterator[tuple[str, str]]:
    """(node, path) of key files that nobody made.

    Whoever is in one gets in as soon as there is such a login.
    """
    logins = {claim.allocation_id for claim in world.claims}
    known = {one.login for one in world.recorded.values() if one.login}
    known |= {login for id, login in world.counters.login_of.items() if id in logins}
    for node, seen in world.observations.items():
        paths = (seen.facts.paths if seen.facts is not None and not seen.problem else None) or {}
        for path in sorted(paths):
            login = layout.KEY_FILE.name_in(path)
            if login and login not in known:
                yield node, path


def stray_keys(world: World) -> tuple[StrayKey, ...]:
    """Everything that hosts reported, by node and login. What no host could report is not in it."""
    found = [
        (node, seen)
        for node, seen in sorted(world.observations.items())
        if seen.facts and seen.facts.stray_keys
    ]
    homes = {
        (one.node, one.login): ref for ref, one in world.recorded.items() if one.login and found
    }
    return tuple(
        StrayKey(
            ref=homes.get((node, login), Ref("node", "", node)),
            node=node,
            login=login,
            key=key,
            at=seen.at,
        )
        for node, seen in found
        for login, keys in sorted(_told(seen).items())
        for key in keys
    )


def _told(seen: Observation) -> Mapping[str, tuple[str, ...]]:
    return (seen.facts.stray_keys if seen.facts else None) or {}
