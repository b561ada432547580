"""Ends everything that runs under a uid, whoever started it and however it holds on."""

from __future__ import annotations

import os
from contextlib import suppress

from . import ipc, keyrings
from .mounts import mounted_at
from .paths import Tree
from .probes import call
from .processes import end_all

UNITS = ("user@{}.service", "user-runtime-dir@{}.service", "user-{}.slice")


def end_everything(tree: Tree, uid: int) -> None:
    """At once and by force, since a tenant may not hold up its end; then what systemd keeps.

    On a folder nothing runs. Raises Refusal where a process keeps coming back.
    """
    if not tree.whole_host:
        return
    end_all(tree, uid)
    if not tree.dry:
        units = [unit.format(uid) for unit in UNITS]
        call("systemctl", "stop", *units)
        # Its manager was killed: that is no failure for whoever watches this host.
        call("systemctl", "reset-failed", *units)
    end_all(tree, uid)
    _take_up_runtime_folder(tree, uid)
    ipc.remove_all(tree, uid)
    keyrings.remove_all(tree, uid)


def _take_up_runtime_folder(tree: Tree, uid: int) -> None:
    """What systemd does so with runs in the slice of the user.

    So it may have been ended with all the rest, and is then never tried again.
    """
    place = f"/run/user/{uid}"
    if mounted_at(place) is None:
        return
    tree.changed = True
    if not tree.dry:
        call("umount", "--recursive", place)
        with suppress(OSError):
            os.rmdir(place)
