"""Many at one fleet, or at one machine: one writes, all read, and nobody gets what is another's."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.harness.followed_command import Followed, adopting, assert_free
from tests.harness.own_process import program
from tests.harness.yard import ROOT, Said, Yard, copy_of, laid
from tests.planner import fleet as paper

pytestmark = pytest.mark.walk

APPLY = ("apply", "--auto-approve=destroys")
CROWD_SECONDS = float(os.environ.get("GPUAAS_CROWD_SECONDS", "15"))
"""How long the crowd is let loose by `make slow`; a minute, now and then, finds more."""

FEWEST = 3
"""So many turns each of them has, however slow the machine."""

READS: Mapping[tuple[str, ...], frozenset[int]] = {
    ("status",): frozenset({0}),
    ("plan",): frozenset({0, 3}),
    ("show", "vision/train"): frozenset({0}),
    ("events",): frozenset({0}),
    ("validate",): frozenset({0}),
    ("slot", "list"): frozenset({0}),
    ("state", "check"): frozenset({0}),
    ("grant", "list"): frozenset({0}),
    ("capacity",): frozenset({0}),
    ("explain", "vision/train"): frozenset({0}),
    ("why", "vision/train"): frozenset({0}),
    ("doctor",): frozenset({0, 3}),
}
"""What each may end with while somebody applies."""


def wanted(access: Sequence[str] = ("ana", "bo")) -> dict[str, Any]:
    return paper.allocation("train", "slice-2", node="gpu01", access=list(access))


@pytest.fixture(scope="module")
def new(tmp_path_factory: pytest.TempPathFactory) -> Yard:
    return laid(tmp_path_factory.mktemp("new"), {"gpu01": 2, "gpu02": 2}, wanted())


@pytest.fixture
def yard(new: Yard, tmp_path: Path) -> Yard:
    return copy_of(new, tmp_path)


def gpuaas(yard: Yard, *words: str) -> subprocess.CompletedProcess[str]:
    """As a user runs it."""
    return subprocess.run(
        [*program(), "-C", str(yard.folder), *words],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def said(answer: str) -> Said:
    document = json.loads(answer)
    return Said(code=document["exitCode"], document=document, told="")


def put(yard: Yard, document: Mapping[str, Any]) -> None:
    """Like an editor: whoever reads sees the file as it was or as it is."""
    fresh = yard.folder / "fresh"
    fresh.write_text(yaml.safe_dump(dict(document)))
    fresh.replace(yard.file(document))


def let_in(yard: Yard) -> set[str]:
    return {key.split("/")[0] for key in yard.keys("allocation/vision/train")}


class TestTheCrowd:
    @pytest.mark.parametrize("seconds", [0, pytest.param(CROWD_SECONDS, marks=pytest.mark.slow)])
    def test_ten_readers_beside_a_writer(self, yard: Yard, seconds: float) -> None:
        """F-STA-08: no reader fails or waits for a write, and no lock of SQLite's is ever told.

        The cache goes away now and then, which nobody may notice.
        """
        assert gpuaas(yard, *APPLY).returncode == 0
        until = time.monotonic() + seconds
        with ThreadPoolExecutor(len(READS) + 2) as pool:
            readers = [pool.submit(self.read, yard, words, until) for words in READS]
            writers = [
                pool.submit(self.refresh, yard, until),
                pool.submit(self.apply, yard, until),
            ]
            wrong = [line for one in (*readers, *writers) for line in one.result()]
        assert not wrong, "\n".join(wrong)
        assert yard.gpuaas("state", "check").code == 0
        assert len(yard.rows("SELECT id FROM run")) > 1
        assert set(yard.rows("SELECT DISTINCT state FROM run")) == {("done",)}
        assert yard.apply().code == 0
        assert_free(yard)

    def read(self, yard: Yard, words: tuple[str, ...], until: float) -> list[str]:
        wrong, number = [], 0
        while number < FEWEST or time.monotonic() < until:
            ended = gpuaas(yard, *words)
            number += 1
            text = ended.stdout + ended.stderr
            if (
                ended.returncode not in READS[words]
                or re.search(r"\blocked\b", text)
                or "Traceback" in text
            ):
                wrong.append(f"{words} {ended.returncode}: {text[-1000:]}")
        return wrong

    def apply(self, yard: Yard, until: float) -> list[str]:
        wrong, number = [], 0
        while number < FEWEST or time.monotonic() < until:
            number += 1
            put(yard, wanted(("ana", "bo")[: 2 - number % 2]))
            ended = gpuaas(yard, *APPLY, "--lock-timeout=1m")
            if ended.returncode != 0 and "[plan_stale]" not in ended.stderr:
                wrong.append(f"apply {ended.returncode}: {(ended.stdout + ended.stderr)[-1500:]}")
            if number % FEWEST == 1:
                for suffix in ("", "-wal", "-shm"):
                    (yard.folder / f"state/cache.db{suffix}").unlink(missing_ok=True)
        return wrong

    def refresh(self, yard: Yard, until: float) -> list[str]:
        """A second writer without patience: it does its work, or is told who does theirs."""
        wrong, number = [], 0
        while number < FEWEST or time.monotonic() < until:
            number += 1
            ended = gpuaas(yard, "plan", "--refresh", "-o", "json")
            codes = said(ended.stdout).problems
            if ended.returncode not in (0, 3) and codes != ["state_locked"]:
                wrong.append(f"refresh {ended.returncode}: {ended.stdout[-1000:]}")
            time.sleep(0.5)
        return wrong


class TestTwoApplies:
    def test_one_does_it_and_the_other_is_told(self, yard: Yard, tmp_path: Path) -> None:
        """F-STA-08: whoever comes second is told by whom it is held; who has patience waits, and
        finds nothing left to do. Nothing is done twice.
        """
        with adopting():
            first = Followed(yard, *APPLY)
            first.until("begin_wave.after")
            refused = said(gpuaas(yard, *APPLY, "-o", "json").stdout)
            assert (refused.code, refused.problems) == (1, ["state_locked"])
            assert refused.document["problems"][0]["holder"]["pid"] == first.process.pid
            with subprocess.Popen(
                [*program(), "-C", str(yard.folder), *APPLY, "--lock-timeout=2m"],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            ) as second:
                assert second.stderr is not None
                assert f"pid {first.process.pid} on" in second.stderr.readline()
                assert first.end() == 0
                out, err = second.communicate(timeout=60)
        assert second.returncode == 0, out + err
        assert "nothing was applied" in out
        self.assert_done_once(yard)

    def test_that_start_at_the_same_moment(self, yard: Yard) -> None:
        """F-STA-08: one of them does it, whoever that is; the other one says why it did not."""
        with ThreadPoolExecutor(3) as pool:
            ends = list(pool.map(lambda _: gpuaas(yard, *APPLY, "-o", "json"), range(3)))
        runs = Counter(bool(one.document.get("result", {}).get("run")) for one in self.all(ends))
        assert runs[True] == 1
        for one in self.all(ends):
            assert one.code == 0 or one.problems[0] in ("state_locked", "plan_stale"), one.document
        self.assert_done_once(yard)

    def all(self, ends: Sequence[subprocess.CompletedProcess[str]]) -> Iterator[Said]:
        for one in ends:
            assert "Traceback" not in one.stderr
            yield said(one.stdout)

    def assert_done_once(self, yard: Yard) -> None:
        assert yard.rows("SELECT state FROM run") == [("done",)]
        assert yard.rows("SELECT DISTINCT state, changed FROM step") == [("done", 1)]
        assert len(yard.rows("SELECT id FROM claim")) == len(yard.claims) == 2
        assert len(list(yard.root("gpu01").glob("home/*"))) == 1
        assert yard.gpuaas("state", "check").code == 0
        assert yard.plan("--detailed-exitcode").actions == {}
        assert_free(yard)


@pytest.mark.ansible
class TestTwoFleets:
    def test_at_once_on_one_machine(self, tmp_path: Path) -> None:
        """F-ANS-04: each host gets its own values, and what a run has said is gone for the next."""
        yards = [
            laid(tmp_path / name, {"gpu01": 2, "gpu02": 2}, wanted((name, "cem")))
            for name in ("ana", "bo")
        ]
        applies = [
            subprocess.Popen(
                [*program(), "-C", str(yard.folder), *APPLY],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for yard in yards
        ]
        told = [apply.communicate(timeout=120)[0] for apply in applies]
        assert [apply.returncode for apply in applies] == [0, 0], told
        ids = [yard.world.state_id for yard in yards]
        for yard, name, mine, other in zip(yards, ("ana", "bo"), ids, ids[::-1], strict=True):
            assert let_in(yard) == {name, "cem"}
            texts = [
                path.read_text()
                for path in yard.root("gpu01").rglob("*")
                if path.is_file() and not path.is_symlink()
            ]
            assert any(mine in text for text in texts)
            assert not any(other in text for text in texts)
        yards[1].write(wanted(("bo",)))
        assert yards[1].apply().code == 0
        assert [let_in(yard) for yard in yards] == [{"ana", "cem"}, {"bo"}]


class TestADeadHolder:
    @pytest.mark.parametrize(
        "by", [pytest.param(signal.SIGKILL, marks=pytest.mark.ansible), "closed"], ids=str
    )
    def test_is_replaced_and_named(self, yard: Yard, by: signal.Signals | str) -> None:
        """F-STA-06: killed in the middle, or its terminal closed: an apply then works again.

        Of one that was killed an event says whose lock was taken over; no command is needed for it.
        """
        with adopting():
            first = Followed(yard, *APPLY, terminal=by == "closed")
            first.until("play.during")
            if isinstance(by, str):
                os.close(first.terminal)
            else:
                first.signal(by)
            first.end()
        again = gpuaas(yard, *APPLY)
        assert again.returncode == 0, again.stderr
        assert yard.plan("--detailed-exitcode").actions == {}
        assert len(yard.rows("SELECT id FROM claim")) == 2
        taken = yard.rows("SELECT reason FROM event WHERE type = 'lock_taken_over'")
        if isinstance(by, str):
            assert taken == [], "it went in order"
        else:
            assert len(taken) == 1 and f"apply, pid {first.process.pid} on" in taken[0][0]
        assert_free(yard)

    def test_is_forgotten_by_its_id(self, yard: Yard) -> None:
        """F-STA-06: the unlock command tells the truth, with a right and with a wrong id."""
        with adopting():
            first = Followed(yard, *APPLY)
            first.until("begin_wave.after")
            (problem,) = said(gpuaas(yard, *APPLY, "-o", "json").stdout).document["problems"]
            right = problem["holder"]["id"]
            for words, code in (((), "state_locked"), ((right,), "state_locked")):
                refused = yard.gpuaas("state", "unlock", *words)
                assert (refused.code, refused.problems) == (1, [code])
            assert yard.gpuaas("state", "unlock", "ffffffff").problems == ["lock_other"]
            first.signal(signal.SIGKILL)
            first.end()
        assert yard.gpuaas("state", "unlock", "ffffffff").problems == ["lock_other"]
        unlocked = yard.gpuaas("state", "unlock", right)
        assert unlocked.code == 0
        assert unlocked.document["result"]["holder"]["pid"] == first.process.pid
        assert yard.gpuaas("state", "unlock", right).problems == ["state_not_locked"]
        (reason,) = yard.rows("SELECT reason FROM event WHERE type = 'lock_taken_over'")
        assert right in reason[0]
        assert_free(yard)
        assert yard.apply().code == 0

    @pytest.mark.parametrize(
        "lie", [{"pid": 1}, {"boot_id": "11111111-2222-3333-4444-555555555555"}], ids=str
    )
    def test_is_not_judged_by_a_number(self, yard: Yard, lie: dict[str, object]) -> None:
        """F-STA-12: the pid of an unrelated process that lives, or of another boot, is nothing."""
        me = {
            "id": "0a0b0c0d",
            "pid": os.getpid(),
            "start": 1,
            "host": os.uname().nodename,
            "boot_id": Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
            "since": "2026-11-01T12:00:00Z",
            "actor": "olga",
            "command": "apply",
        }
        (yard.folder / "state/lock").write_text(json.dumps(me | lie))
        assert gpuaas(yard, "status").returncode == 0
        assert gpuaas(yard, *APPLY).returncode == 0
        (reason,) = yard.rows("SELECT reason FROM event WHERE type = 'lock_taken_over'")
        assert reason[0].startswith("olga (apply, pid ")
        assert_free(yard)
