"""One device under two names: found by a look, and refused by whoever could give it out."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.model.problem import ProblemError
from reconciler.operations.node.approve import ApprovalScope, approve
from tests.harness.yard import Yard, laid, node
from tests.planner import fleet as paper

pytestmark = pytest.mark.walk

REF = "allocation/vision/train"


@pytest.fixture
def twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Yard:
    """A node of two slots with a drive each by name, of which the host has one."""
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "olga")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "olga@corp.example")
    yard = laid(tmp_path / "fleet", {}, paper.allocation("train", "slice-2"))
    made = node("gpu01", 2, covers=())
    for name, slot in zip("ab", made["spec"]["slots"], strict=True):
        slot["nvme"] = {"id": f"nvme-{name}", "sizeGiB": 100}
    yard.write(made)
    yard.lay_nodes()
    yard.commit()
    by_id = yard.root("gpu01") / "dev/disk/by-id"
    (by_id / "nvme-b").unlink()
    (by_id / "nvme-b").symlink_to((by_id / "nvme-a").readlink())
    return yard


def test_nobody_approves_or_gets_one_drive_twice(twice: Yard) -> None:
    """F-REAL-08: the host says which names are one device, and every door asks it."""
    assert twice.gpuaas("validate").code == 0, "no file says so, and nobody has looked"
    approve(twice.fleet(), ApprovalScope(node="gpu01"))
    twice.commit()
    twice.plan("--refresh")
    done = twice.apply()
    assert done.blocked[REF] == "sku_unavailable"
    assert "device in two slots" in done.change(REF)["problem"]["message"]
    assert twice.claims == {}

    found = twice.gpuaas("validate")
    assert (found.code, found.problems) == (1, ["slot_overlap", "slot_overlap"])
    assert "nvme-a" in found.messages
    document = twice.specs / "node/gpu01.yaml"
    document.write_text(document.read_text().replace("memoryGiB: 64", "memoryGiB: 32"))
    with pytest.raises(ProblemError, match="nvme-b"):
        approve(twice.fleet(), ApprovalScope(node="gpu01"))
