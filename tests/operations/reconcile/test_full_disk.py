"""The disk of the state fills under a loop: nothing is half recorded, and it goes on by itself.

No host is asked for anything that is not written down first (rule 1 of the state).
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import privileges
from tests.harness.followed_command import Followed, adopting
from tests.harness.yard import Yard, copy_of
from tests.journeys.state.test_full_disks import fill, free, is_whole, small, use_inodes
from tests.operations.reconcile.test_ends import LOOP, asleep, assert_ended, assert_goes_on, until
from tests.planner import fleet as paper

pytestmark = [pytest.mark.walk, privileges.needs(privileges.mounts)]

DESK = paper.allocation("desk", node="gpu02", expiresAt=paper.LASTING)
AWAY = "source_unreachable"
REFUSED = ("os_refused", "state_disk_full", "snapshot_failed", "source_unreadable")


@pytest.fixture
def yard(committed: Yard, tmp_path: Path) -> Iterator[Yard]:
    """Its state on a small file system of its own."""
    found = copy_of(committed, tmp_path / "fleet")
    with small(found.folder / "state", "size=12m,nr_inodes=900,mode=700"):
        yield found


def refused(command: Followed) -> bool:
    """Whether the round that is over now was, with a known code: what the log of the database has
    grown to before may be room enough for it. The loop lives either way.
    """

    def known() -> bool:
        return any(f"{code}: " in command.told for code in REFUSED)

    until(command, lambda: known() or "create allocation/vision/train" in command.told)
    assert "Traceback" not in command.told
    return known()


def is_intended(yard: Yard) -> None:
    """Whatever hosts have of somebody, a place is held for."""
    for place in yard.folder.glob("nodes/*/home/*"):
        node = place.relative_to(yard.folder / "nodes").parts[0]
        assert any(f"@{node}/" in claim for claim in yard.claims), place


def woken(command: Followed) -> None:
    """As by the next round, without the wait for it."""
    command.signal(signal.SIGUSR1)
    asleep(command)


@pytest.mark.parametrize("spoil", [fill, use_inodes])
def test_full_before_anything_is_intended(
    yard: Yard, kept: Yard, spoil: Callable[[Path], None]
) -> None:
    """F-STA-05: no host has anything of it, and no claim stands."""
    state, before = yard.folder / "state", yard.hosts()
    with adopting():
        command = Followed(yard, *LOOP)
        command.until("lock.taken")
        spoil(state)
        command.go_on()
        assert refused(command)
        assert yard.hosts() == before
        assert yard.claims == {}
        is_whole(yard)
        free(state)
        woken(command)
        command.signal(signal.SIGTERM)
        assert command.end() == 0
    assert_ended(command, refused=True)
    assert_goes_on(yard, kept)


@pytest.mark.parametrize("spoil", [fill, use_inodes])
@pytest.mark.parametrize(
    "stop",
    [
        "observe.before",
        "begin_wave.before",
        pytest.param("play.during", marks=pytest.mark.ansible),
        pytest.param("play.after", marks=pytest.mark.ansible),
        "end_run.before",
    ],
)
def test_full_in_the_midst_of_a_round(
    yard: Yard, kept: Yard, stop: str, spoil: Callable[[Path], None]
) -> None:
    """F-STA-05, F-STA-01: what a host has was intended on the books, whatever came of it there."""
    state = yard.folder / "state"
    with adopting():
        command = Followed(yard, *LOOP)
        command.until(stop)
        spoil(state)
        command.go_on()
        was_refused = refused(command)
        is_intended(yard)
        is_whole(yard)
        free(state)
        woken(command)
        is_intended(yard)
        command.signal(signal.SIGTERM)
        assert command.end() == 0
    assert_ended(command, refused=was_refused)
    assert_goes_on(yard, kept)


@pytest.mark.parametrize("spoil", [fill, use_inodes])
def test_a_commit_that_comes_while_it_is_full(yard: Yard, spoil: Callable[[Path], None]) -> None:
    """It is not there in full, so it is not followed; nothing of the copy has to be mended."""
    state = yard.folder / "state"
    with adopting():
        command = Followed(yard, *LOOP)
        command.go_on()
        asleep(command)
        before = yard.hosts()
        spoil(state)
        yard.write(DESK)
        yard.commit()
        command.signal(signal.SIGUSR1)
        until(command, lambda: any(f"{code}: " in command.told for code in (*REFUSED, AWAY)))
        assert yard.hosts() == before
        is_whole(yard)
        free(state)
        command.signal(signal.SIGUSR1)
        until(command, lambda: "create allocation/vision/desk" in command.told)
        command.signal(signal.SIGTERM)
        assert command.end() == 0
    assert "Traceback" not in command.told
    is_whole(yard)


def test_with_room_again_it_goes_on_by_itself(yard: Yard, kept: Yard) -> None:
    """After a while, and without anybody's word."""
    state = yard.folder / "state"
    with adopting():
        command = Followed(yard, "reconcile", "--interval", "5s")
        command.until("lock.taken")
        fill(state)
        command.go_on()
        assert refused(command)
        free(state)
        began = time.monotonic()
        asleep(command)
        assert time.monotonic() - began < 30
        command.signal(signal.SIGTERM)
        assert command.end() == 0
    assert_ended(command, refused=True)
    assert_goes_on(yard, kept)
