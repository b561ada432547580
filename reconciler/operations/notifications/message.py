"""Messages: their content, and their text for the reader.

Whatever hosts, specs and authors wrote in it is data: one line, of bounded length, without control
characters, and without anything that a chat would act on. What looks like a secret is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from string import Template

from reconciler.kinds.checks.secrecy import concealed
from reconciler.model.records import dataclass

Key = tuple[str, str, str]
"""Event, what it is about, and its code: what has the same is the same."""

MOST_TEXT, MOST_WORD, MOST_ITEMS = 1000, 256, 10
FORMAT = 1
BREAK = "\u200b"
"""Of no width: a reader sees no difference, and what it parts is no mention and no link."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One thing that is reported; `key` is None for what happens once and has no end."""

    text: str
    level: str
    event: str
    about: str = ""
    code: str = ""
    key: Key | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """Items of one sort, sent together; `over` if they have ended."""

    items: tuple[Item, ...]
    at: str
    over: bool = False

    @property
    def keys(self) -> frozenset[Key]:
        return frozenset(one.key for one in self.items if one.key is not None)

    def without(self, keys: Iterable[Key]) -> Message:
        gone = set(keys)
        return replace(self, items=tuple(one for one in self.items if one.key not in gone))


@dataclass(frozen=True, slots=True, kw_only=True)
class Letterhead:
    """What all messages to one recipient have in common."""

    fleet: str
    name: str
    template: str


def as_json(message: Message, head: Letterhead) -> bytes:
    first = message.items[0]
    return _body(
        {
            "gpuaasNotification": FORMAT,
            "notification": head.name,
            "fleet": head.fleet,
            "at": message.at,
            "state": _state(message),
            "event": first.event,
            "level": first.level,
            "text": text_of(message, head),
            "count": len(message.items),
            "items": [
                {
                    "about": _plain(one.about, MOST_WORD),
                    "code": _plain(one.code, MOST_WORD),
                    "text": _plain(one.text, MOST_TEXT),
                }
                for one in message.items[:MOST_ITEMS]
            ],
        }
    )


def as_slack(message: Message, head: Letterhead) -> bytes:
    """The JSON that incoming webhooks of Slack take, and of Mattermost and Rocket.Chat."""
    return _body(
        {
            "text": text_of(message, head, for_chat=True),
            "mrkdwn": False,
            "link_names": False,
            "parse": "none",
            "unfurl_links": False,
            "unfurl_media": False,
        }
    )


def text_of(message: Message, head: Letterhead, *, for_chat: bool = False) -> str:
    """The text by the operator's template, which stays as it is; what is put in is made
    harmless.
    """
    first = message.items[0]
    several = len(message.items) > 1
    words: Mapping[str, str] = {
        "text": _told(message),
        "fleet": head.fleet,
        "event": first.event,
        "level": first.level,
        "about": "" if several else first.about,
        "code": first.code,
        "state": _state(message),
        "at": message.at,
    }
    safe = {name: _plain(word, MOST_TEXT * MOST_ITEMS) for name, word in words.items()}
    if for_chat:
        safe = {name: quiet(word) for name, word in safe.items()}
    return Template(head.template).safe_substitute(safe)


def quiet(text: str) -> str:
    """The text without mentions and links of a chat: `<!channel>`, `@here`, `https://`."""
    for mark, word in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(mark, word)
    for mark in ("@", "://", "www."):
        text = text.replace(mark, f"{mark[0]}{BREAK}{mark[1:]}")
    return text


def _told(message: Message) -> str:
    first, *more = message.items
    if not more:
        return _plain(first.text, MOST_TEXT)
    shown = "; ".join(_plain(one.text, MOST_WORD) for one in message.items[:MOST_ITEMS])
    left = len(message.items) - MOST_ITEMS
    over = "no longer " if message.over else ""
    return f"{len(message.items)} {over}{first.event}: {shown}" + (
        f"; and {left} more" if left > 0 else ""
    )


def _state(message: Message) -> str:
    return "over" if message.over else "new"


def _plain(text: str, most: int) -> str:
    """One line that can be shown; nothing of it, if any of it looks like a secret."""
    line = " ".join("".join(c if c.isprintable() else " " for c in concealed(text)).split())
    return line if len(line) <= most else f"{line[:most]}…"


def _body(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=True).encode()
