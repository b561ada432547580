"""The pipeline of a wave: each host is observed and judged as soon as it has ended.

Only the thread that asks for the results writes to the state, so what is handed on is handed on
there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Event
from typing import TypeVar

from reconciler.hosts.ansible.executor import Answered
from reconciler.hosts.cancel import TICK_SECONDS, Wish
from reconciler.model.plan.work import HostWork, Receipt

AT_ONCE = 16
"""So many hosts are followed up at a time."""

T = TypeVar("T")


Run = Callable[[Answered, Wish], Sequence[Receipt]]
"""Does all works and tells of each that has ended; nothing new is begun once it is wished."""


def each_as_it_ends(
    works: Sequence[HostWork],
    run: Run,
    follow: Callable[[HostWork, Sequence[Receipt]], T],
    meanwhile: Callable[[], None],
) -> Iterator[T]:
    """Call `follow` for every work, in the order in which they are done.

    A work that `run` has not reported is followed up by what it returns. `meanwhile` is called now
    and then, in the caller's thread. Whoever stops asking waits for what hosts have begun.
    """
    if not works:
        return
    done: SimpleQueue[Future[T]] = SimpleQueue()
    told: set[str] = set()
    over = Event()
    with ThreadPoolExecutor(AT_ONCE) as followers, ThreadPoolExecutor(1) as runner:

        def answered(work: HostWork, receipts: Sequence[Receipt]) -> None:
            told.add(work.host.node)
            followers.submit(follow, work, receipts).add_done_callback(done.put)

        def run_all() -> None:
            found: dict[str, list[Receipt]] = {work.host.node: [] for work in works}
            for receipt in run(answered, over.is_set):
                found[receipt.node].append(receipt)
            for work in works:
                if work.host.node not in told:
                    answered(work, found[work.host.node])

        running, handed_on = runner.submit(run_all), 0
        try:
            while handed_on < len(works):
                with suppress(Empty):
                    result = done.get(timeout=TICK_SECONDS).result()
                    handed_on += 1
                    yield result
                if running.done() and handed_on == len(told):
                    running.result()
                meanwhile()
        finally:
            over.set()
