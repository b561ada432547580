"""What the tests of hosts share: one allocation's work, and hosts that are folders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reconciler.hosts.ansible.executor import RunOptions
from reconciler.model.plan.plan import Order, Step, step_id
from reconciler.model.plan.work import Host, HostProgress
from reconciler.model.ref import Ref
from tests.harness.items import RawItem

PLAYBOOKS = Path(__file__).parents[2] / "playbooks"

ID, LOGIN = "abcdefghij", "train-a-abcd"
HOME, SCRATCH = f"/home/{LOGIN}", f"/var/lib/gpuaas/scratch/{ID}"
DESCRIPTOR = f"/etc/gpuaas/allocations/{ID}.json"
ENVIRONMENT = f"/etc/gpuaas/runtime/allocations/{ID}.env"
KEYS = f"/etc/gpuaas/ssh/{LOGIN}"
REF = Ref("allocation", "vision", "train-a")


@dataclass(slots=True)
class Wish:
    """A wish to stop, as the operator's Ctrl-C makes it."""

    asked: bool = False
    forced: bool = False


def host(root: Path, node: str = "gpu01", **more: Any) -> Host:
    return Host(node=node, address="local", root=str(root), isolation="directory", **more)


def options(folder: Path, **more: Any) -> RunOptions:
    return RunOptions(run_dir=folder / "runs", **{"playbooks": PLAYBOOKS, **more})


def step(verb: str, item: Mapping[str, Any], *, node: str = "gpu01", ref: Ref = REF) -> Step:
    whole = RawItem({"id": ID, "login": LOGIN, **item})
    return Step(
        id=step_id(node, verb, ref), verb=verb, node=node, ref=ref, order=Order.PROVIDE, item=whole
    )


def folder(path: str, mode: str = "0700", uid: int = 0, gid: int = 0) -> dict[str, Any]:
    return {"path": path, "mode": mode, "uid": uid, "gid": gid}


def provide_item(descriptor: str = "{}\n", environment: str = "A=1\n") -> dict[str, Any]:
    return {
        "account": None,
        "directories": [folder(HOME), folder(SCRATCH)],
        "files": [
            {"path": DESCRIPTOR, "mode": "0644", "content": descriptor},
            {"path": ENVIRONMENT, "mode": "0644", "content": environment},
        ],
    }


def keys_item(content: str) -> dict[str, Any]:
    files = [{"path": KEYS, "mode": "0644", "content": content}]
    return {"files": files, "absent": [], "uid": 0, "gid": 0}


NO_KEYS: dict[str, Any] = {"files": [], "absent": [KEYS], "uid": 0, "gid": 0}
RELEASE: dict[str, Any] = {
    "absent": [ENVIRONMENT, HOME, SCRATCH, DESCRIPTOR],
    "uid": 0,
    "gid": 0,
}


def ignore(_: HostProgress) -> None:
    """Progress that nobody watches."""


def tree(root: Path) -> dict[str, str]:
    """Everything below a folder with its mode and content, to see that nothing changed."""
    return {
        str(path.relative_to(root)): f"{path.lstat().st_mode:o} "
        + (path.read_text(errors="replace") if path.is_file() else "")
        for path in sorted(root.rglob("*"))
    }
