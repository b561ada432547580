"""What is shown on a port and in a file; a loop that hangs is told from one that sleeps."""

from __future__ import annotations

import io
import json
import os
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from reconciler import shipped
from reconciler.cli.main import run
from reconciler.cli.views import loop
from reconciler.hosts.ansible.executor import RunOptions
from reconciler.model.moment import format_moment
from reconciler.model.problem import ProblemError
from reconciler.model.settings import LoopSettings, MetricsSettings
from reconciler.operations.fleet import Fleet
from reconciler.operations.liveness import health, presence
from reconciler.operations.liveness.diagnosis import diagnose_loop
from reconciler.operations.liveness.health import LoopCondition, health_of
from reconciler.operations.liveness.presence import Presence, alone, tell
from reconciler.operations.monitoring.exposition import Exposition
from reconciler.operations.monitoring.listener import AT_ONCE, HttpListener, HttpResponse
from reconciler.operations.rounds.rounds import Memory
from reconciler.specs.settings import parse_settings
from tests.harness.yard import laid

INTERVAL = 60


def free_port() -> int:
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return int(place.getsockname()[1])


@dataclass
class Stage:
    """A fleet on which nothing was applied, and an exposition of it by a clock of one's own."""

    fleet: Fleet
    metrics: MetricsSettings
    seconds: float = 1000.0
    memory: Memory = field(init=False)
    exposition: Exposition = field(init=False)

    def __post_init__(self) -> None:
        self.memory = Memory(clock=lambda: self.seconds, chance=lambda: 0.0)
        self.exposition = Exposition(clock=lambda: self.seconds)
        settings = replace(self.fleet.settings, loop=LoopSettings(metrics=self.metrics))
        self.fleet = replace(self.fleet, settings=settings)

    def said(self, phase: str = "", next_at: str = "", degraded: str = "") -> Presence:
        return Presence(
            pid=os.getpid(),
            actor="olga",
            since="2026-11-01T00:00:00Z",
            said_at="2026-11-01T00:00:00Z",
            interval_seconds=INTERVAL,
            phase=phase,
            next_at=next_at,
            degraded=degraded,
        )

    def show(self, seconds: float | None, phase: str = "", degraded: str = "") -> None:
        self.exposition.listen(self.fleet)
        said = self.said(phase=phase, degraded=degraded)
        self.exposition.show(self.fleet, said, self.memory, seconds)

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urlopen(f"http://{self.metrics.listen}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as error:
            with error:
                return error.code, error.read().decode()


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    return laid(tmp_path_factory.mktemp("shown") / "fleet", {"gpu01": 2}).fleet()


@pytest.fixture
def stage(fleet: Fleet, tmp_path: Path) -> Iterator[Stage]:
    file = str(tmp_path / "gpuaas.prom")
    made = Stage(fleet, MetricsSettings(textfile=file, listen=f"127.0.0.1:{free_port()}"))
    yield made
    made.exposition.stop()


def test_a_loop_that_sleeps_is_well_and_one_that_hangs_is_not(stage: Stage) -> None:
    """F-REC-07: both say nothing; only one of them is late."""
    stage.show(60.0)
    stage.seconds += 60 + health.LATE_SECONDS - 1
    status, told = stage.get("/healthz")
    assert (status, json.loads(told)["condition"]) == (200, "well")
    stage.seconds += 2
    status, told = stage.get("/healthz")
    assert (status, json.loads(told)["condition"]) == (503, "hung")
    assert "121 s late" in json.loads(told)["why"]
    stage.show(60.0)
    assert stage.get("/healthz")[0] == 200


def test_a_long_round_is_no_hang_while_it_tells_of_itself(stage: Stage) -> None:
    for number in range(10):
        stage.show(None, phase=f"converge gpu{number:02}")
        stage.seconds += health.WORK_SECONDS
        assert stage.get("/healthz")[0] == 200
    stage.seconds += health.LATE_SECONDS + 1
    status, told = stage.get("/healthz")
    assert status == 503
    assert "converge gpu09" in json.loads(told)["why"]


def test_one_that_does_less_is_at_work(stage: Stage) -> None:
    stage.show(60.0, degraded="source_unreachable: git is away")
    status, told = stage.get("/healthz")
    assert status == 200
    assert json.loads(told)["condition"] == "degraded"
    assert json.loads(told)["why"] == "source_unreachable: git is away"


def test_the_file_and_the_port_show_the_same(stage: Stage) -> None:
    stage.show(60.0)
    status, told = stage.get("/metrics")
    file = Path(stage.metrics.textfile)
    assert (status, told) == (200, file.read_text())
    assert "gpuaas_state_readable 1.0" in told
    assert os.listdir(file.parent) == [file.name]
    assert file.stat().st_mode & 0o777 == 0o644
    assert stage.get("/")[0] == stage.get("/loop.json")[0] == 404


def test_within_a_round_the_file_is_written_now_and_then(stage: Stage) -> None:
    """A play tells of each host, and there may be a thousand."""
    stage.show(None, phase="connect gpu01")
    file = Path(stage.metrics.textfile)
    first = file.stat().st_ino
    for _ in range(100):
        stage.show(None, phase="connect gpu02")
    assert file.stat().st_ino == first
    stage.seconds += 6
    stage.show(None, phase="connect gpu03")
    assert file.stat().st_ino != first


def test_a_port_that_is_taken_is_said_and_had_later(stage: Stage) -> None:
    host, _, port = stage.metrics.listen.rpartition(":")
    with socket.socket() as other:
        other.bind((host, int(port)))
        other.listen()
        stage.show(60.0)
        assert f"not listened for at {stage.metrics.listen}" in stage.exposition.degraded
    stage.show(60.0)
    assert stage.exposition.degraded == ""
    assert stage.get("/healthz")[0] == 200


def test_a_folder_that_is_not_there_is_said(stage: Stage) -> None:
    file = Path(stage.metrics.textfile)
    stage.fleet = replace(
        stage.fleet,
        settings=replace(
            stage.fleet.settings,
            loop=LoopSettings(metrics=MetricsSettings(textfile=str(file.parent / "no/x.prom"))),
        ),
    )
    stage.show(60.0)
    assert "No such file" in stage.exposition.degraded
    file.parent.joinpath("no").mkdir()
    stage.show(60.0)
    assert stage.exposition.degraded == ""


def test_a_state_that_cannot_be_read_is_said_and_no_zero(stage: Stage) -> None:
    """Unknown is not absent."""
    stage.fleet = replace(stage.fleet, settings=replace(stage.fleet.settings, state="nowhere"))
    stage.show(60.0)
    _, told = stage.get("/metrics")
    assert "gpuaas_state_readable 0.0" in told
    assert "gpuaas_slots{" not in told and "gpuaas_revocations_pending 0" not in told


def test_nothing_is_shown_where_nobody_wants_it(fleet: Fleet) -> None:
    quiet = Stage(fleet, MetricsSettings())
    quiet.show(60.0)
    assert quiet.exposition.listener is None
    assert quiet.exposition.shown == b""


def test_whoever_says_nothing_keeps_nobody_waiting() -> None:
    """More at once than are answered are sent away; the loop has no part in it."""
    port = free_port()
    listener = HttpListener(f"127.0.0.1:{port}", lambda path: HttpResponse(200, "text/plain", b"x"))  # type: ignore[arg-type]
    crowd = [socket.create_connection(("127.0.0.1", port)) for _ in range(AT_ONCE)]
    try:
        time.sleep(0.3)
        began = time.monotonic()
        with socket.create_connection(("127.0.0.1", port), timeout=5) as more:
            assert more.recv(1) == b""
        assert time.monotonic() - began < 3
        for one in crowd:
            one.close()
        time.sleep(0.3)
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            assert answer.read() == b"x"
    finally:
        for one in crowd:
            one.close()
        listener.stop()
    assert not any(thread.name == "listener" for thread in threading.enumerate())


@pytest.mark.parametrize(
    "listen", ["0.0.0.0:9469", "10.0.0.1:9469", "[::]:9469", "127.0.0.1", "127.0.0.1:0", "::1:80"]
)
def test_only_the_loopback_is_listened_on(fleet: Fleet, listen: str) -> None:
    content = f'operators: [olga]\nloop: {{metrics: {{listen: "{listen}"}}}}\n'.encode()
    with pytest.raises(ProblemError) as refused:
        parse_settings(fleet.folder, content, shipped.schemas()["settings"])
    assert refused.value.problems[0].code == "settings_invalid"


def test_a_loop_is_told_by_its_lock_and_its_last_word(fleet: Fleet) -> None:
    stage = Stage(fleet, MetricsSettings())
    now = fleet.now()
    assert health_of(fleet, None, now).condition is LoopCondition.NEVER
    late = stage.said()
    fresh = replace(late, said_at=f"{now:%Y-%m-%dT%H:%M:%SZ}")
    with alone(fleet):
        assert health_of(fleet, fresh, now).condition is LoopCondition.WELL
        told = replace(fresh, degraded="x")
        assert health_of(fleet, told, now).condition is LoopCondition.DEGRADED
        assert health_of(fleet, late, now).condition is LoopCondition.HUNG
    assert health_of(fleet, fresh, now).condition is LoopCondition.GONE
    ended = replace(fresh, phase=presence.ENDED)
    assert health_of(fleet, ended, now).condition is LoopCondition.ENDED


def test_the_doctor_tells_of_a_loop_that_ran_here(fleet: Fleet) -> None:
    stage = Stage(fleet, MetricsSettings())
    assert list(diagnose_loop(fleet)) == []
    tell(fleet, stage.said())
    (found,) = diagnose_loop(fleet)
    assert (found.code, found.sort.value) == ("loop_gone", "stuck")
    with alone(fleet):
        (found,) = diagnose_loop(fleet)
        assert found.code == "loop_hung"
    tell(fleet, stage.said(phase=presence.ENDED))
    (found,) = diagnose_loop(fleet)
    assert (found.code, found.sort.value) == ("loop_ended", "stale")
    (fleet.state / presence.FILE).unlink()


def test_a_look_at_the_fleet_ends_with_how_the_loop_is(fleet: Fleet) -> None:
    """Never kept with a page: it is another each second."""
    stage = Stage(fleet, MetricsSettings())
    assert loop.words(fleet) == ""
    now = fleet.now()
    fresh = replace(stage.said(), said_at=format_moment(now))
    with alone(fleet):
        tell(fleet, replace(fresh, next_at=format_moment(now + timedelta(seconds=39))))
        assert re.fullmatch("loop running, next round in 3[0-9] s", loop.words(fleet))
        tell(fleet, replace(fresh, phase="converge gpu01"))
        assert loop.words(fleet) == "loop running, at converge gpu01"
        assert RunOptions(run_dir=Path(), playbooks=Path()).timeout_s <= health.WORK_SECONDS
        tell(fleet, stage.said())
        assert loop.words(fleet) == "loop hangs: gpuaas doctor"
    assert loop.words(fleet) == "loop gone: gpuaas doctor"
    out = io.StringIO()
    with redirect_stdout(out):
        assert run(["-C", str(fleet.folder), "status"]) == 0
    assert out.getvalue().splitlines()[-1].endswith("   loop gone: gpuaas doctor")
    with redirect_stdout(out):
        assert run(["-C", str(fleet.folder), "status"]) == 0
    assert out.getvalue().splitlines()[-1].endswith("   loop gone: gpuaas doctor")
    (fleet.state / presence.FILE).unlink()
