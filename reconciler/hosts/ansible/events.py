"""The events of a run so far, host by host, and who hears of them while it lasts."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import field

from reconciler.hosts.ansible.inventory import PREFIX
from reconciler.hosts.answers import AnswerError, read_json
from reconciler.model.records import dataclass

LOG_LINES = 200
STARTING_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult:
    """How the one task ended on a host, and its result.

    `ok`, `failed` or `unreachable`; `again` where more than one task has ended, and
    `invalid` where what it said was no answer.
    """

    outcome: str
    result: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """`status` is Ansible's word, `killed` when it was ended on a wish, `broken` without a word.

    It says why a host did not answer; what a host did is in `answers` alone.
    """

    status: str
    answers: Mapping[str, TaskResult]
    log: str
    logs: Mapping[str, str] = field(default_factory=dict)

    def log_of(self, node: str) -> str:
        """What was told about this node and no other; of a run that nobody answered in, all."""
        return self.logs.get(node, "") if self.answers else self.log


@dataclass(frozen=True, slots=True, kw_only=True)
class RunListener:
    """Who is told of nodes while a run lasts: that one has begun, and once how one has ended."""

    on_start: Callable[[str], None]
    on_end: Callable[[str, Played], None] = lambda node, played: None


@dataclass(slots=True, kw_only=True)
class Heard:
    """What the guard has said so far. Its last word is followed by its own end, to be awaited."""

    listener: RunListener
    budgets: Mapping[str, float]
    since: float = field(default_factory=time.monotonic)
    started: dict[str, float] = field(default_factory=dict)
    status: str = ""
    answers: dict[str, TaskResult] = field(default_factory=dict)
    late: set[str] = field(default_factory=set)
    log: deque[str] = field(default_factory=lambda: deque(maxlen=LOG_LINES))
    logs: dict[str, deque[str]] = field(default_factory=dict)

    @property
    def ended(self) -> set[str]:
        return self.late | self.answers.keys()

    def give_up(self, now: float) -> None:
        """Give up nodes whose time is over; a run that does not start is given a moment besides."""
        for node in self.budgets.keys() - self.ended:
            since = self.started.get(node, self.since + STARTING_SECONDS)
            if now - since > self.budgets[node]:
                self.late.add(node)
                self._tell(node, "timeout")

    def take(self, line: object) -> None:
        match line:
            case {"event": "log", "text": str(text), **rest}:
                self.log.extend(text.splitlines())
                node = str(rest.get("host", "")).removeprefix(PREFIX)
                own = self.logs.setdefault(node, deque(maxlen=LOG_LINES))
                own.extend(text.splitlines())
            case {"event": "end", "status": str(word)}:
                self.status = word
            case {"event": "runner_on_start", "host": str(host)}:
                node = host.removeprefix(PREFIX)
                self.started[node] = time.monotonic()
                self.listener.on_start(node)
            case {"event": str(event), "host": str(host), "res": dict(result)}:
                node = host.removeprefix(PREFIX)
                if node in self.answers:
                    self.answers[node] = answer_of("again", result)
                elif node not in self.late:
                    self.answers[node] = answer_of(event.removeprefix("runner_on_"), result)
                    self._tell(node, self.status)

    def _tell(self, node: str, status: str) -> None:
        """What is known of this node, as if it had been the only one of the run."""
        answers = {node: self.answers[node]} if node in self.answers else {}
        log = "\n".join(self.logs.get(node, ()))
        self.listener.on_end(
            node, Played(status=status, answers=answers, log=log, logs={node: log})
        )


def answer_of(outcome: str, result: Mapping[str, object]) -> TaskResult:
    """A host's own line is read here, and nowhere before."""
    if outcome != "ok" and not (outcome == "failed" and "answer" in result):
        return TaskResult(outcome=outcome, result=result)
    try:
        told = read_json(str(result.get("answer", "")).encode())
    except AnswerError as error:
        return TaskResult(outcome="invalid", result={"msg": str(result.get("invalid") or error)})
    if not isinstance(told, dict):
        return TaskResult(outcome="invalid", result={"msg": "its answer is no mapping"})
    return TaskResult(outcome="failed" if told.get("failed") else "ok", result=told)
