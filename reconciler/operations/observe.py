"""Observing hosts: which to ask, how to reach them, and recording their answers."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import field, replace
from datetime import datetime, timedelta
from pathlib import Path

from reconciler import shipped
from reconciler.hosts.ansible.executor import RunOptions
from reconciler.hosts.evidence import Question, ask
from reconciler.kinds.fleet_rules import policy_in
from reconciler.kinds.node.spec import NODES, NodeSpec, control_login
from reconciler.kinds.registry import KINDS
from reconciler.model.host.capacity import Isolation
from reconciler.model.host.evidence import Observation
from reconciler.model.host.posix import LAST_UID
from reconciler.model.moment import parse_moment
from reconciler.model.plan.work import Host
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired
from reconciler.model.state.world import World
from reconciler.operations.fleet import Fleet
from reconciler.operations.journal import writing
from reconciler.operations.specs import read_desired
from reconciler.planner.rebuild.taints import judge_doubts
from reconciler.store.journal import Journal
from reconciler.store.tables import taints

SILENT = frozenset(
    {"host_unreachable", "host_identity_changed", "no_root_on_host", "no_python_on_host"}
)
"""After one of these nothing can be asked of a host, whatever it is."""

INTERRUPTED = "interrupted"

LATELY = timedelta(minutes=1)


@dataclass(slots=True)
class Looks:
    """When one command has observed which nodes: none is asked twice in a short while."""

    taken: dict[str, datetime] = field(default_factory=dict)

    def due(self, names: Iterable[str], now: datetime) -> set[str]:
        """The nodes to observe, which count as observed from now on."""
        found = {name for name in names if not self._is_recent(name, now)}
        self.taken.update(dict.fromkeys(found, now))
        return found

    def _is_recent(self, name: str, now: datetime) -> bool:
        at = self.taken.get(name)
        return at is not None and timedelta(0) <= now - at <= LATELY

    def silent(self, world: World) -> dict[str, Observation]:
        """Nodes that this command has found to be out of reach."""
        return {
            name: seen
            for name in self.taken
            if (seen := world.observations.get(name)) is not None and seen.problem in SILENT
        }


def refresh(fleet: Fleet) -> tuple[Observation, ...]:
    """Observe every node now and keep the answers."""
    desired = read_desired(fleet)
    with writing(fleet, "refresh") as journal:
        return look(fleet, journal, desired, node_names(desired))


def look(
    fleet: Fleet, journal: Journal, desired: Desired, names: Iterable[str]
) -> tuple[Observation, ...]:
    """Observe these nodes, record what they say, and which taints that has ended."""
    observations = observe_nodes(fleet, desired, journal.world(), names)
    journal.observe(observations)
    world = journal.world()
    seen = {one.node: one for one in observations}
    judged = judge_doubts(desired, world, world.doubts, seen)
    news = tuple(doubt for doubt in judged.kept if doubt not in world.doubts)
    if judged.ended or news:
        journal.enter("judge_doubts", taints.judge, replace(judged, kept=news))
    return observations


def observe_nodes(
    fleet: Fleet, desired: Desired, world: World, names: Iterable[str]
) -> tuple[Observation, ...]:
    """Ask the nodes named, those in doubt for all there is of anybody on them.

    A node that is nowhere described is not asked.
    """
    doubted = {doubt.node for doubt in world.doubts}
    sweep = uids_of_tenants(desired)
    asked = [
        (host, Question(sweep=sweep if name in doubted else None))
        for name in sorted(set(names))
        if (host := host_of(fleet, desired, world, name))
    ]
    answers = ask(asked, run_options(fleet), at=fleet.now())
    # Who was not waited for has said nothing, and has not failed to say it.
    return tuple(one for one in answers if one.problem != INTERRUPTED)


def uids_of_tenants(desired: Desired) -> tuple[int, int]:
    """First and last of the uids that an allocation may have."""
    return desired.settings.posix.first_uid, LAST_UID


def node_names(desired: Desired) -> tuple[str, ...]:
    """The nodes that this version can reach, by name."""
    return tuple(node.ref.name for node in NODES.of(desired) if not KINDS["node"].unsupported(node))


def stale_nodes(desired: Desired, world: World, now: datetime) -> tuple[str, ...]:
    """Nodes whose evidence is missing, failed, or older than half the policy's limit.

    Half, so that evidence which was fresh when the plan was shown is still fresh when it is
    applied. A host that was never prepared is always looked at: somebody may have mended it.
    """
    minutes = policy_in(desired).evidence.max_age_minutes
    fresh = (now - timedelta(minutes=minutes / 2), now)
    return tuple(
        name
        for name in node_names(desired)
        if _never_prepared(desired, world, name)
        or not _is_fresh(world.observations.get(name), fresh)
    )


def _never_prepared(desired: Desired, world: World, name: str) -> bool:
    ref = Ref("node", "", name)
    recorded = world.recorded.get(ref)
    accounts = desired.resources[ref].spec.isolation is Isolation.ACCOUNT
    return accounts and (recorded is None or not recorded.facts)


def _is_fresh(observation: Observation | None, fresh: tuple[datetime, datetime]) -> bool:
    """Evidence from a time to come is of no known age: the clock was set back."""
    if observation is None or observation.facts is None or observation.problem:
        return False
    at = parse_moment(observation.at)
    return at is not None and fresh[0] <= at <= fresh[1]


def host_of(fleet: Fleet, desired: Desired, world: World, name: str) -> Host | None:
    """How to reach a node: as git says, else as last recorded (its spec may be broken just now).

    Where git wants another place of it, which is never a change of the same node, it is looked for
    where it was: in any other place nothing of its allocations lies, which would pass for clean.
    """
    ref = Ref("node", "", name)
    resource, before = NODES.at(desired, ref), NODES.last(world, name)
    if resource is None or KINDS["node"].unsupported(resource):
        spec = before
    else:
        spec = before if before and _place(before) != _place(resource.spec) else resource.spec
    return _host(fleet, name, spec) if spec is not None else None


def _place(spec: NodeSpec) -> tuple[str, str]:
    return spec.root, spec.isolation


def _host(fleet: Fleet, name: str, spec: NodeSpec) -> Host:
    identity, ssh = spec.identity, spec.ssh
    return Host(
        node=name,
        address=spec.address,
        root=str(Path(fleet.folder, spec.root)),
        isolation=spec.isolation,
        port=ssh.port,
        user=control_login(spec, fleet.settings),
        machine_id=identity.machine_id if identity else "",
        host_keys=identity.host_keys if identity else (),
        identity_file=identity_file(fleet),
    )


def identity_file(fleet: Fleet) -> str:
    """Absolute, since a run has a working folder of its own; empty leaves the choice to ssh."""
    name = fleet.settings.ssh.identity_file
    return str(Path(fleet.folder, Path(name).expanduser())) if name else ""


def run_options(fleet: Fleet) -> RunOptions:
    return RunOptions(
        run_dir=fleet.state / "runs",
        playbooks=shipped.folder("playbooks"),
        python=sys.executable,
        keep_logs=fleet.settings.keep.logs,
        forced=fleet.leaving,
    )
