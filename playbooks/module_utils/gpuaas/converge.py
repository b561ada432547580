"""A host's work, item by item: each is checked, done, and answered with a receipt.

One item's failure is that item's alone, save that later items of the same ref are not tried;
versions of a bundle are each by itself.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import nullcontext
from typing import Any

from . import (
    access,
    attach,
    detach,
    discard_runtime,
    forget_volume,
    prepare,
    provide,
    quarantine,
    release,
    reopen_volume,
    repair_runtime,
    reserve,
    restart,
    settle,
    stage_runtime,
    wipe_volume,
    write_env_file,
)
from .files import fact_of
from .host_lock import turn
from .items import check_keys
from .machine import read_boot_id
from .paths import Refusal, Tree
from .probes import ProbeError, Probes, printable

VERBS = {
    "node.prepare": prepare,
    "allocation.provide": provide,
    "storage.attach": attach,
    "storage.detach": detach,
    "storage.reopen": reopen_volume,
    "storage.wipe": wipe_volume,
    "storage.forget": forget_volume,
    "access.sync": access,
    "allocation.restart": restart,
    "allocation.quarantine": quarantine,
    "allocation.release": release,
    "runtime.stage": stage_runtime,
    "runtime.repair": repair_runtime,
    "runtime.discard": discard_runtime,
    "runtime.write_env_file": write_env_file,
}
"""Each with `KEYS`, the form of its item, and `run`, which makes it so or raises Refusal."""

ENTRY = {"step": str, "verb": str, "ref": str, "item": dict}

Receipt = dict[str, Any]


OF_THIS_BOOT = frozenset({"allocation.provide", "allocation.restart"})
"""What nobody may do on evidence of another boot; to take away needs no evidence."""


TAKES_AWAY = frozenset(
    {
        "access.sync",
        "allocation.quarantine",
        "allocation.release",
        "allocation.restart",
        "storage.detach",
    }
)
"""What is done on a full disk too: what it has to write borrows room from the host's reserve."""


BY_ITSELF = frozenset({"runtime.stage", "runtime.repair", "runtime.discard"})
"""Of one version each: that somebody uses one, or that another has no room, holds up no third."""


def converge(
    root: str, machine_id: str, work: list[Any], *, boot_id: str = "", dry: bool = False
) -> list[Receipt]:
    """Do the work in order and return its receipts.

    Raises Refusal, before anything is touched, on a host that is not the one meant, or on which
    another run is still at work. `boot_id` is that of the evidence.
    """
    folder = open_root(root, machine_id)
    try:
        with nullcontext() if dry else turn(Tree(folder, dry)):
            barred = set(OF_THIS_BOOT) if has_started_anew(root, boot_id) else set()
            try:
                return do_entries(folder, work, barred, dry)
            finally:
                # What may yet be put back is not added to.
                if not dry and Tree(folder, dry).whole_host and settle.status() == "none":
                    reserve.make_whole()
    finally:
        os.close(folder)


def do_entries(root: int, work: list[Any], barred: set[str], dry: bool) -> list[Receipt]:
    receipts: list[Receipt] = []
    failed: set[str] = set()
    for entry in work:
        receipt = do_entry(root, entry, (failed, barred), dry)
        if not receipt["ok"]:
            failed.add(receipt["ref"])
        receipts.append(receipt)
    return receipts


def has_started_anew(root: str, boot_id: str) -> bool:
    """What was seen of it before may hold no longer: its cards, and the walls between tenants."""
    return bool(boot_id) and read_boot_id(Probes(root)) != boot_id


def open_root(root: str, machine_id: str) -> int:
    if not machine_id and root == "/":
        raise Refusal("host_identity_changed", "a whole host needs a machine id to be known by")
    if not os.path.isabs(root):
        raise Refusal("item_invalid", f"root {root!r} is not absolute")
    try:
        folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise Refusal("host_unreachable", f"root folder {root}: {error.strerror}") from error
    if machine_id:
        found = read_machine_id(folder)
        if found != machine_id:
            os.close(folder)
            raise Refusal("host_identity_changed", f"machine id {found}, expected {machine_id}")
    return folder


def read_machine_id(root: int) -> str:
    try:
        with open(os.open("etc/machine-id", os.O_RDONLY, dir_fd=root), encoding="ascii") as file:
            return file.read(100).strip()
    except (OSError, ValueError):
        return "unknown"


def do_entry(root: int, entry: Any, ruled_out: tuple[set[str], set[str]], dry: bool) -> Receipt:
    """`ruled_out` are refs of which something has failed, and verbs that are not done now."""
    failed, barred = ruled_out
    known = entry if isinstance(entry, dict) else {}
    receipt: Receipt = {
        key: printable(str(known.get(key, "")))[:200] for key in ("step", "ref", "verb")
    }
    tree, evidence, problem = Tree(root, dry), {}, None
    try:
        check_keys(entry, ENTRY, "entry")
        verb = VERBS.get(entry["verb"])
        if verb is None:
            raise Refusal("verb_unknown", f"no such verb: {entry['verb']!r}")
        item = entry["item"]
        check_keys(item, verb.KEYS, "item")
        if entry["verb"] in barred:
            raise Refusal("host_rebooted", "it has started anew since it was looked at")
        if entry["ref"] in failed and entry["verb"] not in BY_ITSELF:
            raise Refusal("verb_failed", "not tried: an earlier step of the same ref failed")
        tree.borrows = entry["verb"] in TAKES_AWAY and tree.whole_host
        verb.run(tree, item)
        evidence = {**tree.said, **{path: fact_of(tree, path) for path in paths_of(item)}}
    except Refusal as refusal:
        problem = {"code": refusal.code, "message": printable(refusal.message)[:500]}
    except OSError as error:
        said = f"{error.strerror}: {error.filename}" if error.filename else str(error.strerror)
        problem = {"code": "verb_failed", "message": printable(said)[:500]}
    except ProbeError as error:
        # A tool that is late, or says no, is a matter of this step and of nobody else's.
        problem = {"code": "verb_failed", "message": printable(str(error))[:500]}
    receipt.update(changed=tree.changed, ok=problem is None, evidence=evidence, problem=problem)
    return receipt


def paths_of(item: dict[str, Any]) -> list[str]:
    parts = (*item.get("directories", ()), *item.get("files", ()))
    return [part["path"] for part in parts] + list(item.get("absent", ()))


def main() -> None:
    """One request as the only argument, one answer as the last line."""
    request = json.loads(sys.argv[1])
    expected, dry = request["expect"], request["dry"]
    machine_id, boot_id = expected["machine_id"], expected["boot_id"]
    answer: dict[str, Any] = {}
    try:
        receipts = converge(request["root"], machine_id, request["work"], boot_id=boot_id, dry=dry)
    except Refusal as refusal:
        answer = {"failed": True, "msg": refusal.message, "code": refusal.code}
    else:
        answer = {
            "changed": any(receipt["changed"] for receipt in receipts),
            "failed": not all(receipt["ok"] for receipt in receipts),
            "receipts": receipts,
        }
    sys.stdout.write("\n" + json.dumps(answer, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
