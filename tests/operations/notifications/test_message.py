"""What stands in a message: data of others stays data, and a secret is never among it."""

from __future__ import annotations

import json

import pytest

from reconciler.model.formats import why_no_message
from reconciler.operations.notifications.message import (
    BREAK,
    MOST_ITEMS,
    MOST_TEXT,
    Item,
    Letterhead,
    Message,
    as_json,
    as_slack,
)

HEAD = Letterhead(fleet="lab", name="chat", template="[$fleet] $text")
AT = "2026-11-01T00:00:00Z"
TOKEN = "ghp_" + "a" * 36


def item(text: str, about: str = "allocation/vision/train", code: str = "verb_failed") -> Item:
    return Item(
        text=text,
        level="error",
        event="failed",
        about=about,
        code=code,
        key=("failed", about, code),
    )


def message(*texts: str, over: bool = False) -> Message:
    return Message(items=tuple(map(item, texts)), at=AT, over=over)


def test_both_forms() -> None:
    told = json.loads(as_json(message("x failed"), HEAD))
    assert told == {
        "gpuaasNotification": 1,
        "notification": "chat",
        "fleet": "lab",
        "at": AT,
        "state": "new",
        "event": "failed",
        "level": "error",
        "text": "[lab] x failed",
        "count": 1,
        "items": [{"about": "allocation/vision/train", "code": "verb_failed", "text": "x failed"}],
    }
    slack = json.loads(as_slack(message("x failed"), HEAD))
    assert slack["text"] == "[lab] x failed"
    assert (slack["parse"], slack["link_names"], slack["mrkdwn"]) == ("none", False, False)


HOSTILE = (
    "<!channel> pay me",
    "<https://evil.example|click here>",
    "see https://evil.example/x and http://10.0.0.1",
    "@here @channel @olga",
    "www.evil.example",
    '"}, "text": "forged',
    "a\nb\r\x1b[2Jc\u202ed\0",
)


@pytest.mark.parametrize("text", HOSTILE)
def test_what_others_wrote_stays_data(text: str) -> None:
    """Names, words of hosts, authors of commits."""
    for body in (as_json(message(text), HEAD), as_slack(message(text), HEAD)):
        assert body.isascii() and b"\n" not in body
        told = json.loads(body)
        assert told["text"].startswith("[lab] ")
        assert all(c.isprintable() or c == BREAK for c in told["text"])
    slack = json.loads(as_slack(message(text), HEAD))["text"]
    assert not any(sign in slack for sign in ("<", ">", "://", "www.", "@here", "@channel"))


def test_a_template_is_the_operators_and_values_are_not() -> None:
    head = Letterhead(fleet="lab", name="chat", template="<!here> $state $code $about: $text")
    told = json.loads(as_slack(message("<!channel> $code ${fleet}"), head))["text"]
    assert told.startswith("<!here> new verb_failed allocation/vision/train: &lt;!channel&gt;")
    assert told.endswith("$code ${fleet}")


@pytest.mark.parametrize("text", ["costs $5", "$unknown", "${text", "$1"])
def test_a_template_that_says_what_there_is_not_is_refused(text: str) -> None:
    assert why_no_message(text)
    assert not why_no_message("$$5 ${text} $at")


def test_a_secret_is_never_told() -> None:
    """Not even if it got into a problem's words."""
    for body in (as_json(message(f"git said {TOKEN}"), HEAD), as_slack(message(TOKEN), HEAD)):
        assert TOKEN.encode() not in body
    hook = "https://hooks.slack.com/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX"
    assert b"XXXXXXXX" not in as_json(message(f"to {hook}"), HEAD)


def test_nothing_is_too_long() -> None:
    body = as_json(message("x" * 100_000), HEAD)
    assert len(body) < 3 * MOST_TEXT
    many = as_json(message(*("y" * 100_000,) * 500), HEAD)
    assert len(many) < 2 * MOST_TEXT * MOST_ITEMS
    told = json.loads(many)
    assert told["count"] == 500 and len(told["items"]) == MOST_ITEMS
    assert "500 failed: " in told["text"] and "and 490 more" in told["text"]
