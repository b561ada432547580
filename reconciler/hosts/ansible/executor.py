"""The executor: it turns a wave's work into Ansible runs of at most 16 hosts, and into receipts.

Two runs are in hand at a time: while one starts up, the other has the processors.

What each host answered decides, never a return code; who did not answer is unknown. A host is told
of when it has ended, and no host is waited for longer than its work may take.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Protocol

from reconciler.hosts.ansible.budgets import budget_of
from reconciler.hosts.ansible.events import Played, RunListener
from reconciler.hosts.ansible.inventory import write_inventory
from reconciler.hosts.ansible.receipts import failure, receipts_of
from reconciler.hosts.ansible.run import PlayRequest, play
from reconciler.hosts.cancel import Wish, nobody_wishes
from reconciler.hosts.folders import keep_log, short_folder, workplace
from reconciler.hosts.payload import carried
from reconciler.hosts.verbs import check_item
from reconciler.hosts.workdir import passing
from reconciler.model.codec import encode
from reconciler.model.plan.work import HostProgress, HostWork, Receipt
from reconciler.model.records import dataclass
from reconciler.stops import around, reach

BATCH, AT_ONCE = 16, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """`python` runs modules and the observe code of hosts with address `local`.

    `forced` is a wish that whatever is under way ends at once. No host is given more than
    `timeout_s` for its work, however much that is.
    """

    run_dir: Path
    playbooks: Path
    python: str = sys.executable
    timeout_s: int = 900
    observe_timeout_s: int = 90
    forks: int = BATCH
    keep_logs: int = 20
    forced: Wish = nobody_wishes


Answered = Callable[[HostWork, tuple[Receipt, ...]], None]


def nobody_waits(work: HostWork, receipts: tuple[Receipt, ...]) -> None:
    """A listener that is told of no single host: all receipts are taken at the end."""


class Stop(Protocol):
    """A wish to stop: `asked` lets the run in hand end and starts no other, `forced` kills it."""

    @property
    def asked(self) -> bool: ...

    @property
    def forced(self) -> bool: ...


def run_wave(
    works: Sequence[HostWork],
    options: RunOptions,
    on_progress: Callable[[HostProgress], None],
    stop: Stop,
    answered: Answered = nobody_waits,
) -> tuple[Receipt, ...]:
    """One receipt for each step of each work, in their order. No run at all without work.

    Steps that no host would take are not sent. `answered` gets a work with its receipts as soon as
    its host has ended, in the thread of a run, and each work once.
    """
    refused: dict[str, Receipt] = {}
    sound: list[HostWork] = []
    for work in works:
        for step in work.steps:
            if problem := check_item(step.verb, encode(step.item)):
                refused[step.id] = failure(step, problem.code, problem.message, unknown=False)
        if steps := tuple(step for step in work.steps if step.id not in refused):
            sound.append(replace(work, steps=steps))
    whole = {work.host.node: work for work in works}
    told: set[str] = set()

    def take(receipts: Sequence[Receipt]) -> None:
        """Of one host."""
        work = whole[receipts[0].node]
        told.add(work.host.node)
        known = refused | {receipt.step: receipt for receipt in receipts}
        answered(work, tuple(known[step.id] for step in work.steps))

    batches = [sound[start : start + BATCH] for start in range(0, len(sound), BATCH)]
    ears = _Ears(on_progress=_one_at_a_time(on_progress), take=take)
    with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
        runs = list(pool.map(lambda batch: _run_batch(batch, options, ears, stop), batches))
    known = refused | {receipt.step: receipt for receipts in runs for receipt in receipts}
    for work in works:
        if work.host.node not in told:
            answered(work, tuple(known[step.id] for step in work.steps))
    return tuple(known[step.id] for work in works for step in work.steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ears:
    """Who listens to a run: to its progress, and to the receipts of each host that has ended."""

    on_progress: Callable[[HostProgress], None]
    take: Callable[[Sequence[Receipt]], None]


def _one_at_a_time(
    on_progress: Callable[[HostProgress], None],
) -> Callable[[HostProgress], None]:
    """Pass on one call at a time, though several runs report at once."""
    lock = Lock()

    def tell(progress: HostProgress) -> None:
        with lock:
            on_progress(progress)

    return tell


def _run_batch(
    works: Sequence[HostWork], options: RunOptions, ears: _Ears, stop: Stop
) -> tuple[Receipt, ...]:
    if stop.asked:
        return _not_started(works)
    by_node = {work.host.node: work for work in works}

    def on_start(node: str) -> None:
        ears.on_progress(HostProgress(node=node, phase="converge"))
        reach("play.during")

    def on_end(node: str, played: Played) -> None:
        receipts = receipts_of(by_node[node], played)
        _report(by_node[node], receipts, ears.on_progress)
        ears.take(receipts)

    with passing() as place:
        request = _request(works, options, place)
        for work in works:
            ears.on_progress(HostProgress(node=work.host.node, phase="connect"))
        with around("play"):
            listener = RunListener(on_start=on_start, on_end=on_end)
            played = play(request, listener, lambda: stop.forced)
    receipts = tuple(receipt for work in works for receipt in receipts_of(work, played))
    ok = all(receipt.ok for receipt in receipts)
    keep_log(options.run_dir, played.log, ok=ok, keep=options.keep_logs)
    return receipts


def _request(works: Sequence[HostWork], options: RunOptions, place: Path) -> PlayRequest:
    """All of a run that lies on this machine's disk, written before a host is touched."""
    code = carried(options.playbooks / "module_utils" / "gpuaas", "converge")
    with workplace():
        inventory = write_inventory(
            works, place, sockets=short_folder(), python=options.python, code=code
        )
    return PlayRequest(
        place=place,
        playbooks=options.playbooks,
        inventory=inventory,
        forks=options.forks,
        budgets={work.host.node: budget_of(work.steps, options.timeout_s) for work in works},
    )


def _not_started(works: Sequence[HostWork]) -> tuple[Receipt, ...]:
    return tuple(
        failure(step, "interrupted", "not started", unknown=False)
        for work in works
        for step in work.steps
    )


def _report(
    work: HostWork, receipts: Sequence[Receipt], on_progress: Callable[[HostProgress], None]
) -> None:
    bad = next((receipt.problem for receipt in receipts if receipt.problem is not None), None)
    phase, detail = ("failed", bad.message) if bad else ("done", "")
    on_progress(HostProgress(node=work.host.node, phase=phase, detail=detail))
