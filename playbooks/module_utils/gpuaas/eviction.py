"""Eviction: processes that keep a volume from being detached are ended, on request.

Only processes of the tenant whose volume it is, and of these only those that work in it. Others who
do so are named, and keep it: it is never unmounted from under anybody.
"""

from __future__ import annotations

import signal
from typing import Callable

from .hidden_mounts import tenants_in
from .mount_places import Seat
from .paths import Refusal, Tree
from .patience import comes_true
from .processes import tell

GRACE_SECONDS, KILL_SECONDS, REST_SECONDS = 5.0, 5.0, 0.1
"""To end by themselves, and to be gone when they are ended."""

ENDED = "ended"
"""The name under which a receipt tells who was."""

ROUNDS = 3
"""What is started anew each time stays: somebody has to see to what starts it."""


def letting_go(tree: Tree, seat: Seat, uid: int, volume: str, let_go: Callable[[], None]) -> None:
    """`let_go` until it raises no `storage_busy`, ending those of the tenant in between.

    Raises the last Refusal where somebody else has it, or where they keep coming back.
    """
    for left in reversed(range(ROUNDS)):
        end_in(tree, seat, uid, volume)
        try:
            let_go()
            break
        except Refusal as refusal:
            if refusal.code != "storage_busy" or not left:
                also = f"; ended: {tree.said[ENDED]}" if ENDED in tree.said else ""
                raise Refusal(refusal.code, refusal.message + also) from refusal


def end_in(tree: Tree, seat: Seat, uid: int, volume: str) -> None:
    """They are asked to end, and ended when they do not; nobody is waited for longer than that."""
    for what, seconds in ((signal.SIGTERM, GRACE_SECONDS), (signal.SIGKILL, KILL_SECONDS)):
        found = tenants_in(seat, uid, volume)
        if not found:
            return
        tree.changed = True
        if tree.dry:
            return
        _note(tree, found)
        tell(uid, found, what)
        comes_true(lambda: not tenants_in(seat, uid, volume), seconds, REST_SECONDS)


def _note(tree: Tree, found: dict[int, str]) -> None:
    """Each once, though it is asked first and ended then."""
    before = filter(None, tree.said.get(ENDED, "").split(", "))
    names = (f"{pid} {name}" for pid, name in sorted(found.items()))
    tree.said[ENDED] = ", ".join(dict.fromkeys((*before, *names)))
