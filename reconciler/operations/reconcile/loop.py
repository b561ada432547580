"""The loop: a round, then sleep until the next one is due or something wakes it.

It looks at states and never at what woke it. It never ends by itself, whatever a round comes to.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterable
from dataclasses import field, replace

from reconciler.model.moment import format_moment
from reconciler.model.plan.work import HostProgress
from reconciler.model.problem import Problem, ProblemError
from reconciler.model.records import dataclass
from reconciler.model.settings import LoopSettings
from reconciler.model.state.lock import LockPatience
from reconciler.operations.fleet import Fleet
from reconciler.operations.liveness.presence import ENDED, Presence, alone, moment, tell
from reconciler.operations.monitoring.exposition import Exposition
from reconciler.operations.notifications.dispatch import Dispatch
from reconciler.operations.notifications.news import Level, News, Teller
from reconciler.operations.reconcile.holds import keep_refusal, keep_round
from reconciler.operations.reconcile.service.notify import notify, status
from reconciler.operations.reconcile.service.signals import LoopSignals
from reconciler.operations.reconcile.source.source import local_repository
from reconciler.operations.reconcile.source.upkeep import Upkeep
from reconciler.operations.reconcile.source.watch import Watch
from reconciler.operations.reconcile.tick import is_busy, seconds_until, tick
from reconciler.operations.rounds.backoff import keep_pace, read_pace
from reconciler.operations.rounds.rounds import Memory, Tick, summary
from reconciler.specs.git.mirror import was_stopped

PAUSE_SECONDS = 1.0
"""Between two rounds there is always so much, whatever wakes the loop."""

BUSY_SECONDS, REFUSED_SECONDS, MOST_REFUSED = 5.0, 15.0, 300.0
LOCK_SECONDS = 10.0
"""So long a round waits for whoever writes; then it is for the next one."""
STUCK_SECONDS = 900.0
"""So long somebody else may have the lock, with no round between, until that is said."""

Say = Callable[[News], None]


def _os_problem(error: OSError) -> Problem:
    where = f"{error.filename}: " if error.filename else ""
    return Problem(code="os_refused", message=f"{where}{error.strerror or error}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopOptions:
    """`loop` is as the settings say, but for what the command line says otherwise."""

    open: Callable[[], Fleet]
    loop: Callable[[LoopSettings], LoopSettings] = lambda settings: settings
    watch: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Once:
    """One round, for who wants no more: what became of it."""

    tick: Tick
    news: tuple[News, ...]


def boottime() -> float:
    """Seconds that nobody sets back, and that go on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def reconcile_once(options: LoopOptions, signals: LoopSignals) -> Once:
    """Do one round. Raises ProblemError where none was possible."""
    fleet = _fleet(options, signals)
    with alone(fleet), signals:
        ours = _Loop(options=options, signals=signals, say=lambda news: None)
        memory = ours.memory
        memory.pace = read_pace(fleet)
        ours.begin(fleet)
        try:
            found = tick(fleet, memory, signals, ours.progress)
        except ProblemError as error:
            keep_refusal(fleet, error.problems)
            ours.show_once(fleet)
            quiet = is_busy(error) or was_stopped(error)
            ours.once(fleet, () if quiet else ours.teller.refused(*_words(error)))
            raise
        keep_round(fleet, found)
        ours.show_once(fleet, found)
        news = ours.once(fleet, (*ours.teller.went(), *ours.teller.tell(found)))
        keep_pace(fleet, memory.pace)
        ours.upkeep.keep(fleet, lambda: signals.asked)
    return Once(tick=found, news=news)


def reconcile(options: LoopOptions, signals: LoopSignals, say: Say) -> None:
    """Until somebody wishes it to end. Raises ProblemError before the first round only."""
    fleet = _fleet(options, signals)
    with alone(fleet), signals:
        loop = _Loop(options=options, signals=signals, say=say)
        loop.memory.pace = read_pace(fleet)
        loop.run(fleet)


def _fleet(options: LoopOptions, signals: LoopSignals) -> Fleet:
    def leaving() -> bool:
        return signals.asked

    fleet = options.open()
    settings = replace(fleet.settings, loop=options.loop(fleet.settings.loop))
    patience = LockPatience(seconds=LOCK_SECONDS, stop=leaving)
    return replace(fleet, settings=settings, patience=patience, leaving=leaving)


def _words(error: ProblemError) -> tuple[str, str]:
    problem = error.problems[0]
    return problem.code, f"{problem.code}: {problem.message}"


@dataclass(slots=True, kw_only=True)
class _Loop:
    options: LoopOptions
    signals: LoopSignals
    say: Say
    memory: Memory = field(default_factory=lambda: Memory(clock=boottime, chance=random.random))
    teller: Teller = field(default_factory=Teller)
    watch: Watch | None = None
    exposition: Exposition = field(default_factory=lambda: Exposition(clock=boottime))
    dispatch: Dispatch = field(default_factory=Dispatch)
    since: str = ""
    rounds: int = 0
    degraded: str = ""
    unsound: str = ""
    upkeep: Upkeep = field(default_factory=lambda: Upkeep(clock=boottime))
    busy_since: float | None = None
    fleet: Fleet | None = None

    def begin(self, fleet: Fleet) -> None:
        """Whoever was told of something by the loop before this one, is told of its end by this."""
        self.exposition.told = lambda: self.dispatch.told
        for key in self.dispatch.begin(fleet):
            self.teller.resume(*key)

    def once(self, fleet: Fleet, news: Iterable[News]) -> tuple[News, ...]:
        told = tuple(news)
        self.dispatch.take(fleet, told)
        self.dispatch.end(fleet)
        less = self.teller.less("monitoring", self.exposition.degraded)
        return (*told, *less, *self.teller.less("notifications", self.dispatch.degraded))

    def run(self, fleet: Fleet) -> None:
        self.begin(fleet)
        self.fleet, self.since = fleet, format_moment(fleet.now())
        self._watch(fleet)
        self._say([News(level=Level.NOTICE, event="started", text=f"loop of {fleet.folder}")])
        notify("READY=1")
        try:
            while not self.signals.asked:
                self.signals.woken.clear()
                seconds = self._round()
                if self.signals.asked:
                    break
                self._sleep(seconds)
        finally:
            notify("STOPPING=1")
            if self.watch is not None:
                self.watch.stop()
            self._end(fleet)

    def _end(self, fleet: Fleet) -> None:
        """Only an end that somebody wished is told as one: what died is to be found dead."""
        wished = self.signals.asked
        if wished:
            self._present(ENDED)
        self.exposition.stop()
        level = Level.NOTICE if wished else Level.ERROR
        text = "ended on request" if wished else "it dies of a defect: the log says which"
        self._say([News(level=level, event="ended", text=text)])
        self.dispatch.end(fleet)

    def show_once(self, fleet: Fleet, found: Tick | None = None) -> None:
        """In the file, if there is one; nobody listens for one round."""
        self._count(found)
        seconds = float(fleet.settings.loop.interval_seconds)
        self.since = format_moment(fleet.now())
        self.exposition.show(fleet, self._said(fleet, "", seconds), self.memory, seconds)

    def progress(self, told: HostProgress) -> None:
        self._present(f"{told.phase} {told.node}")

    def _round(self) -> float:
        """The seconds until the next one, unless something wakes the loop."""
        try:
            return self._tried()
        except ProblemError as error:
            return 0.0 if was_stopped(error) else self._refused(error)
        except OSError as error:
            # A full disk, a folder that is gone: it may be mended, and the loop is to see that.
            self.memory.rest = ""
            return self._refused(ProblemError((_os_problem(error),)))

    def _tried(self) -> float:
        fleet = self.fleet = self._reopened()
        self.dispatch.follow(fleet)
        self._present("a round")
        found = tick(fleet, self.memory, self.signals, self.progress)
        self.busy_since = None
        keep_round(fleet, found)
        self._count(found)
        self._say([*self.teller.went(), *self.teller.tell(found)])
        keep_pace(fleet, self.memory.pace)
        self.degraded = "; ".join(p.message for p in found.problems if p.is_error and not p.ref)
        return self._until_next(fleet, found)

    def _until_next(self, fleet: Fleet, found: Tick) -> float:
        seconds = float(fleet.settings.loop.interval_seconds)
        ahead = seconds_until(found.next_moment, fleet)
        if ahead is not None:
            seconds = min(seconds, ahead)
        waits = self.memory.pace.waiting(boottime()).values()
        if waits:
            seconds = min(seconds, min(one.until for one in waits) - boottime())
        return max(PAUSE_SECONDS, seconds)

    def _refused(self, error: ProblemError) -> float:
        """What could not be tried is tried again, less and less often."""
        if is_busy(error):
            now = boottime()
            self.busy_since = now if self.busy_since is None else self.busy_since
            if now - self.busy_since < STUCK_SECONDS:
                return BUSY_SECONDS
        if self.fleet is not None:
            keep_refusal(self.fleet, error.problems)
        code, text = _words(error)
        self._say(self.teller.refused(code, text))
        self.degraded = text
        self._count(None)
        interval = self.fleet.settings.loop.interval_seconds if self.fleet else REFUSED_SECONDS
        doubled: float = max(REFUSED_SECONDS, interval) * 2.0 ** min(
            self.exposition.tally.refusals - 1, 5
        )
        return min(MOST_REFUSED, doubled)

    def _reopened(self) -> Fleet:
        """The fleet with the settings as they are now; while these are unsound, with those before.

        A loop with another state has to be started anew: this one is alone on its own.
        """
        before = self.fleet
        try:
            found = _fleet(self.options, self.signals)
        except ProblemError as error:
            if before is None:
                raise
            self.unsound = f"{error.problems[0].message}: the settings before count"
            return before
        if before is not None and found.state.resolve() != before.state.resolve():
            self.unsound = f"{found.state} is another state: the settings before count"
            return before
        self.unsound = ""
        return found

    def _sleep(self, seconds: float) -> None:
        if self.watch is not None:
            self.watch.check()
        self._present("", seconds)
        began = time.monotonic()
        if self.fleet is not None:
            self.upkeep.keep(self.fleet, lambda: self._is_over(began, seconds))
        self.signals.woken.wait(max(0.0, seconds - (time.monotonic() - began)))
        # Whatever wakes it: no hot loop (F-REC-10).
        left = PAUSE_SECONDS - (time.monotonic() - began)
        if left > 0 and not self.signals.asked:
            time.sleep(left)

    def _is_over(self, began: float, seconds: float) -> bool:
        """Whether the sleep is: what is done in it keeps no round from beginning."""
        slept = time.monotonic() - began
        woken = self.signals.woken.is_set() and slept >= PAUSE_SECONDS
        return self.signals.asked or woken or slept >= seconds

    def _watch(self, fleet: Fleet) -> None:
        repository = local_repository(fleet) if self.options.watch else None
        if repository is not None:
            self.watch = Watch(repository, self.signals.woken.set)
            self.watch.start()

    def _say(self, news: Iterable[News]) -> None:
        told = tuple(news)
        for one in told:
            self.say(one)
        if self.fleet is not None:
            self.dispatch.take(self.fleet, told)

    def _count(self, found: Tick | None) -> None:
        """A round that was; None for one that could not be."""
        if found is None:
            self.exposition.tally.refused()
            return
        self.rounds += 1
        self.exposition.tally.count(found)

    def _present(self, phase: str, seconds: float | None = None) -> None:
        fleet = self.fleet
        if fleet is None:
            return
        self.exposition.listen(fleet)
        self._say(self.teller.less("settings", self.unsound))
        self._say(self.teller.less("monitoring", self.exposition.degraded))
        self._say(self.teller.less("notifications", self.dispatch.degraded))
        self._say(self.teller.less("upkeep", self.upkeep.degraded))
        self.dispatch.keep(fleet)
        said = self._said(fleet, phase, seconds)
        tell(fleet, said)
        self.exposition.show(fleet, said, self.memory, seconds)
        status(phase or f"asleep, {self.rounds} rounds, at {said.commit[:7]}")

    def _said(self, fleet: Fleet, phase: str, seconds: float | None) -> Presence:
        loop, last, now = fleet.settings.loop, self.memory.last, fleet.now()
        watched = self.watch.degraded if self.watch else ""
        why = (
            self.degraded,
            self.unsound,
            watched,
            self.exposition.degraded,
            self.dispatch.degraded,
            self.upkeep.degraded,
        )
        return Presence(
            pid=os.getpid(),
            actor=fleet.actor.name,
            since=self.since,
            said_at=format_moment(now),
            interval_seconds=loop.interval_seconds,
            phase=phase,
            next_at=moment(now, seconds) if seconds is not None else "",
            commit=last.commit if last else "",
            source=loop.source.url or str(fleet.folder),
            rounds=self.rounds,
            degraded="; ".join(filter(None, why)),
            last=summary(last) if last else None,
        )
