"""What is told once, what is told to be over, and what is told not at all."""

from __future__ import annotations

import pytest

from reconciler.model.settings import NotificationSettings
from reconciler.operations.notifications.channel import (
    MOST_PENDING,
    TOGETHER,
    Channel,
    is_of,
)
from reconciler.operations.notifications.news import Level, News

STATED = NotificationSettings(name="chat")
AT = "2026-11-01T00:00:00Z"
TRAIN = "allocation/vision/train"


def failed(about: str = TRAIN, code: str = "verb_failed") -> News:
    return News(
        level=Level.ERROR, event="failed", about=about, code=code, text=f"{about} failed: {code}"
    )


def well(about: str = TRAIN) -> News:
    return News(
        level=Level.NOTICE, event="recovered", about=about, text=f"{about} is well", ends="failed"
    )


class Place:
    """Somebody who is told, and what they have read."""

    def __init__(self, stated: NotificationSettings = STATED) -> None:
        self.channel, self.stated = Channel(), stated

    def take(self, *news: News) -> None:
        self.channel.take(news, self.stated, AT)

    def read(self) -> list[str]:
        """All that waits, delivered."""
        found = []
        while self.channel.pending:
            message = self.channel.next(0)
            assert message is not None
            found.append("; ".join(one.text for one in message.items))
            self.channel.delivered()
        return found


@pytest.fixture
def place() -> Place:
    return Place()


def test_the_same_is_told_once_and_once_more_when_it_is_over(place: Place) -> None:
    place.take(failed())
    place.take(failed())
    assert place.read() == [f"{TRAIN} failed: verb_failed"]
    place.take(failed())
    assert place.read() == []
    place.take(well())
    place.take(well())
    assert place.read() == [f"{TRAIN} is well"]
    place.take(failed())
    assert len(place.read()) == 1


def test_an_end_of_what_nobody_was_told_of_is_not_told(place: Place) -> None:
    place.take(well())
    assert place.read() == []
    quiet = Place(NotificationSettings(name="chat", events=("held",)))
    quiet.take(failed(), well())
    assert quiet.read() == []


def test_what_is_over_before_it_was_told_is_not_told(place: Place) -> None:
    place.take(failed())
    place.take(well())
    assert place.read() == []


def test_what_is_so_again_before_its_end_was_told_is_not_told(place: Place) -> None:
    place.take(failed())
    place.read()
    place.take(well())
    place.take(failed())
    assert place.read() == []
    place.take(well())
    assert place.read() == [f"{TRAIN} is well"]


def test_another_reason_is_news_and_has_one_end(place: Place) -> None:
    place.take(failed())
    place.read()
    place.take(failed(code="host_timeout"))
    assert place.read() == [f"{TRAIN} failed: host_timeout"]
    place.take(well())
    assert place.read() == [f"{TRAIN} is well"]


def test_what_turned_round_while_it_was_on_its_way(place: Place) -> None:
    """Delivered all the same: its end is told. Not delivered: neither."""
    place.take(failed())
    assert place.channel.next(0)
    place.take(well())
    place.channel.delivered()
    assert place.read() == [f"{TRAIN} is well"]
    place.take(failed())
    assert place.channel.next(0)
    place.take(well())
    place.channel.failed()
    assert place.read() == []
    place.take(failed())
    place.read()
    place.take(well())
    assert place.channel.next(0)
    place.take(failed())
    place.channel.failed()
    assert place.read() == []
    assert place.channel.known() == [("failed", TRAIN, "verb_failed")]


def test_what_failed_comes_first_again(place: Place) -> None:
    place.take(failed())
    place.channel.next(0)
    place.take(failed("allocation/vision/other"))
    place.channel.failed()
    assert place.read()[0] == f"{TRAIN} failed: verb_failed"


def test_many_of_one_round_are_one_message(place: Place) -> None:
    names = [f"allocation/vision/a{number}" for number in range(500)]
    place.take(*map(failed, names))
    assert len(place.channel.pending) == 1
    assert len(place.channel.pending[0].items) == 500
    place.read()
    place.take(*map(well, names[:400]))
    assert len(place.channel.pending) == 1
    place.read()
    assert len(place.channel.known()) == 100
    place.take(*(failed(f"node/gpu{number}") for number in range(TOGETHER)))
    assert len(place.read()) == TOGETHER


def test_what_nobody_takes_does_not_grow(place: Place) -> None:
    for number in range(10 * MOST_PENDING):
        place.take(failed(f"allocation/vision/a{number}"))
    assert len(place.channel.pending) == MOST_PENDING
    assert place.channel.dropped == 9 * MOST_PENDING


def test_only_what_belongs_to_a_project() -> None:
    assert is_of(TRAIN, ()) and is_of("", ())
    assert is_of(TRAIN, ("vision",)) and is_of("project/vision", ("vision",))
    for about in ("", "node/vision", "allocation/nlp/train", "user/vision"):
        assert not is_of(about, ("vision",))


def test_what_happens_once_is_told_each_time() -> None:
    place = Place(NotificationSettings(name="chat", events=("done", "ended")))
    done = News(level=Level.INFO, event="done", about=TRAIN, text="repair")
    place.take(done, done)
    place.take(done)
    assert place.read() == ["repair"] * 3
    assert place.channel.known() == []
