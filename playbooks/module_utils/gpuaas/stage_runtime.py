"""runtime.stage: a version of a bundle is being built, unless it is there or somebody is at it.

It only begins, and whoever looks later sees how it has come out: a build takes minutes, and needs
nobody to wait for it.
"""

from __future__ import annotations

import grp
import hashlib
import json
import os
import pwd
import subprocess
from typing import Any

from .files import fact_of, put_file, put_folder
from .items import text
from .paths import Refusal, Tree, parent_of
from .probes import call, failure
from .runtimes import CURRENT, RUNTIMES, STAGING, Runtime, is_alive, manifest_of, runtime_of
from .wipe import remove_folder

KEYS = {
    "bundle": str,
    "version": str,
    "python": str,
    "lock": text,
    "lockDigest": str,
    "index": str,
    "imports": [str],
    "needMiB": int,
    "current": str,
    "activate": text,
    "program": text,
}

BUILDER = "gpuaas-stage"
UNIT = "gpuaas-stage@{}.service"


def run(tree: Tree, item: dict[str, Any]) -> None:
    runtime = runtime_of(item)
    manifest = manifest_of(f"{tree.path}{runtime.place}")
    if manifest is None:
        begin(tree, runtime, item)
    elif manifest.get("lockDigest") != item["lockDigest"]:
        raise Refusal("runtime_changed", f"{runtime} is there, made from other requirements")
    else:
        put_current(tree, runtime, item["current"])


def begin(tree: Tree, runtime: Runtime, item: dict[str, Any]) -> None:
    """One job a version, whoever asks and how often; what an earlier one has left is taken away."""
    _check(item)
    folder = f"{tree.path}{runtime.folder}".replace("//", "/")
    if is_alive(folder):
        return
    tree.changed = True
    if tree.dry:
        return
    if fact_of(tree, runtime.folder) is not None:
        remove_folder(tree, runtime.folder)
    _lay_out(tree, runtime, item)
    if tree.whole_host and not item["program"]:
        _start_unit(runtime)
    else:
        _start_here(tree, runtime, folder)


def put_current(tree: Tree, runtime: Runtime, current: str) -> None:
    """By one rename: a reader finds the old one or the new one, and never none."""
    if current != runtime.version:
        return
    with parent_of(tree, runtime.link, make=True) as place:
        assert place is not None
        parent, name = place
        fact = fact_of(tree, runtime.link)
        if fact == f"link {current}":
            return
        if fact is not None and not fact.startswith("link "):
            raise Refusal("runtime_layout_broken", f"{runtime.link} is no link but {fact}")
        tree.changed = True
        if tree.dry:
            return
        fresh = f".{CURRENT}.gpuaas-new"
        if fresh in os.listdir(parent):
            os.unlink(fresh, dir_fd=parent)
        os.symlink(current, fresh, dir_fd=parent)
        os.rename(fresh, name, src_dir_fd=parent, dst_dir_fd=parent)
        os.fsync(parent)


def _check(item: dict[str, Any]) -> None:
    if "sha256:" + hashlib.sha256(item["lock"].encode()).hexdigest() != item["lockDigest"]:
        raise Refusal("item_invalid", "the requirements are not those that were agreed")
    major, dot, minor = item["python"].partition(".")
    if not (dot and major.isdigit() and minor.isdigit()):
        raise Refusal("item_invalid", f"no version of Python: {item['python']!r}")
    words = [part for name in item["imports"] for part in name.split(".")]
    if not all(word.isidentifier() for word in words):
        raise Refusal("item_invalid", f"no modules: {item['imports']!r}")
    index = item["index"]
    if index and not index.startswith(("https://", "http://", "file:///")):
        raise Refusal("item_invalid", f"no index: {index!r}")


def _lay_out(tree: Tree, runtime: Runtime, item: dict[str, Any]) -> None:
    """What is asked is root's; the builder may write to the tree, and to three folders beside."""
    owner = _builder(tree)
    for place in (RUNTIMES, STAGING):
        put_folder(tree, place, "0755")
    if os.stat(f"{tree.path}{RUNTIMES}").st_dev != os.stat(f"{tree.path}{STAGING}").st_dev:
        message = f"{RUNTIMES} and {STAGING} are on two file systems: mount one at /opt/gpuaas"
        raise Refusal("runtime_layout_broken", message)
    # Tenants are kept out: whoever could open its lock could pretend to be at work on it.
    put_folder(tree, runtime.folder, "0750", (os.geteuid(), owner[1]))
    put_folder(tree, f"{runtime.folder}/trees/{runtime.bundle}", "0755")
    place = f"{tree.path}{runtime.place}".replace("//", "/")
    asked = {key: item[key] for key in KEYS if key not in ("lock", "program")}
    told = {**asked, "final": place, "place": place}
    put_file(tree, f"{runtime.folder}/lock.txt", item["lock"], "0644")
    if item["program"]:
        put_file(tree, f"{runtime.folder}/stage", item["program"], "0755")
    for name in ("state", "tmp", "wheels", f"trees/{runtime.bundle}/{runtime.version}"):
        put_folder(tree, f"{runtime.folder}/{name}", "0755", owner)
    put_file(tree, f"{runtime.folder}/state/alive", "", "0644")
    # Last: what has no job is none.
    put_file(tree, f"{runtime.folder}/job.json", json.dumps(told) + "\n", "0644")


def _builder(tree: Tree) -> tuple[int, int]:
    """Who builds. On a folder that stands for a host, no wall either, it is its owner."""
    if not tree.whole_host:
        status = os.fstat(tree.root)
        return (status.st_uid, status.st_gid) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
    try:
        return pwd.getpwnam(BUILDER).pw_uid, grp.getgrnam(BUILDER).gr_gid
    except KeyError as error:
        raise Refusal("verb_failed", f"the host has no account {BUILDER}: prepare it") from error


def _start_unit(runtime: Runtime) -> None:
    unit = UNIT.format(runtime.job)
    call("systemctl", "reset-failed", unit)
    done = call("systemctl", "start", "--no-block", unit)
    if done.returncode != 0:
        raise Refusal("verb_failed", failure("systemctl", done))


def _start_here(tree: Tree, runtime: Runtime, folder: str) -> None:
    """On a folder that stands for a host: a mount namespace of its own, and no systemd.

    Without root a user namespace gives as much, where the machine lets anybody have one.
    """
    final = f"{tree.path}{RUNTIMES}".replace("//", "/")
    user = [] if os.geteuid() == 0 else ["--user", "--map-current-user", "--keep-caps"]
    uid, gid = map(str, _builder(tree))
    drop = [] if user else ["--reuid", uid, "--regid", gid, "--clear-groups", "--bounding-set=-all"]
    script = (
        'unshare --mount "$@" -- sh -eu -c \'mount --bind "$1/trees" "$2"; shift 2; exec "$@"\''
        ' sh "$GPUAAS_JOB" "$GPUAAS_FINAL" setpriv $GPUAAS_DROP --no-new-privs'
        ' python3 -IS "$GPUAAS_JOB/stage" build "$GPUAAS_JOB"'
        ' && exec python3 -IS "$GPUAAS_JOB/stage" seal "$GPUAAS_JOB"'
    )
    subprocess.Popen(
        ["sh", "-c", script, "sh", *user],
        env={
            "PATH": os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"),
            "GPUAAS_JOB": folder,
            "GPUAAS_FINAL": final,
            "GPUAAS_DROP": " ".join(drop),
        },
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
