"""The executor: a wave's work becomes Ansible runs of at most 16 hosts, and these receipts.

Two runs are in hand at a time: while one starts up, the other has the processors.

What each host answered decides, never a return code; who did not answer is unknown.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Protocol

from reconciler.hosts.carried import carried
from reconciler.hosts.folders import keep_log, short_folder, workplace
from reconciler.hosts.halting import Wish, nobody_wishes
from reconciler.hosts.inventory import write_inventory
from reconciler.hosts.passing import passing
from reconciler.hosts.play import PlayRequest, play
from reconciler.hosts.receipts import failure, receipts_of
from reconciler.hosts.verbs import check_item
from reconciler.model.work import HostProgress, HostWork, Receipt
from reconciler.stops import around, reach

BATCH, AT_ONCE = 16, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """`python` runs modules and the observe code of hosts with address `local`.

    `forced` is a wish that whatever is under way ends at once.
    """

    run_dir: Path
    playbooks: Path
    python: str = sys.executable
    timeout_s: int = 900
    observe_timeout_s: int = 90
    forks: int = BATCH
    keep_logs: int = 20
    forced: Wish = nobody_wishes


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
) -> tuple[Receipt, ...]:
    """One receipt for each step of each work, in their order. No run at all without work.

    Steps that no host would take are not sent.
    """
    refused: dict[str, Receipt] = {}
    sound: list[HostWork] = []
    for work in works:
        for step in work.steps:
            if problem := check_item(step.verb, step.item):
                refused[step.id] = failure(step, problem.code, problem.message, unknown=False)
        if steps := tuple(step for step in work.steps if step.id not in refused):
            sound.append(replace(work, steps=steps))
    batches = [sound[start : start + BATCH] for start in range(0, len(sound), BATCH)]
    tell = _one_at_a_time(on_progress)
    with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
        runs = list(pool.map(lambda batch: _run_batch(batch, options, tell, stop), batches))
    answered = {receipt.step: receipt for receipts in runs for receipt in receipts}
    return tuple((refused | answered)[step.id] for work in works for step in work.steps)


def _one_at_a_time(
    on_progress: Callable[[HostProgress], None],
) -> Callable[[HostProgress], None]:
    """Whoever listens need not know that several runs talk."""
    lock = Lock()

    def tell(progress: HostProgress) -> None:
        with lock:
            on_progress(progress)

    return tell


def _run_batch(
    works: Sequence[HostWork],
    options: RunOptions,
    on_progress: Callable[[HostProgress], None],
    stop: Stop,
) -> tuple[Receipt, ...]:
    if stop.asked:
        return _not_started(works)

    def on_start(node: str) -> None:
        on_progress(HostProgress(node=node, phase="converge"))
        reach("play.during")

    with passing() as place:
        request = _request(works, options, place)
        for work in works:
            on_progress(HostProgress(node=work.host.node, phase="connect"))
        with around("play"):
            played = play(request, on_start, lambda: stop.forced)
    receipts = tuple(receipt for work in works for receipt in receipts_of(work, played))
    _report(works, receipts, on_progress)
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
        timeout_s=options.timeout_s,
    )


def _not_started(works: Sequence[HostWork]) -> tuple[Receipt, ...]:
    return tuple(
        failure(step, "interrupted", "not started", unknown=False)
        for work in works
        for step in work.steps
    )


def _report(
    works: Sequence[HostWork],
    receipts: Sequence[Receipt],
    on_progress: Callable[[HostProgress], None],
) -> None:
    for work in works:
        bad = [r for r in receipts if r.node == work.host.node and r.problem is not None]
        detail = bad[0].problem.message if bad and bad[0].problem else ""
        phase = "failed" if bad else "done"
        on_progress(HostProgress(node=work.host.node, phase=phase, detail=detail))
