"""A loop that is left alone goes on, or says that it does not; and it wakes nobody but itself."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.model.problem import Problem, ProblemError
from reconciler.operations.fleet import Fleet, utc_now
from reconciler.operations.journal import writing
from reconciler.operations.liveness import lease, presence
from reconciler.operations.liveness.health import LoopCondition, health_of
from reconciler.operations.liveness.presence import Presence, read_presence
from reconciler.operations.notifications.news import Level, News
from reconciler.operations.open import open_fleet
from reconciler.operations.reconcile import loop, tick
from reconciler.operations.reconcile.loop import LoopOptions, reconcile
from reconciler.operations.reconcile.service.signals import LoopSignals
from reconciler.operations.rounds.rounds import Tick
from tests.harness.yard import Yard
from tests.operations.reconcile.rounds import Rounds

Round = Callable[[], Tick]


class Stage:
    """A loop whose rounds are as a test likes: one after the other, then somebody ends it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.signals = LoopSignals()
        self.said: list[News] = []
        self.seconds = 1000.0
        self.patch = monkeypatch
        monkeypatch.setattr(loop, "boottime", lambda: self.seconds)
        monkeypatch.setattr(
            loop._Loop, "_sleep", lambda running, seconds: self.sleep(running, seconds)
        )

    def run(self, *rounds: Round) -> None:
        left = list(rounds)

        def played(*_: object) -> Tick:
            one = left.pop(0)
            if not left:
                self.signals._count = 1
            return one()

        self.patch.setattr(loop, "tick", played)
        options = LoopOptions(open=lambda: open_fleet(self.folder))
        reconcile(options, self.signals, self.said.append)

    def sleep(self, running: loop._Loop, seconds: float) -> None:
        self.seconds += seconds
        running._present("", seconds)

    @property
    def events(self) -> list[str]:
        return [f"{one.event} {one.code}".strip() for one in self.said]

    @property
    def fleet(self) -> Fleet:
        return open_fleet(self.folder)

    @property
    def condition(self) -> LoopCondition:
        return health_of(self.fleet, read_presence(self.fleet), utc_now()).condition


@pytest.fixture
def stage(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(yard.folder, monkeypatch)


def well() -> Tick:
    return Tick(at="2026-11-01T00:00:00Z")


def broken() -> Tick:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/state/source/checked-out")


def busy() -> Tick:
    raise ProblemError((Problem(code="state_locked", message="held by bo (apply, pid 7)"),))


def test_a_full_disk_ends_a_round_and_not_the_loop(stage: Stage) -> None:
    stage.run(broken, well, well)
    assert stage.events == ["started", "refused os_refused", "recovered", "ended"]
    assert stage.condition is LoopCondition.ENDED


def test_a_loop_that_breaks_says_nothing_of_a_wish(stage: Stage) -> None:
    """Else whoever looks is told that somebody ended it, and nobody starts it again."""

    def gone(*_: object) -> float:
        raise MemoryError

    stage.patch.setattr(loop._Loop, "_sleep", gone)
    with pytest.raises(MemoryError):
        stage.run(well, well)
    assert (stage.said[-1].event, stage.said[-1].level) == ("ended", Level.ERROR)
    assert stage.condition is LoopCondition.GONE


def test_a_lock_that_nobody_gives_back_is_told(stage: Stage) -> None:
    stage.run(*[busy] * 200, well, well)
    assert stage.events == ["started", "refused state_locked", "recovered", "ended"]
    stage.said.clear()
    stage.signals._count = 0
    stage.run(*[busy] * 20, well)
    assert stage.events == ["started", "ended"]


def test_settings_that_are_unsound_are_told_once_and_once_more(stage: Stage) -> None:
    """The loop is less than it should be as long as that lasts, however its rounds go."""
    settings = stage.folder / "gpuaas.yaml"
    before = settings.read_text()
    kept, conditions = stage.fleet, list[str]()

    def half() -> Tick:
        settings.write_text("operators: [ol")
        return well()

    def look() -> Tick:
        said = read_presence(kept)
        conditions.append(said.degraded if said else "")
        return well()

    def mend() -> Tick:
        settings.write_text(before)
        return well()

    stage.run(half, look, look, mend, look, well)
    assert stage.events == ["started", "degraded settings", "recovered settings", "ended"]
    assert ["the settings before count" in one for one in conditions] == [True, True, False]


def test_a_loop_stays_with_the_state_that_it_is_alone_on(stage: Stage) -> None:
    settings = stage.folder / "gpuaas.yaml"

    def moved() -> Tick:
        settings.write_text(settings.read_text() + "state: elsewhere\n")
        return well()

    kept = stage.fleet
    stage.run(moved, well, well)
    assert "degraded settings" in stage.events
    said = read_presence(kept)
    assert said is not None
    assert "is another state" in said.degraded


def sleeper(code: str) -> subprocess.Popen[bytes]:
    script = f"import signal, sys, time; {code}; print(1, flush=True); time.sleep(60)"
    found = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert found.stdout is not None
    found.stdout.readline()
    return found


@pytest.mark.parametrize("who", ["stranger", "deaf", "loop"])
def test_only_a_loop_that_listens_is_woken(yard: Yard, who: str) -> None:
    """SIGUSR1 ends whoever does not: one with a pid that comes again, or `gpuaas approvals`."""
    fleet = yard.fleet()
    process = sleeper(
        "signal.signal(signal.SIGUSR1, lambda *_: sys.exit(7))" if who != "deaf" else "pass"
    )
    try:
        said = Presence(pid=process.pid, actor="x", since="", said_at="", interval_seconds=60)
        presence.tell(fleet, said)
        with presence.alone(fleet):
            if who != "stranger":
                (fleet.state / lease.LOCK).write_text(f"olga, pid {process.pid}\n")
            if who == "loop":
                assert presence.wake(fleet) == process.pid
                assert process.wait(10) == 7
                return
            with pytest.raises(ProblemError) as error:
                presence.wake(fleet)
        assert error.value.problems[0].code == "not_found"
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


def test_whoever_only_asks_keeps_no_loop_from_beginning(yard: Yard) -> None:
    fleet = yard.fleet()
    with presence.alone(fleet):
        pass
    script = (
        "import fcntl, os, sys, time; h = os.open(sys.argv[1], os.O_RDWR);"
        " fcntl.flock(h, fcntl.LOCK_SH); print(1, flush=True); time.sleep(0.4)"
    )
    words = [sys.executable, "-c", script, str(fleet.state / lease.LOCK)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as asking:
        assert asking.stdout is not None
        asking.stdout.readline()
        with presence.alone(fleet):
            pass


def test_a_word_that_comes_while_a_silent_host_is_asked_is_not_slept_over(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = Rounds(yard, utc_now())
    rounds()
    looked = tick._Round._look_at_silent

    def with_a_word(self: tick._Round, names: object, key: str) -> str:
        assert yard.gpuaas("suspend", "loop/node/gpu02", "--reason", "cards").code == 0
        return looked(self, names, key)  # type: ignore[arg-type]

    with yard.away("gpu01"):
        for _ in range(8):
            told = rounds()
        assert told.silent == ("node/gpu01",)
        monkeypatch.setattr(tick._Round, "_look_at_silent", with_a_word)
        rounds(301)
        monkeypatch.setattr(tick._Round, "_look_at_silent", looked)
        assert not rounds(1).idle


def test_what_a_round_did_is_told_whoever_has_the_lock_after(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = Rounds(yard, utc_now())
    rounds()
    looked = tick._Round._look_at_silent

    def while_held(self: tick._Round, names: object, key: str) -> str:
        with writing(yard.fleet(), "apply"):
            return looked(self, names, key)  # type: ignore[arg-type]

    with yard.away("gpu01"):
        for _ in range(8):
            rounds()
        monkeypatch.setattr(tick._Round, "_look_at_silent", while_held)
        assert rounds(301).silent == ("node/gpu01",)
