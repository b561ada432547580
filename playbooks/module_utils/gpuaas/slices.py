"""Slices: what confines a tenant beside its account: slice, devices, shared memory.

A folder has none of these: no systemd runs there, and nothing is mounted.
"""

from __future__ import annotations

import os
from typing import Optional

from . import filters, network
from .files import fact_of, put_link, remove_file
from .mounts import mounted_at
from .paths import INSTANCES, UNITS, Refusal, Tree, mount_unit
from .programs import change, must

DEVICES = "/usr/local/libexec/gpuaas/devices"
"""Works out anew which device nodes are those of the GPUs that a tenant was given."""


def confine(tree: Tree, login: str, uid: int, shm_bytes: int) -> None:
    """What was written for it counts from now on, for open sessions too."""
    if not tree.whole_host:
        return
    mount = mount_unit(login)
    put_link(tree, _wants(mount), f"{UNITS}/{mount}")
    network.take_up(tree)
    refusal = _open_devices(tree, uid)
    take_up(tree, login, uid)
    if refusal is not None:
        # Only now: what it had before is no longer open to it either.
        raise refusal
    if shm_bytes != shm_size(login):
        change(tree, "systemctl", "reload-or-restart", mount)


def take_up(tree: Tree, login: str, uid: int) -> None:
    """systemd goes by what is written now, also where an earlier run was broken off before this."""
    if tree.whole_host:
        units = (f"user-{uid}.slice", mount_unit(login))
        stale = must("systemctl", "show", "--property=NeedDaemonReload", *units)
        if (tree.changed or "=yes" in stale) and not tree.dry:
            # The dearest step of all: every unit of the host is read anew. So it is done once.
            must("systemctl", "daemon-reload")
        _renew_filter(tree, uid)


def _renew_filter(tree: Tree, uid: int) -> None:
    """What was written holds for open sessions too, and for nodes that were made anew since."""
    told = must("systemctl", "show", "--property=DeviceAllow", f"user-{uid}.slice").splitlines()
    given = [line.partition("=")[2].rpartition(" ")[0] for line in told]
    if filters.needs_renewal(uid, given):
        tree.changed = True
        if not tree.dry:
            filters.renew(uid)


def unconfine(tree: Tree, login: str) -> None:
    """Nothing of it is mounted any more; its files are taken away by whoever calls."""
    if not tree.whole_host:
        return
    mount = mount_unit(login)
    remove_file(tree, _wants(mount))
    if shm_size(login) is not None:
        change(tree, "systemctl", "stop", mount)


def shm_size(login: str) -> Optional[int]:
    """Bytes of what is mounted for its /dev/shm; None if nothing is."""
    place = f"{INSTANCES}/shm/{login}"
    mount = mounted_at(place)
    if mount is None:
        return None
    size = os.statvfs(place)
    return size.f_blocks * size.f_frsize if mount.kind == "tmpfs" else 0


def _open_devices(tree: Tree, uid: int) -> Optional[Refusal]:
    """By the same program as at every boot, so that no two ways can come apart.

    Where a card does not answer there is no GPU at all, and the reason is returned.
    """
    path = f"/run/systemd/system/user-{uid}.slice.d/70-gpuaas-devices.conf"
    before, refusal = fact_of(tree, path), None
    if not tree.dry:
        try:
            must(DEVICES, "--no-reload", str(uid))
        except Refusal as found:
            refusal = found
    tree.changed = tree.changed or fact_of(tree, path) != before
    return refusal


def _wants(mount: str) -> str:
    return f"{UNITS}/local-fs.target.wants/{mount}"
