"""The work of a wave: steps are done on their hosts, and read back in a call of its own.

A receipt is never a proof. Each host is looked at and judged as soon as it has answered, whatever
the others are at. A host that was prepared is looked at through a new connection, while the one in
hand stays: what cannot be seen so is put back as it was (rule 6).
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace

from reconciler.hosts.ansible.executor import BATCH, Answered, RunOptions, nobody_waits, run_wave
from reconciler.hosts.cancel import Wish
from reconciler.hosts.evidence import observe
from reconciler.hosts.prepare_commit import settle
from reconciler.kinds.allocation.restart import reboots
from reconciler.model.host.evidence import Observation
from reconciler.model.plan.plan import Order, Step
from reconciler.model.plan.verb import STAGING, Verb
from reconciler.model.plan.work import Host, HostProgress, HostWork, Receipt, StepOutcome
from reconciler.model.records import dataclass
from reconciler.operations.apply.builds import BuildPatience, await_builds, judge_build
from reconciler.operations.apply.outcomes import has_harmed, put_back, spared, unasked, unkept
from reconciler.operations.apply.pipeline import each_as_it_ends
from reconciler.operations.apply.reboot import Boot, RebootPatience, await_boots, under_way
from reconciler.operations.fleet import Fleet
from reconciler.operations.observe import run_options
from reconciler.operations.signals import Interrupts
from reconciler.planner.proof.verify_step import judge
from reconciler.stops import around
from reconciler.store.file.lock import give_way, is_wanted

Leaving = Mapping[str, tuple[int, ...]]
"""By node, the uids of which nothing may be left afterwards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Worked:
    """Steps that have ended, each judged, and the last answers of their hosts."""

    judged: tuple[StepOutcome, ...]
    seen: Mapping[str, Observation]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfinished:
    """A host that continues by itself after its answer: it reboots, or it builds."""

    work: HostWork
    receipts: Mapping[str, Receipt]
    seen: Mapping[str, Observation]


@dataclass(frozen=True, slots=True, kw_only=True)
class EitherWish:
    """A wish to stop: of the person, or because the run is over for another reason."""

    interrupts: Interrupts
    over: Wish

    @property
    def asked(self) -> bool:
        return self.interrupts.asked or self.over()

    @property
    def forced(self) -> bool:
        return self.interrupts.forced


@dataclass(frozen=True, slots=True, kw_only=True)
class Crew:
    """Whoever is sent to hosts: `find` tells how a node is reached, None if nobody knows.

    Nodes that are `silent` are asked for nothing: nobody else has to wait for them in vain.
    Without `patience` nobody waits for hosts that start anew either. `meanwhile` is called again
    and again while hosts are at work.
    """

    fleet: Fleet
    find: Callable[[str], Host | None]
    on_progress: Callable[[HostProgress], None]
    interrupts: Interrupts
    silent: Mapping[str, Observation] = field(default_factory=dict)
    failed: Collection[str] = ()
    patience: RebootPatience | None = field(default_factory=RebootPatience)
    meanwhile: Callable[[], None] = lambda: None

    def work(self, steps: Sequence[Step], *, tried: bool = False) -> Iterator[Worked]:
        """What has come of it, host by host as each is done; every step is told of once.

        Preparing comes last: one host at a time until one is kept, or where `tried` says that one
        was, a batch at a time, each settled before the next. A prepared host takes all back by
        itself after a while, so it must not wait for others; and where preparing has done harm to
        a host, no other is tried. So those that have `failed` before come after all others.
        """
        leaving = _leaving(steps)
        asked = [step for step in steps if step.node not in self.silent]
        silent = [unasked(s, self.silent[s.node]) for s in steps if s.node in self.silent]
        self._tell_ends(sorted({o.step.node for o in silent}), silent)
        unknown = [judge(step, None, None) for step in asked if self.find(step.node) is None]
        if silent or unknown:
            yield Worked(judged=(*silent, *unknown), seen={})
        rest = _by_host([step for step in asked if step.verb != Verb.PREPARE], self.find)
        yield from self._work(rest, leaving)
        left = _by_host([step for step in asked if step.verb == Verb.PREPARE], self.find)
        left.sort(key=lambda work: work.host.node in self.failed)
        kept, harmed = tried, False
        while left and not harmed:
            size = BATCH if kept else 1
            for worked in self._work(left[:size], leaving):
                kept = kept or any(o.step.verb == Verb.PREPARE and o.ok for o in worked.judged)
                harmed = harmed or any(map(has_harmed, worked.judged))
                yield worked
            left = left[size:]
        if untried := [step for work in left for step in work.steps]:
            yield Worked(judged=tuple(map(spared, untried)), seen={})

    def _work(self, works: Sequence[HostWork], leaving: Leaving) -> Iterator[Worked]:
        """Do the work; `leaving` is that of the whole wave: the last look at a host counts."""

        def run(answered: Answered, over: Wish) -> Sequence[Receipt]:
            stop = EitherWish(interrupts=self.interrupts, over=over)
            return run_wave(works, self._options, self._on_the_way, stop, answered)

        def follow(work: HostWork, receipts: Sequence[Receipt]) -> Worked | Unfinished:
            return self._follow(work, {receipt.step: receipt for receipt in receipts}, leaving)

        unfinished = []
        for done in each_as_it_ends(works, run, follow, self.meanwhile):
            if isinstance(done, Unfinished):
                unfinished.append(done)
            else:
                self._tell_ends(sorted({o.step.node for o in done.judged}), done.judged)
                yield done
        for worked in self._await(unfinished) if unfinished else ():
            self._tell_ends(sorted({o.step.node for o in worked.judged}), worked.judged)
            yield worked

    def _follow(
        self, work: HostWork, receipts: Mapping[str, Receipt], leaving: Leaving
    ) -> Worked | Unfinished:
        """What one host shows after its answer, in a thread of its own."""
        node, steps = work.host.node, work.steps
        receipts = self._after_an_earlier_run(work, receipts)
        if all(_not_begun(receipts.get(step.id)) for step in steps):
            return Worked(judged=_judged(steps, receipts, None), seen={})
        if _boot(work, receipts):
            return Unfinished(work=work, receipts=receipts, seen={})
        self.on_progress(HostProgress(node=node, phase="observe"))
        changed = any(s.verb == Verb.PREPARE and _changed(receipts.get(s.id)) for s in steps)
        seen = self._look([work.host], leaving, [node] if changed else ())
        if _builds(work, receipts) and self.patience is not None:
            return Unfinished(work=work, receipts=receipts, seen=seen)
        judged = _judged(steps, receipts, seen.get(node))
        if changed:
            judged = self._settle(judged, seen, work.host, leaving)
        return Worked(judged=judged, seen=seen)

    def _after_an_earlier_run(
        self, work: HostWork, receipts: Mapping[str, Receipt]
    ) -> Mapping[str, Receipt]:
        """What came of asking again where an earlier run was still at work, and touched nothing."""
        until = time.monotonic() + BUSY_SECONDS
        busy = HostProgress(
            node=work.host.node, phase="converge", detail="waits for an earlier run on it"
        )
        while _is_busy(receipts) and not self.interrupts.asked and time.monotonic() < until:
            self.on_progress(busy)
            again = run_wave([work], self._options, self._on_the_way, self.interrupts, nobody_waits)
            receipts = {receipt.step: receipt for receipt in again}
        return receipts

    def _await(self, unfinished: Sequence[Unfinished]) -> Iterator[Worked]:
        """Wait for hosts that reboot, then for those that build, each as far as somebody waits."""
        boots = {
            one.work.host.node: boot
            for one in unfinished
            if (boot := _boot(one.work, one.receipts)) is not None
        }
        back = self._await_boots(boots) if boots else {}
        building = [one for one in unfinished if one.work.host.node not in boots]
        built = self._await_builds(building) if building else {}
        for one in unfinished:
            node = one.work.host.node
            seen = back.get(node) or built.get(node) or one.seen.get(node)
            gone = node in boots and node not in back
            judged = (
                tuple(under_way(step) for step in one.work.steps)
                if gone
                else _judged(one.work.steps, one.receipts, seen)
            )
            yield Worked(judged=judged, seen={node: seen} if seen is not None else {})

    def _look(
        self, hosts: Sequence[Host], leaving: Leaving, fresh: Collection[str] = ()
    ) -> dict[str, Observation]:
        """Observe these hosts; those whose answer was no longer waited for show nothing."""
        at = self.fleet.now()
        seen = observe(hosts, self._options, at=at, prove=leaving, fresh=fresh)
        return {one.node: one for one in seen if one.problem != INTERRUPTED}

    def _await_boots(self, boots: Mapping[str, Boot]) -> dict[str, Observation]:
        """What hosts show that start anew, once they have; nothing of those nobody waits for."""
        with around("reboot"):
            if self.patience is None:
                return {}
            for node in boots:
                self.on_progress(HostProgress(node=node, phase="observe", detail="starts anew"))
            return await_boots(
                boots.values(),
                lambda hosts: self._look(hosts, {}, [host.node for host in hosts]),
                self._is_to_stop,
                self.patience,
            )

    def _is_to_stop(self) -> bool:
        self.meanwhile()
        return self.interrupts.asked

    def _await_builds(self, unfinished: Sequence[Unfinished]) -> Mapping[str, Observation]:
        """What hosts show that were told to build, once they have built."""
        building = {
            one.work.host.node: (one.work.host, _builds(one.work, one.receipts))
            for one in unfinished
        }
        seen = {node: one for each in unfinished for node, one in each.seen.items()}
        # Nobody who has to take something away waits for a build: it goes on by itself.
        lock = self.fleet.state / "lock"
        give_way(lock)
        patience = BuildPatience(
            stop=lambda: self._is_to_stop() or is_wanted(lock),
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
        host: Host,
        leaving: Leaving,
    ) -> tuple[StepOutcome, ...]:
        """Keep what a preparation changed where it shows, and roll it back otherwise."""
        good = any(o.step.verb == Verb.PREPARE and o.ok for o in judged)
        why = settle([host], [host.node] if good else (), self._options)[host.node]
        if not good or why:
            seen.update(self._look([host], leaving))
        unsettled = {host.node: why} if why else {}
        settled = () if why else (host.node,)
        return tuple(unkept(put_back(o, settled), unsettled) for o in judged)

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


def _judged(
    steps: Sequence[Step], receipts: Mapping[str, Receipt], seen: Observation | None
) -> tuple[StepOutcome, ...]:
    return tuple(judge_build(judge(step, receipts.get(step.id), seen), seen) for step in steps)


def _boot(work: HostWork, receipts: Mapping[str, Receipt]) -> Boot | None:
    """The boot of a host that has said that it reboots, unless it had done so before."""
    for step in work.steps:
        if reboots(step) and (told := receipts.get(step.id)) and told.ok and told.changed:
            return Boot(host=work.host, step=step)
    return None


def _builds(work: HostWork, receipts: Mapping[str, Receipt]) -> list[Step]:
    """What this host has said that it builds."""
    told = ((step, receipts.get(step.id)) for step in work.steps if step.verb in STAGING)
    return [step for step, receipt in told if receipt is not None and receipt.ok]


def _changed(receipt: Receipt | None) -> bool:
    """Silence may hide a change: then the host is rolled back, which harms nobody."""
    return receipt is None or receipt.changed or receipt.unknown


INTERRUPTED, HOST_BUSY = "interrupted", "host_busy"
BUSY_SECONDS = 600.0
"""So long an earlier run is waited for that moves; one that does not is taken over by its host."""


def _is_busy(receipts: Mapping[str, Receipt]) -> bool:
    problems = [receipt.problem for receipt in receipts.values()]
    return any(problem is not None and problem.code == HOST_BUSY for problem in problems)


def _not_begun(receipt: Receipt | None) -> bool:
    """Whether its host was spared, because of a wish to stop before its turn."""
    if receipt is None or receipt.problem is None or receipt.unknown:
        return False
    return receipt.problem.code == INTERRUPTED


def _leaving(steps: Sequence[Step]) -> Leaving:
    uids: dict[str, set[int]] = defaultdict(set)
    for step in steps:
        if step.order is Order.RETIRE and step.item.get("uid") and step.verb == Verb.RELEASE:
            uids[step.node].add(step.item["uid"])
    return {node: tuple(sorted(found)) for node, found in uids.items()}
