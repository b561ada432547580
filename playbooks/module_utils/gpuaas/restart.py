"""allocation.restart: everything that runs for an allocation ends, once for each generation.

Its home, its scratch folder, its keys and its numbers stay; what is only for the moment is emptied.
Where it has a whole host, that host then starts anew: whoever asked looks for the other boot.
"""

from __future__ import annotations

from typing import Any

from .account import check_ours
from .cards import UUID
from .files import put_file, read_bytes
from .kill import end_everything
from .paths import INSTANCES, Places, Refusal, Tree, mount_unit
from .probes import ProbeError, Probes, call, failure, printable
from .programs import change
from .restarts import BEGUN, DONE, NEVER, ORDERED, Mark, boot_of, mark_of, read_uptime, text_of
from .slices import shm_size
from .wipe import remove_folder

KEYS = {
    "id": str,
    "login": str,
    "uid": int,
    "generation": int,
    "reboot": bool,
    "gpus": [str],
}
EMPTIED = ("tmp", "var-tmp")
"""Made anew by PAM with the next login."""

DELAY_SECONDS = 3
"""Until it goes down, a host still has to tell that it was told to."""


def run(tree: Tree, item: dict[str, Any]) -> None:
    places = Places(item["id"], item["login"], item["uid"])
    if item["reboot"] and not tree.whole_host:
        raise Refusal("item_invalid", "a folder cannot be started anew")
    if odd := [uuid for uuid in item["gpus"] if not UUID.fullmatch(uuid)]:
        raise Refusal("item_invalid", f"no GPU: {odd[0]!r}")
    if item["uid"]:
        # By its number things end; so it must not be the number of anybody else.
        check_ours(tree, item["login"], item["uid"], f"gpuaas {item['id']}")
    boot_id, mark, wanted = _boot(tree), _read(tree, places.mark), item["generation"]
    if mark.generation > wanted:
        raise Refusal("item_invalid", f"it has reached generation {mark.generation} already")
    if mark.generation < wanted or mark.state == BEGUN:
        _put(tree, places.mark, Mark(wanted, BEGUN, item["uid"], boot_id, read_uptime()))
        _renew(tree, item)
        mark = Mark(
            wanted, ORDERED if item["reboot"] else DONE, item["uid"], boot_id, read_uptime()
        )
        _put(tree, places.mark, mark)
    if mark.state == ORDERED and mark.boot_id == boot_id:
        _start_anew(tree)


def _renew(tree: Tree, item: dict[str, Any]) -> None:
    login, uid = item["login"], item["uid"]
    if not uid:
        return
    end_everything(tree, uid)
    for place in EMPTIED:
        remove_folder(tree, f"{INSTANCES}/{place}/{login}")
    if tree.whole_host:
        if shm_size(login) is not None:
            change(tree, "systemctl", "restart", mount_unit(login))
        for uuid in item["gpus"]:
            tree.said[f"gpu {uuid}"] = _reset(tree, uuid)


def _reset(tree: Tree, uuid: str) -> str:
    """Of this card alone. Not every board can do so; then it stays as it is, and that is said."""
    if tree.dry:
        return "not reset: nothing is done"
    try:
        done = call("nvidia-smi", "--gpu-reset", "-i", uuid)
    except ProbeError as error:
        return f"not reset: {error}"
    if done.returncode != 0:
        return printable(f"not reset: {failure('nvidia-smi', done)}")[:300]
    return "reset"


def _start_anew(tree: Tree) -> None:
    after = f"--on-active={DELAY_SECONDS}s"
    change(
        tree,
        *("systemd-run", "--quiet", "--collect", after, "--timer-property=AccuracySec=100ms"),
        *("systemctl", "--no-wall", "reboot"),
    )


def _boot(tree: Tree) -> str:
    try:
        return boot_of(Probes(tree.path))
    except ProbeError as error:
        raise Refusal("verb_failed", str(error)) from error


def _read(tree: Tree, path: str) -> Mark:
    data = read_bytes(tree, path)
    try:
        return NEVER if data is None else mark_of(data.decode("utf-8", "replace"))
    except ProbeError as error:
        raise Refusal("verb_failed", f"{path}: {error}") from error


def _put(tree: Tree, path: str, mark: Mark) -> None:
    put_file(tree, path, text_of(mark), "0644")
