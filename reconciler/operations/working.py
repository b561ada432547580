"""Working: a wave's steps done on their hosts, and what these show in a call of its own.

A receipt is never a proof. A host that was prepared is looked at through a new connection, while
the one in hand stays: what cannot be seen so is put back as it was (rule 6).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace

from reconciler.hosts.evidence import observe
from reconciler.hosts.executor import BATCH, RunOptions, run_wave
from reconciler.hosts.settling import settle
from reconciler.kinds.allocation_restart import reboots
from reconciler.model.evidence import Observation
from reconciler.model.plan import Order, Step
from reconciler.model.problem import Problem
from reconciler.model.work import Host, HostProgress, HostWork, Receipt, StepOutcome
from reconciler.operations.interrupting import Interrupts
from reconciler.operations.observing import run_options
from reconciler.operations.rebooting import Boot, Patience, await_boots, under_way
from reconciler.operations.staging import BuildPatience, await_builds, judge_build
from reconciler.operations.wiring import Fleet
from reconciler.planner.judging import judge
from reconciler.planner.ordering import PREPARE
from reconciler.planner.staging import STAGING
from reconciler.stops import around
from reconciler.store.lock import give_way, is_wanted

Leaving = Mapping[str, tuple[int, ...]]
"""By node, the uids of which nothing may be left afterwards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Worked:
    """Each step judged, in their order, and the last answer of each host."""

    judged: tuple[StepOutcome, ...]
    seen: Mapping[str, Observation]


@dataclass(frozen=True, slots=True, kw_only=True)
class Crew:
    """Whoever is sent to hosts: `find` tells how a node is reached, None if nobody knows.

    Nodes that are `silent` are asked for nothing: nobody else has to wait for them in vain.
    Without `patience` nobody waits for hosts that start anew either.
    """

    fleet: Fleet
    find: Callable[[str], Host | None]
    on_progress: Callable[[HostProgress], None]
    interrupts: Interrupts
    silent: Mapping[str, Observation] = field(default_factory=dict)
    patience: Patience | None = field(default_factory=Patience)

    def work(self, steps: Sequence[Step], *, tried: bool = False) -> Worked:
        """Preparing comes last: one host at a time until one is kept, or where `tried` says that

        one was, a batch at a time, each settled before the next. A prepared host takes all back
        by itself after a while, so it must not wait for others; and where preparing has done harm
        to a host, no other is tried.
        """
        leaving = _leaving(steps)
        asked = [step for step in steps if step.node not in self.silent]
        rest = _by_host([step for step in asked if step.verb != PREPARE], self.find)
        left = _by_host([step for step in asked if step.verb == PREPARE], self.find)
        done = [self._work(rest, leaving)] if rest else []
        while left and not any(map(has_harmed, _outcomes(done))):
            kept = tried or any(o.step.verb == PREPARE and o.ok for o in _outcomes(done))
            size = BATCH if kept else 1
            done.append(self._work(left[:size], leaving))
            left = left[size:]
        unasked = [_unasked(s, self.silent[s.node]) for s in steps if s.node in self.silent]
        self._tell_ends(sorted({o.step.node for o in unasked}), unasked)
        judged = {outcome.step.id: outcome for outcome in (*_outcomes(done), *unasked)}
        spared = {step.id for work in left for step in work.steps}
        return Worked(
            judged=tuple(
                judged.get(step.id)
                or (_spared(step) if step.id in spared else judge(step, None, None))
                for step in steps
            ),
            seen={node: seen for worked in done for node, seen in worked.seen.items()},
        )

    def _work(self, works: Sequence[HostWork], leaving: Leaving) -> Worked:
        """`leaving` is that of the whole wave: the last look at a host is the one that counts."""
        steps = [step for work in works for step in work.steps]
        answers = run_wave(works, self._options, self._on_the_way, self.interrupts)
        receipts = {receipt.step: receipt for receipt in answers}
        begun = [
            work.host
            for work in works
            if not all(_not_begun(receipts.get(step.id)) for step in work.steps)
        ]
        for host in begun:
            self.on_progress(HostProgress(node=host.node, phase="observe"))
        changed = {s.node for s in steps if s.verb == PREPARE and _changed(receipts.get(s.id))}
        boots = _boots(works, receipts)
        seen = self._look([host for host in begun if host.node not in boots], leaving, changed)
        seen |= self._await(boots)
        seen |= self._await_builds(works, receipts, seen)
        judged = [
            under_way(step)
            if step.node in boots and step.node not in seen
            else judge_build(
                judge(step, receipts.get(step.id), seen.get(step.node)), seen.get(step.node)
            )
            for step in steps
        ]
        if changed:
            judged = self._settle(judged, seen, changed, leaving)
        self._tell_ends([work.host.node for work in works], judged)
        return Worked(judged=tuple(judged), seen=seen)

    def _look(
        self, hosts: Sequence[Host], leaving: Leaving, fresh: Collection[str] = ()
    ) -> dict[str, Observation]:
        """What they show; nothing of those whose answer was no longer waited for."""
        at = self.fleet.now()
        seen = observe(hosts, self._options, at=at, prove=leaving, fresh=fresh)
        return {one.node: one for one in seen if one.problem != INTERRUPTED}

    def _await(self, boots: Mapping[str, Boot]) -> dict[str, Observation]:
        """What hosts show that start anew, once they have; nothing of those nobody waits for."""
        with around("reboot") if boots else nullcontext():
            if self.patience is None:
                return {}
            for node in boots:
                self.on_progress(HostProgress(node=node, phase="observe", detail="starts anew"))
            return await_boots(
                boots.values(),
                lambda hosts: self._look(hosts, {}, [host.node for host in hosts]),
                lambda: self.interrupts.asked,
                self.patience,
            )

    def _await_builds(
        self,
        works: Sequence[HostWork],
        receipts: Mapping[str, Receipt],
        seen: Mapping[str, Observation],
    ) -> Mapping[str, Observation]:
        """What hosts show that were told to build, once they have built."""
        building = {w.host.node: (w.host, found) for w in works if (found := _builds(w, receipts))}
        if not building or self.patience is None:
            return {}
        # Nobody who has to take something away waits for a build: it goes on by itself.
        lock = self.fleet.state / "lock"
        give_way(lock)
        patience = BuildPatience(
            stop=lambda: self.interrupts.asked or is_wanted(lock),
            tell=lambda node, phase, what: self.on_progress(
                HostProgress(node=node, phase=phase, detail=what)
            ),
        )
        with around("build"):
            return await_builds(building, seen, lambda hosts: self._look(hosts, {}), patience)

    def _settle(
        self,
        judged: Sequence[StepOutcome],
        seen: dict[str, Observation],
        changed: set[str],
        leaving: Leaving,
    ) -> list[StepOutcome]:
        """What a preparation changed is kept where it shows, and put back everywhere else."""
        good = {o.step.node for o in judged if o.step.verb == PREPARE and o.ok} & changed
        hosts = [host for node in sorted(changed) if (host := self.find(node)) is not None]
        unsettled = {n: why for n, why in settle(hosts, good, self._options).items() if why}
        undone = [host for host in hosts if host.node not in good or host.node in unsettled]
        seen.update(self._look(undone, leaving))
        settled = changed - unsettled.keys()
        return [_unkept(_put_back(o, settled), unsettled) for o in judged]

    @property
    def _options(self) -> RunOptions:
        return replace(run_options(self.fleet), forced=lambda: self.interrupts.forced)

    def _on_the_way(self, progress: HostProgress) -> None:
        """A host is done when it has been looked at, whatever it says of itself."""
        if progress.phase not in ("done", "failed"):
            self.on_progress(progress)

    def _tell_ends(self, nodes: Sequence[str], judged: Sequence[StepOutcome]) -> None:
        errors = [o for o in judged if o.problem and o.problem.is_error]
        first = {o.step.node: o.problem for o in reversed(errors)}
        for node in nodes:
            problem = first.get(node)
            phase, detail = ("failed", problem.message) if problem else ("done", "")
            self.on_progress(HostProgress(node=node, phase=phase, detail=detail))


def _by_host(steps: Sequence[Step], find: Callable[[str], Host | None]) -> list[HostWork]:
    by_node: dict[str, list[Step]] = defaultdict(list)
    for step in steps:
        by_node[step.node].append(step)
    return [
        HostWork(host=host, steps=tuple(todo))
        for node, todo in sorted(by_node.items())
        if (host := find(node)) is not None
    ]


def _boots(works: Sequence[HostWork], receipts: Mapping[str, Receipt]) -> dict[str, Boot]:
    """By node, those that have said that they start anew. One that had done so before does not."""
    return {
        work.host.node: Boot(host=work.host, step=step)
        for work in works
        for step in work.steps
        if reboots(step) and (told := receipts.get(step.id)) and told.ok and told.changed
    }


def _builds(work: HostWork, receipts: Mapping[str, Receipt]) -> list[Step]:
    """What this host has said that it builds."""
    told = ((step, receipts.get(step.id)) for step in work.steps if step.verb in STAGING)
    return [step for step, receipt in told if receipt is not None and receipt.ok]


def has_harmed(outcome: StepOutcome) -> bool:
    """Whether preparing has changed a host, or may have, and could not be kept.

    A host that was refused as it is holds up nobody.
    """
    return outcome.step.verb == PREPARE and not outcome.ok and (outcome.changed or outcome.unknown)


def _outcomes(done: Sequence[Worked]) -> list[StepOutcome]:
    return [outcome for worked in done for outcome in worked.judged]


def not_tried(step: Step, why: str) -> Problem:
    """Of a step that a preparation which failed has ruled out."""
    return Problem(
        code="host_not_prepared",
        message=f"{step.verb} of {step.ref} on {step.node} was not tried: {why}",
        hint="mend what the preparation names, then: gpuaas apply",
        ref=str(step.ref),
    )


def _unasked(step: Step, seen: Observation) -> StepOutcome:
    """What the look has said of its host is all that there is to say."""
    problem = Problem(code=seen.problem, message=f"{step.node}: {seen.message}", ref=str(step.ref))
    return StepOutcome(step=step, ok=False, changed=False, problem=problem)


def _spared(step: Step) -> StepOutcome:
    problem = not_tried(step, "preparing another host did it harm")
    return StepOutcome(step=step, ok=False, changed=False, problem=problem)


def _changed(receipt: Receipt | None) -> bool:
    """Silence may hide a change: then the host is to be put back, which harms nobody."""
    return receipt is None or receipt.changed or receipt.unknown


INTERRUPTED = "interrupted"


def _not_begun(receipt: Receipt | None) -> bool:
    """Whether its host was spared, since there was a wish to stop before its turn."""
    if receipt is None or receipt.problem is None or receipt.unknown:
        return False
    return receipt.problem.code == INTERRUPTED


def _leaving(steps: Sequence[Step]) -> Leaving:
    uids: dict[str, set[int]] = defaultdict(set)
    for step in steps:
        if step.order is Order.RETIRE and step.item.get("uid") and step.verb == RELEASE:
            uids[step.node].add(step.item["uid"])
    return {node: tuple(sorted(found)) for node, found in uids.items()}


RELEASE = "allocation.release"
ROLLED_BACK = "prepare_rolled_back"


def _put_back(outcome: StepOutcome, settled: Collection[str]) -> StepOutcome:
    """What became of a preparation that did not show, unless its host has told it already."""
    step, problem = outcome.step, outcome.problem
    if step.verb != PREPARE or problem is None or step.node not in settled:
        return outcome
    if problem.code in ("prepare_refused", ROLLED_BACK):
        return outcome
    told = f"{problem.message}; what was prepared has been put back"
    return replace(outcome, problem=replace(problem, code=ROLLED_BACK, message=told))


def _unkept(outcome: StepOutcome, unsettled: Mapping[str, str]) -> StepOutcome:
    why = unsettled.get(outcome.step.node)
    if outcome.step.verb != PREPARE or why is None or not outcome.ok:
        return outcome
    problem = Problem(
        code="host_not_prepared",
        message=f"{outcome.step.node}: what was prepared could not be kept: {why}",
        hint="see that the host answers, then: gpuaas apply",
        ref=str(outcome.step.ref),
    )
    return replace(outcome, ok=False, unknown=True, problem=problem)
