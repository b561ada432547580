"""Hosts that continue by themselves after they have answered: they reboot, or they build."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

from reconciler.model.host.evidence import Observation
from reconciler.model.plan.plan import Step
from reconciler.model.plan.work import Host, HostProgress, HostWork, Receipt
from reconciler.model.records import dataclass
from reconciler.operations.apply.handlers import Goes, goes_on_by
from reconciler.operations.apply.wave.builds import BuildPatience, await_builds
from reconciler.operations.apply.wave.reboot import Boot, RebootPatience, await_boots
from reconciler.stops import around
from reconciler.store.file.lock import give_way, is_wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfinished:
    """A host that continues by itself after its answer, and what it showed at that time."""

    work: HostWork
    receipts: Mapping[str, Receipt]
    seen: Mapping[str, Observation]


@dataclass(frozen=True, slots=True, kw_only=True)
class Awaited:
    """What a host shows after it was waited for; where it is `down`, nobody has waited for it."""

    host: Unfinished
    seen: Observation | None
    down: bool


def boot_of(work: HostWork, receipts: Mapping[str, Receipt]) -> Boot | None:
    """The boot of a host that has said that it reboots, unless it had done so before."""
    for step in work.steps:
        told = receipts.get(step.id) if goes_on_by(step, Goes.BOOT) else None
        if told is not None and told.ok and told.changed:
            return Boot(host=work.host, step=step)
    return None


def builds_of(work: HostWork, receipts: Mapping[str, Receipt]) -> list[Step]:
    """What this host has said that it builds."""
    asked = (step for step in work.steps if goes_on_by(step, Goes.BUILD))
    told = ((step, receipts.get(step.id)) for step in asked)
    return [step for step, receipt in told if receipt is not None and receipt.ok]


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """`look` gives what hosts show, of nodes named beside them through connections of their own.

    Without `patience` nobody waits for hosts that start anew. Whoever waits for the `lock` to take
    something away does not wait for a build.
    """

    lock: Path
    look: Callable[[Sequence[Host], Collection[str]], dict[str, Observation]]
    stop: Callable[[], bool]
    on_progress: Callable[[HostProgress], None]
    patience: RebootPatience | None

    def await_all(self, unfinished: Sequence[Unfinished]) -> Iterator[Awaited]:
        """Wait for hosts that reboot, then for those that build, each as far as somebody waits."""
        boots = {
            one.work.host.node: boot
            for one in unfinished
            if (boot := boot_of(one.work, one.receipts)) is not None
        }
        back = self._await_boots(boots) if boots else {}
        building = [one for one in unfinished if one.work.host.node not in boots]
        built = self._await_builds(building) if building else {}
        for one in unfinished:
            node = one.work.host.node
            seen = back.get(node) or built.get(node) or one.seen.get(node)
            yield Awaited(host=one, seen=seen, down=node in boots and node not in back)

    def _await_boots(self, boots: Mapping[str, Boot]) -> dict[str, Observation]:
        """What hosts show that start anew, once they have; nothing of those nobody waits for."""
        with around("reboot"):
            if self.patience is None:
                return {}
            for node in boots:
                self.on_progress(HostProgress(node=node, phase="observe", detail="starts anew"))
            return await_boots(
                boots.values(),
                lambda hosts: self.look(hosts, [host.node for host in hosts]),
                self.stop,
                self.patience,
            )

    def _await_builds(self, unfinished: Sequence[Unfinished]) -> Mapping[str, Observation]:
        """What hosts show that were told to build, once they have built."""
        building = {
            one.work.host.node: (one.work.host, builds_of(one.work, one.receipts))
            for one in unfinished
        }
        seen = {node: one for each in unfinished for node, one in each.seen.items()}
        # Nobody who has to take something away waits for a build: it goes on by itself.
        give_way(self.lock)
        patience = BuildPatience(
            stop=lambda: self.stop() or is_wanted(self.lock),
            tell=lambda node, phase, what: self.on_progress(
                HostProgress(node=node, phase=phase, detail=what)
            ),
        )
        with around("build"):
            return await_builds(building, seen, lambda hosts: self.look(hosts, ()), patience)
