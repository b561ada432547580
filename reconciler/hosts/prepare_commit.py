"""Committing a preparation: what it wrote on a host is kept, or rolled back (rule 6).

It goes over the connection in hand, which was there before the preparation. A host that is not
reached puts all back by itself when its time is up.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

from reconciler.hosts.ansible.executor import RunOptions
from reconciler.hosts.ansible.receipts import plain
from reconciler.hosts.cancel import halting
from reconciler.hosts.evidence import AT_ONCE, LOGIN_SECONDS, pinned, run_bounded
from reconciler.hosts.folders import short_folder
from reconciler.hosts.payload import carried
from reconciler.hosts.ssh.ssh import REMOTE_PYTHON, SUDO, needs_sudo, ssh_command
from reconciler.hosts.workdir import marked
from reconciler.model.plan.work import Host
from reconciler.stops import around


def settle(hosts: Sequence[Host], keep: Collection[str], options: RunOptions) -> Mapping[str, str]:
    """Keeps what the nodes in `keep` were made to be, and restores every other of these hosts.

    Node → why that could not be done; '' where it was.
    """
    if not hosts:
        return {}
    with (
        pinned(hosts) as pins,
        ThreadPoolExecutor(max_workers=min(AT_ONCE, len(hosts))) as pool,
        halting(options.forced) as forced,
    ):
        told = replace(options, forced=forced)
        one = partial(_settle, keep=keep, pins=pins, options=told)
        with around("settle"):
            return dict(pool.map(one, hosts))


def _settle(host: Host, keep: Collection[str], pins: Path, options: RunOptions) -> tuple[str, str]:
    code = carried(options.playbooks / "module_utils" / "gpuaas", "settle")
    wish = "keep" if host.node in keep else "restore"
    words = (*((SUDO, "-n", "--") if needs_sudo(host) else ()), REMOTE_PYTHON, "-I", "-", wish)
    command = marked((*ssh_command(host, pins, short_folder()), shlex.join(words)), pins.parent)
    ended = run_bounded(command, code, options.observe_timeout_s, LOGIN_SECONDS, options.forced)
    if ended.code == 0:
        return host.node, ""
    said = plain(ended.errors.decode("utf-8", "replace"))
    return host.node, f"{wish}: {said or f'no answer within {options.observe_timeout_s} s'}"
