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
from reconciler.model.host.evidence import Observation
from reconciler.model.plan.plan import Order, Step
from reconciler.model.plan.work import Host, HostProgress, HostWork, Receipt, StepOutcome
from reconciler.model.records import dataclass
from reconciler.operations.apply.handlers import handler_of, readies
from reconciler.operations.apply.wave.outcomes import has_harmed, put_back, spared, unasked, unkept
from reconciler.operations.apply.wave.pipeline import each_as_it_ends
from reconciler.operations.apply.wave.reboot import RebootPatience, under_way
from reconciler.operations.apply.wave.waits import Awaited, Unfinished, Waits, boot_of, builds_of
from reconciler.operations.fleet import Fleet
from reconciler.operations.observe import run_options
from reconciler.operations.signals import Interrupts
from reconciler.planner.proof.verify_step import judge

Leaving = Mapping[str, tuple[int, ...]]
"""By node, the uids of which nothing may be left afterwards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Worked:
    """Steps that have ended, each judged, and the last answers of their hosts."""

    judged: tuple[StepOutcome, ...]
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
        rest = _by_host([step for step in asked if not readies(step)], self.find)
        yield from self._work(rest, leaving)
        left = _by_host([step for step in asked if readies(step)], self.find)
        left.sort(key=lambda work: work.host.node in self.failed)
        kept, harmed = tried, False
        while left and not harmed:
            size = BATCH if kept else 1
            for worked in self._work(left[:size], leaving):
                kept = kept or any(readies(o.step) and o.ok for o in worked.judged)
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
        for awaited in self._waits.await_all(unfinished) if unfinished else ():
            worked = _worked(awaited)
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
        if boot_of(work, receipts):
            return Unfinished(work=work, receipts=receipts, seen={})
        self.on_progress(HostProgress(node=node, phase="observe"))
        changed = any(readies(s) and _changed(receipts.get(s.id)) for s in steps)
        seen = self._look([work.host], leaving, [node] if changed else ())
        if builds_of(work, receipts) and self.patience is not None:
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

    def _look(
        self, hosts: Sequence[Host], leaving: Leaving, fresh: Collection[str] = ()
    ) -> dict[str, Observation]:
        """Observe these hosts; those whose answer was no longer waited for show nothing."""
        at = self.fleet.now()
        seen = observe(hosts, self._options, at=at, prove=leaving, fresh=fresh)
        return {one.node: one for one in seen if one.problem != INTERRUPTED}

    @property
    def _waits(self) -> Waits:
        return Waits(
            lock=self.fleet.state / "lock",
            look=lambda hosts, fresh: self._look(hosts, {}, fresh),
            stop=self._is_to_stop,
            on_progress=self.on_progress,
            patience=self.patience,
        )

    def _is_to_stop(self) -> bool:
        self.meanwhile()
        return self.interrupts.asked

    def _settle(
        self,
        judged: Sequence[StepOutcome],
        seen: dict[str, Observation],
        host: Host,
        leaving: Leaving,
    ) -> tuple[StepOutcome, ...]:
        """Keep what a preparation changed where it shows, and roll it back otherwise."""
        good = any(readies(o.step) and o.ok for o in judged)
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
    return tuple(
        handler_of(step).judge(judge(step, receipts.get(step.id), seen), seen) for step in steps
    )


def _worked(awaited: Awaited) -> Worked:
    one, node = awaited.host, awaited.host.work.host.node
    judged = (
        tuple(under_way(step) for step in one.work.steps)
        if awaited.down
        else _judged(one.work.steps, one.receipts, awaited.seen)
    )
    return Worked(judged=judged, seen={node: awaited.seen} if awaited.seen is not None else {})


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
        uid = step.item.account_uid
        if step.order is Order.RETIRE and uid and handler_of(step).leaves_nothing:
            uids[step.node].add(uid)
    return {node: tuple(sorted(found)) for node, found in uids.items()}
