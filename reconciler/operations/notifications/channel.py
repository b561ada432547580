"""A channel: the messages that one recipient still has to get, and what they have been sent.

What is the same is told once, and once more when it is over. What is over before it could be told
is not told at all. Nothing here waits: a thread takes what is next, and says what became of it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator
from enum import Enum, auto
from itertools import groupby

from reconciler.model.settings import NotificationSettings
from reconciler.operations.notifications.message import Item, Key, Message
from reconciler.operations.notifications.news import News

MOST_PENDING = 200
"""Messages that wait; of more the oldest are dropped."""
TOGETHER = 3
"""More of one event in one round are one message."""


class Channel:
    """The messages of one recipient.

    `knows` is what was delivered and is not over, `flying` what is being delivered.
    """

    def __init__(self, knows: Iterable[Key] = ()) -> None:
        self.knows: set[Key] = set(knows)
        self.pending: deque[Message] = deque()
        self.flying: Message | None = None
        self.dropped = 0
        self.closed = False
        self._lock = threading.Condition()

    def take(self, news: Iterable[News], stated: NotificationSettings, at: str) -> None:
        """Take all news of one round."""
        with self._lock:
            new: dict[object, Item] = {}
            over: dict[object, Item] = {}
            for one in news:
                if one.ends:
                    over |= {item.key: item for item in self._ended(one)}
                elif one.event in stated.events and is_of(one.about, stated.projects):
                    new |= {item.key or object(): item for item in self._begun(one)}
            self.pending.extend(_messages(new.values(), at, over=False))
            self.pending.extend(_messages(over.values(), at, over=True))
            while len(self.pending) > MOST_PENDING:
                self.pending.popleft()
                self.dropped += 1
            self._lock.notify_all()

    def next(self, seconds: float) -> Message | None:
        """The next message; waits for it this long at most. Say then what became of it."""
        with self._lock:
            self._lock.wait_for(lambda: self.pending or self.closed, seconds)
            self.flying = self.pending.popleft() if self.pending else None
            return self.flying

    def delivered(self) -> None:
        with self._lock:
            if self.flying is not None:
                keys = self.flying.keys
                self.knows = self.knows - keys if self.flying.over else self.knows | keys
            self.flying = None

    def failed(self) -> None:
        """The message comes first again, without what has changed back meanwhile."""
        with self._lock:
            message, self.flying = self.flying, None
            if message is None:
                return
            turned = {k for one in self.pending if one.over != message.over for k in one.keys}
            turned &= message.keys
            self._take_back(turned, over=not message.over)
            left = message.without(turned)
            if left.items:
                self.pending.appendleft(left)

    def give_up(self) -> None:
        with self._lock:
            self.flying = None
            self.dropped += 1

    def close(self) -> None:
        with self._lock:
            self.closed = True
            self._lock.notify_all()

    def wait(self, seconds: float) -> bool:
        """Sleep unless the channel is closed; returns whether it is."""
        with self._lock:
            return self._lock.wait_for(lambda: self.closed, seconds)

    def known(self) -> list[Key]:
        with self._lock:
            return sorted(self.knows)

    def _begun(self, news: News) -> Iterator[Item]:
        if news.event in ONCE:
            yield _item(news, None)
            return
        key = (news.event, news.about, news.code)
        if news.about or news.event in SINGLE:
            self._supersede(key)
        fate = self._fate(key)
        if fate is Fate.ENDS:
            self._take_back({key}, over=True)
        elif fate in (Fate.UNKNOWN, Fate.ENDING):
            yield _item(news, key)

    def _ended(self, news: News) -> Iterator[Item]:
        for key in sorted(key for key in self._all() if _ends(news, key)):
            fate = self._fate(key)
            if fate is Fate.BEGINS:
                self._take_back({key}, over=False)
            elif fate in (Fate.KNOWN, Fate.BEGINNING):
                event, about, code = key
                yield Item(
                    text=news.text,
                    level=news.level.value,
                    event=event,
                    about=about,
                    code=code,
                    key=key,
                )

    def _fate(self, key: Key) -> Fate:
        """By what was said of it last: what waits counts most, then what is on its way."""
        for one in reversed(self.pending):
            if key in one.keys:
                return Fate.ENDS if one.over else Fate.BEGINS
        if self.flying is not None and key in self.flying.keys:
            return Fate.ENDING if self.flying.over else Fate.BEGINNING
        return Fate.KNOWN if key in self.knows else Fate.UNKNOWN

    def _supersede(self, key: Key) -> None:
        """The same for another reason: who was told of the former needs no end of it."""
        event, about, code = key
        former = {one for one in self._all() if one[:2] == (event, about) and one[2] != code}
        self.knows -= former
        self._take_back(former, over=False)
        self._take_back(former, over=True)

    def _all(self) -> set[Key]:
        flying = self.flying.keys if self.flying else frozenset()
        return self.knows.union(flying, *(one.keys for one in self.pending))

    def _take_back(self, keys: set[Key], *, over: bool) -> None:
        if keys:
            left = [one.without(keys) if one.over == over else one for one in self.pending]
            self.pending = deque(one for one in left if one.items)


class Fate(Enum):
    """How far one message is: to be sent, being sent, or sent; and so its end."""

    UNKNOWN = auto()
    BEGINS = auto()
    BEGINNING = auto()
    KNOWN = auto()
    ENDS = auto()
    ENDING = auto()


SINGLE = frozenset({"refused"})
"""Of these there is one at a time, whatever its code."""
ONCE = frozenset({"commit", "done", "started", "ended"})
"""Events that happen and are over."""


def is_of(about: str, projects: tuple[str, ...]) -> bool:
    """Whether it belongs to one of the projects; everything does where none is named."""
    kind, *words = about.split("/")
    return not projects or (
        bool(words) and (len(words) == 2 or kind == "project") and words[0] in projects
    )


def _ends(news: News, key: Key) -> bool:
    event, about, code = key
    return event == news.ends and about == news.about and news.code in ("", code)


def _item(news: News, key: Key | None) -> Item:
    return Item(
        text=news.text,
        level=news.level.value,
        event=news.event,
        about=news.about,
        code=news.code,
        key=key,
    )


def _messages(items: Iterable[Item], at: str, *, over: bool) -> Iterator[Message]:
    """A few of one event have a message each, more of them one together."""
    ordered = sorted(items, key=lambda one: one.event)
    for _, alike in groupby(ordered, key=lambda one: one.event):
        group = tuple(alike)
        each = (group,) if len(group) > TOGETHER else tuple((one,) for one in group)
        yield from (Message(items=some, at=at, over=over) for some in each)
