"""Everything that runs under a uid is ended, whoever started it and however it holds on."""

from __future__ import annotations

from . import ipc
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
    ipc.remove_all(tree, uid)
