"""Hosts that refuse what they are asked for: who is refused is placed elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.crash import kill
from tests.harness.yard import Yard, laid
from tests.planner import fleet as paper

pytestmark = pytest.mark.walk

ONE, TWO, THREE = (
    paper.allocation(name, "slice-1", expiresAt=paper.LASTING) for name in ("one", "two", "three")
)
REF = "allocation/vision/one"
RETRY = ("node", "retry", "gpu01")


@pytest.fixture
def sick(tmp_path: Path) -> Yard:
    """Two nodes alike, empty; the one whose turn is first refuses everybody."""
    yard = laid(tmp_path / "fleet", {"gpu01": 2, "gpu02": 2}, ONE)
    assert yard.plan("--refresh").code == 0
    home = yard.root("gpu01") / "home"
    if home.exists():
        home.rmdir()
    home.symlink_to("data")
    return yard


def test_who_is_refused_untouched_is_placed_elsewhere_in_the_same_apply(sick: Yard) -> None:
    """F-REAL-09: the claim ends by a proof, the host is asked last, and a success clears it."""
    done = sick.apply()
    assert done.code == 0, done.messages
    assert sick.recorded(REF).node == "gpu02"
    assert sick.claims == {f"{REF}@gpu02/s0": "held"}
    ((passed, checks),) = sick.rows("SELECT passed, checks FROM proof WHERE node = 'gpu01'")
    assert passed == 1
    assert "path_unsafe" in checks
    assert not list((sick.root("gpu01") / "etc/gpuaas/allocations").glob("*"))
    assert [p["severity"] for p in done.document["problems"]] == ["warning"] * 3

    sick.write(TWO)
    sick.commit()
    assert sick.apply().code == 0
    assert sick.recorded("allocation/vision/two").node == "gpu02", "the other is the tighter fit"
    assert "path_unsafe" in sick.gpuaas("node", "show", "gpu01").document["result"]["failed"]
    (row,) = [r for r in sick.gpuaas("node", "list").document["result"] if r["name"] == "gpu01"]
    assert "failed once" in row["problem"]
    found = sick.gpuaas("doctor").document["result"]
    assert "node_failing" in [one["code"] for one in found]
    explained = sick.gpuaas("explain", REF).document["result"]["candidates"]
    assert "failed once" in next(one["detail"] for one in explained if one["node"] == "gpu01")

    (sick.root("gpu01") / "home").unlink()
    kill(sick, RETRY, "retry.before")
    assert "failed once" in sick.gpuaas("node", "show", "gpu01").document["result"]["failed"]
    kill(sick, RETRY, "retry.after")
    assert sick.gpuaas("node", "retry", "gpu01").document["result"]["failed"] == ""
    assert sick.gpuaas("node", "retry", "gpu1").problems == ["not_found"]
    sick.write(THREE)
    sick.commit()
    assert sick.apply().code == 0
    assert sick.recorded("allocation/vision/three").node == "gpu01"


def test_a_host_alone_keeps_nothing_and_is_tried_again(sick: Yard) -> None:
    """F-REAL-09: an order, never an exclusion: the only host is asked by each apply."""
    sick.remove(paper.document("Node", "gpu02", {}))
    sick.commit()
    for times in (1, 2):
        done = sick.apply()
        assert done.code == 1, done.messages
        assert sick.claims == {}
        assert sick.world.failures["gpu01"].count == times
    (sick.root("gpu01") / "home").unlink()
    assert sick.apply().code == 0
    assert sick.recorded(REF).node == "gpu01"
    assert sick.world.failures == {}, "a success clears it"


def test_what_was_touched_is_not_let_go(sick: Yard) -> None:
    """F-REAL-09: a host that may have something of it keeps its claim, whatever it says."""
    (sick.root("gpu01") / "home").unlink()
    (sick.root("gpu01") / "home").mkdir()
    keys = sick.root("gpu01") / "etc/gpuaas/ssh"
    keys.parent.mkdir(exist_ok=True)
    keys.symlink_to("/tmp")
    done = sick.apply()
    assert done.code == 1, "its account stands, and its keys do not"
    assert sick.claims == {f"{REF}@gpu01/s0": "held"}
    keys.unlink()
    assert sick.apply().code == 0
    assert sick.recorded(REF).node == "gpu01"
