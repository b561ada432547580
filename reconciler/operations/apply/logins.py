"""Where those who have got an allocation log in to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from reconciler.hosts.ssh.openssh import plain_command
from reconciler.model.host.endpoint import unsound
from reconciler.model.plan.plan import Action, Change
from reconciler.model.plan.work import HostProgress
from reconciler.model.problem import Problem
from reconciler.model.records import dataclass
from reconciler.model.state.world import World
from reconciler.operations.endpoints import endpoints, published_config, way_in
from reconciler.operations.fleet import Fleet
from reconciler.operations.published.publish import publish
from reconciler.store.journal import Journal


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """Where a new allocation can be reached: `place` is its folder, or the command that logs in.

    `plain` is that command without the pins of the host, for people without any file of ours.
    """

    ref: str
    login: str
    node: str
    place: str
    plain: str = ""


def logins_of(fleet: Fleet, settled: Iterable[Change], after: World) -> Iterator[Login]:
    reached = {one.ref: one for one in endpoints(fleet.settings, after)}
    for change in settled:
        one = reached.get(change.ref)
        if one is not None and change.action in (Action.CREATE, Action.REPLACE):
            yield Login(
                ref=str(one.ref),
                login=one.login,
                node=one.node,
                place=way_in(one, published_config(fleet.settings, one.ref.project)),
                plain="" if one.folder or unsound(one) else plain_command(one),
            )


def let_in(
    fleet: Fleet,
    journal: Journal,
    settled: Sequence[Change],
    on_progress: Callable[[HostProgress], None],
) -> tuple[Problem, ...]:
    """Let people use new allocations while hosts still build what nobody waits for."""
    world = journal.world()
    unpublished = publish(fleet, world)
    for one in logins_of(fleet, settled, world):
        on_progress(HostProgress(node=one.node, phase="ready", detail=f"{one.ref}: {one.place}"))
    return unpublished
