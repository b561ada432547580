"""Delivery: one thread for each recipient, so that a dead one delays no other."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from reconciler.model.records import dataclass
from reconciler.model.settings import NotificationSettings
from reconciler.operations.notifications.channel import Channel
from reconciler.operations.notifications.command import run
from reconciler.operations.notifications.message import Letterhead, Message, as_json, as_slack
from reconciler.operations.notifications.webhook import DeliveryRefusal, post

FIRST_SECONDS, MOST_SECONDS, MOST_ASKED = 5.0, 300.0, 600.0
IDLE_SECONDS, GIVEN_UP_SECONDS = 3600.0, 86400.0
"""So long one message is tried; whoever looks after a day looks at what is, not at what was."""


@dataclass(slots=True, kw_only=True)
class Delivery:
    """The thread of one recipient; `why` is why the last attempt failed, empty if it did not."""

    stated: NotificationSettings
    fleet: str
    folder: Path
    channel: Channel
    delivered: int = 0
    failed: int = 0
    why: str = ""
    first_seconds: float = FIRST_SECONDS
    thread: threading.Thread | None = None

    def start(self) -> None:
        name = f"notification {self.stated.name}"
        self.thread = threading.Thread(target=self._work, name=name, daemon=True)
        self.thread.start()

    @property
    def trouble(self) -> str:
        """Why it is not told; a thread that has died of a defect tells nobody, nor of that."""
        died = self.thread is not None and not self.thread.is_alive() and not self.channel.closed
        return "who tells it died of a defect; start the loop anew" if died else self.why

    def stop(self, seconds: float) -> None:
        """Try what waits once more, up to the first failure; then end."""
        self.channel.close()
        if self.thread is not None:
            self.thread.join(seconds)

    def _work(self) -> None:
        failures, since = 0, 0.0
        while True:
            message = self.channel.next(IDLE_SECONDS)
            if message is None:
                if self.channel.closed:
                    return
                continue
            refusal = self._attempt(message)
            if refusal is None:
                self.channel.delivered()
                self.delivered += 1
                self.why, failures = "", 0
                continue
            since = since if failures else time.monotonic()
            failures += 1
            self.failed += 1
            self.why = refusal.why
            if time.monotonic() - since > GIVEN_UP_SECONDS:
                self.channel.give_up()
                failures = 1
            else:
                self.channel.failed()
            doubled = self.first_seconds * 2.0 ** min(failures - 1, 10)
            wait = max(min(MOST_SECONDS, doubled), min(MOST_ASKED, refusal.after))
            if self.channel.wait(wait):
                return

    def _attempt(self, message: Message) -> DeliveryRefusal | None:
        stated = self.stated
        head = Letterhead(fleet=self.fleet, name=stated.name, template=stated.template)
        hook = stated.webhook
        if hook is not None:
            as_ = as_slack if hook.format == "slack" else as_json
            return post(hook, self.folder, as_(message, head))
        why = run(stated.command, as_json(message, head))
        return DeliveryRefusal(why=why) if why else None
