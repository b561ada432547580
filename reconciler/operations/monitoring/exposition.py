"""Exposition: the metrics of the loop, in a file and on a port, as the settings say.

Nothing of it stops a round: what cannot be written or listened on is said, and tried again.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import field
from http import HTTPStatus
from pathlib import Path

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from reconciler.atomic_file import write_file
from reconciler.model.problem import ProblemError
from reconciler.model.records import dataclass
from reconciler.operations.fleet import Fleet
from reconciler.operations.liveness.health import (
    LATE_SECONDS,
    WORK_SECONDS,
    LoopCondition,
)
from reconciler.operations.liveness.presence import Presence
from reconciler.operations.monitoring.figures import Figures, LastFigures
from reconciler.operations.monitoring.listener import HttpListener, HttpResponse
from reconciler.operations.monitoring.metrics import LoopCounters, View, text
from reconciler.operations.notifications.dispatch import DeliveryProgress
from reconciler.operations.rounds.rounds import Memory
from reconciler.store.backup.replica_sync import last_sync

FILE_MODE = 0o644
SPARING_SECONDS = 5.0
"""Within a round all is shown anew no more often: a play tells of each host."""


@dataclass(slots=True, kw_only=True)
class Exposition:
    """`clock` is the machine's since its boot: nobody sets it back, so no clock makes a hang."""

    clock: Callable[[], float]
    tally: LoopCounters = field(default_factory=LoopCounters)
    ledger: LastFigures = field(default_factory=LastFigures)
    told: Callable[[], tuple[DeliveryProgress, ...]] = tuple
    said: Presence | None = None
    due: float = 0.0
    shown: bytes = b""
    shown_at: float = -SPARING_SECONDS
    address: str = ""
    listener: HttpListener | None = None
    deaf: str = ""
    unwritten: str = ""

    @property
    def degraded(self) -> str:
        return "; ".join(filter(None, (self.deaf, self.unwritten)))

    def listen(self, fleet: Fleet) -> None:
        """Listen as the settings say now; a port that was taken is tried again each time."""
        address = fleet.settings.loop.metrics.listen
        listening = self.listener is not None and self.listener.lives
        if address == self.address and (listening or not address):
            return
        self.stop()
        self.address, self.deaf = address, ""
        if address:
            try:
                self.listener = HttpListener(address, self.answer)
            except OSError as error:
                why = error.strerror or "refused"
                self.deaf = f"metrics are not listened for at {address}: {why}"

    def stop(self) -> None:
        if self.listener is not None:
            self.listener.stop()
        self.listener = None

    def show(self, fleet: Fleet, said: Presence, memory: Memory, seconds: float | None) -> None:
        """`seconds` is how long the loop sleeps; None within a round, which says more soon."""
        now = self.clock()
        resting = seconds is not None
        self.due = now + (WORK_SECONDS if seconds is None else seconds)
        self.said = said
        metrics = fleet.settings.loop.metrics
        if not (metrics.listen or metrics.textfile):
            return
        if not resting and now - self.shown_at < SPARING_SECONDS:
            return
        self.shown_at = now
        figures = self._figures(fleet, memory, fresh=resting)
        view = View(
            said=said,
            tally=self.tally,
            memory=memory,
            figures=figures,
            told=self.told(),
            copied=last_sync(fleet.database_file),
        )
        self.shown = text(view)
        if metrics.textfile:
            self._write(fleet.folder / metrics.textfile)

    def answer(self, path: str) -> HttpResponse | None:
        """Answer a request, in a thread: it reads what is kept here, and nothing else."""
        if path == "/metrics":
            return HttpResponse(HTTPStatus.OK, CONTENT_TYPE_PLAIN_0_0_4, self.shown)
        return self._health() if path == "/healthz" else None

    def _health(self) -> HttpResponse:
        """A loop that hangs is unavailable; one that does less than it should is at work."""
        said, late = self.said, self.clock() - self.due
        if said is None or late > LATE_SECONDS:
            phase = said.phase if said else "its beginning"
            condition = LoopCondition.HUNG
            why = f"it hangs, at {phase or 'rest'}: {late:.0f} s late" if said else "it begins"
        else:
            condition = LoopCondition.DEGRADED if said.degraded else LoopCondition.WELL
            why = said.degraded
        told = {"condition": condition.value, "why": why}
        if said is not None:
            told |= {"phase": said.phase, "saidAt": said.said_at, "nextAt": said.next_at}
            told |= {"commit": said.commit, "since": said.since}
        code = HTTPStatus.SERVICE_UNAVAILABLE if condition is LoopCondition.HUNG else HTTPStatus.OK
        return HttpResponse(code, "application/json", f"{json.dumps(told)}\n".encode())

    def _figures(self, fleet: Fleet, memory: Memory, *, fresh: bool) -> Figures | None:
        """Within a round they stay those of before it: others wait for that round."""
        if not fresh and self.ledger.known is not None:
            return self.ledger.known
        try:
            return self.ledger.figures(fleet, memory.last.left if memory.last else None)
        except (ProblemError, OSError):
            self.ledger.known = None
            return None

    def _write(self, path: Path) -> None:
        """Write the file whole or not at all; the collector looks at names that end as this one
        does.
        """
        try:
            write_file(path, self.shown, mode=FILE_MODE, durable=False)
        except OSError as error:
            self.unwritten = f"metrics are not written to {path}: {error.strerror}"
        else:
            self.unwritten = ""
