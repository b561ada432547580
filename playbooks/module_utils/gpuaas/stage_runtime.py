"""runtime.stage: starts the build of a bundle version, unless it is there or being built.

It only begins, and whoever looks later sees how it has come out: a build takes minutes, and needs
nobody to wait for it.
"""

from __future__ import annotations

import errno
import grp
import json
import os
import subprocess
import sys
from contextlib import suppress
from typing import Any

from .files import Owner, fact_of, put_file, put_folder
from .items import text
from .mounts import mounts
from .paths import Refusal, Tree, parent_of
from .probes import SAFE_PATH, Probes, found_in_path
from .programs import must, tried
from .requirements import check
from .runtime_builds import is_alive, unwanted
from .runtimes import (
    CURRENT,
    JOB,
    RUNTIMES,
    STAGING,
    Runtime,
    is_rest,
    manifest_of,
    names_below,
    runtime_of,
)
from .wipe import remove_folder

KEYS = {
    "bundle": str,
    "version": str,
    "python": str,
    "lock": text,
    "lockDigest": str,
    "digest": str,
    "index": str,
    "imports": [str],
    "current": str,
    "activate": text,
    "program": text,
}

NAMESPACES = ("--mount", "--pid", "--fork", "--kill-child")
OF_ANYBODY = ("--user", "--map-current-user", "--keep-caps")
"""Without root, where the machine lets anybody have mounts of their own."""

BUILDER = "gpuaas-stage"
UNIT, SEAL_UNIT = "gpuaas-stage@{}.service", "gpuaas-seal@{}.service"
IDLE = {"inactive", "failed"}
"""States of units of which nothing runs."""


def run(tree: Tree, item: dict[str, Any]) -> None:
    runtime = runtime_of(item)
    check(item)
    sweep(tree)
    manifest = manifest_of(f"{tree.path}{runtime.place}")
    if manifest is None:
        refuse_strange(tree, runtime)
        refuse_mounted(tree, runtime)
        begin(tree, runtime, item)
    elif manifest.digest == unwanted(Probes(tree.path).at(runtime.folder[1:])):
        begin(tree, runtime, item, manifest.digest)
    elif manifest.lock_digest != item["lockDigest"]:
        raise Refusal("runtime_changed", f"{runtime} is there, made from other requirements")
    else:
        put_current(tree, runtime, item["current"])


def begin(tree: Tree, runtime: Runtime, item: dict[str, Any], instead: str = "") -> None:
    """One job a version, whoever asks and how often; what an earlier one has left is taken away.

    `instead` is the digest of what stands there and is not to be taken for the version.
    """
    _refuse_other_current(tree, runtime)
    folder = f"{tree.path}{runtime.folder}".replace("//", "/")
    if is_under_way(tree, runtime.job):
        return
    tree.changed = True
    if tree.dry:
        return
    privileged = tree.whole_host or _has_namespaces()
    if not privileged:
        _refuse_without_namespaces()
    if fact_of(tree, runtime.folder) is not None:
        remove_folder(tree, runtime.folder)
    try:
        _lay_out(tree, runtime, {**item, "unwanted": instead})
    except OSError as error:
        remove_folder(tree, runtime.folder)
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        message = f"the file system of {RUNTIMES}: nothing is left of it"
        raise Refusal("runtime_without_room", message) from error
    if tree.whole_host and not item["program"]:
        _start_unit(runtime)
    else:
        _start_here(tree, folder, privileged)


def sweep(tree: Tree) -> None:
    """What kills have left of builds that had come to their end, and of versions that are gone.

    Why a build has failed stays until somebody begins it anew.
    """
    probes = Probes(tree.path)
    for name in names_below(probes, STAGING):
        folder = probes.at(STAGING[1:], name)
        if is_rest(probes, folder) and not is_under_way(tree, name):
            remove_folder(tree, f"{STAGING}/{name}")


def is_under_way(tree: Tree, job: str) -> bool:
    """Whether somebody works on a job, is about to, or has not quite ended.

    A busy host may take its time to begin, and between its two works nobody has it locked.
    """
    if is_alive(Probes(tree.path).at(STAGING[1:], job)):
        return True
    if not (tree.whole_host and JOB.fullmatch(job) and found_in_path("systemctl")):
        return False
    units = (UNIT.format(job), SEAL_UNIT.format(job))
    states = must("systemctl", "show", "--property=ActiveState", "--value", *units).split()
    return not set(states) <= IDLE


def refuse_strange(tree: Tree, runtime: Runtime) -> None:
    """Of what was never sealed nobody knows whose it is, and it may be dear to them."""
    if fact_of(tree, runtime.place) is not None and fact_of(tree, runtime.sealed) is None:
        message = f"{runtime.place} is not of our making: move it away"
        raise Refusal("runtime_layout_broken", message)


def refuse_mounted(tree: Tree, runtime: Runtime) -> None:
    """What somebody has mounted in a version is no part of it, and goes with none of it."""
    place = f"{tree.path}{runtime.place}".replace("//", "/")
    for mount in mounts():
        if f"{mount.point}/".startswith(f"{place}/"):
            message = f"something is mounted at {mount.point}: unmount it"
            raise Refusal("runtime_layout_broken", message)


def _refuse_other_current(tree: Tree, runtime: Runtime) -> None:
    fact = fact_of(tree, runtime.link)
    if fact is not None and not fact.startswith("link "):
        raise Refusal("runtime_layout_broken", f"{runtime.link} is no link but {fact}")


def put_current(tree: Tree, runtime: Runtime, current: str) -> None:
    """By one rename: a reader finds the old one or the new one, and never none."""
    if current != runtime.version:
        return
    _refuse_other_current(tree, runtime)
    if fact_of(tree, runtime.link) == f"link {current}":
        return
    tree.changed = True
    if tree.dry:
        return
    with parent_of(tree, runtime.link, make=False) as place:
        assert place is not None
        parent, name = place
        # A name of its own, as another version may be at the same point.
        fresh = f".{CURRENT}.{current}"
        with suppress(FileNotFoundError):
            os.unlink(fresh, dir_fd=parent)
        os.symlink(current, fresh, dir_fd=parent)
        os.rename(fresh, name, src_dir_fd=parent, dst_dir_fd=parent)
        os.fsync(parent)


def _lay_out(tree: Tree, runtime: Runtime, item: dict[str, Any]) -> None:
    """What is asked is root's; the builder may write to the tree, and to three folders beside."""
    owner, mode = _builder(tree)
    for place in (RUNTIMES, STAGING, f"{RUNTIMES}/{runtime.bundle}"):
        put_folder(tree, place, "0755")
    if os.stat(f"{tree.path}{RUNTIMES}").st_dev != os.stat(f"{tree.path}{STAGING}").st_dev:
        message = f"{RUNTIMES} and {STAGING} are on two file systems: mount one at /opt/gpuaas"
        raise Refusal("runtime_layout_broken", message)
    # Tenants are kept out: whoever could open its lock could pretend to be at work on it.
    put_folder(tree, runtime.folder, "0750", (os.geteuid(), owner[1]))
    put_folder(tree, f"{runtime.folder}/trees/{runtime.bundle}", "0755")
    asked = {key: value for key, value in item.items() if key not in ("lock", "digest", "program")}
    asked["place"] = f"{tree.path}{runtime.place}".replace("//", "/")
    put_file(tree, f"{runtime.folder}/lock.txt", item["lock"], "0644")
    if item["program"]:
        put_file(tree, f"{runtime.folder}/stage", item["program"], "0755")
    for name in ("build", "tmp", "wheels", f"trees/{runtime.bundle}/{runtime.version}"):
        put_folder(tree, f"{runtime.folder}/{name}", mode, owner)
    put_folder(tree, f"{runtime.folder}/seal", "0755")
    put_file(tree, f"{runtime.folder}/alive", "", "0644")
    # Last: what has no job is none.
    put_file(tree, f"{runtime.folder}/job.json", json.dumps(asked) + "\n", "0644")


def _builder(tree: Tree) -> tuple[Owner, str]:
    """Whose the folders are that a build may write to, and their mode.

    Each build is by a uid of its own that nobody knows before, and by one group. On a folder that
    stands for a host, no wall either, it is that folder's owner.
    """
    if not tree.whole_host:
        status = os.fstat(tree.root)
        ours = os.geteuid(), os.getegid()
        return (ours if ours[0] else (status.st_uid, status.st_gid)), "0755"
    try:
        return (os.geteuid(), grp.getgrnam(BUILDER).gr_gid), "0775"
    except KeyError as error:
        raise Refusal("verb_failed", f"the host has no group {BUILDER}: prepare it") from error


def _start_unit(runtime: Runtime) -> None:
    unit = UNIT.format(runtime.job)
    tried("systemctl", "reset-failed", unit)
    must("systemctl", "start", "--no-block", unit)


def _has_namespaces() -> bool:
    """Whether there are some for root as it is, which may have been left without the power to."""
    return os.geteuid() == 0 and not tried("unshare", *NAMESPACES, "true")


def _refuse_without_namespaces() -> None:
    why = tried("unshare", *NAMESPACES, *OF_ANYBODY, "true")
    if why:
        raise Refusal("runtime_needs_root", f"a folder of mounts of its own: {why}")


def _start_here(tree: Tree, folder: str, privileged: bool) -> None:
    """On a folder that stands for a host: namespaces of its own, and no systemd.

    Nothing of it outlives the first process in there, which is the builder's own.
    """
    uid, gid = map(str, _builder(tree)[0])
    drop = ["--reuid", uid, "--regid", gid, "--clear-groups", "--bounding-set=-all"]
    script = """
        unshare "$@" -- sh -eu -c '
            mount --bind "$GPUAAS_JOB/trees" "$GPUAAS_PLACE"
            exec setpriv $GPUAAS_DROP --inh-caps=-all --ambient-caps=-all --no-new-privs \\
                "$GPUAAS_PYTHON" -IS "$GPUAAS_JOB/stage" build "$GPUAAS_JOB"
        '
        exec "$GPUAAS_PYTHON" -IS "$GPUAAS_JOB/stage" seal "$GPUAAS_JOB"
    """
    with open(f"{folder}/log", "wb") as log:
        subprocess.Popen(
            ["sh", "-euc", script, "sh", *NAMESPACES, *(() if privileged else OF_ANYBODY)],
            env={
                "PATH": SAFE_PATH,
                "GPUAAS_JOB": folder,
                "GPUAAS_PLACE": f"{tree.path}{RUNTIMES}".replace("//", "/"),
                "GPUAAS_DROP": " ".join(drop) if privileged else "",
                "GPUAAS_PYTHON": sys.executable,
            },
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
