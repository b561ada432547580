"""The main journey by the real Ansible: given, drifted, repaired, taken away and given anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.yard import Yard, two_hosts
from tests.planner import fleet as paper

pytestmark = [pytest.mark.walk, pytest.mark.ansible]

REF = "allocation/vision/train"
TRAIN = paper.allocation(
    "train", "slice-2", node="gpu01", access=["ana", "bo"], expiresAt=paper.LASTING
)
NEXT = paper.allocation("next", "slice-2", node="gpu01", access=["ana"], expiresAt=paper.LASTING)


def done(yard: Yard, *words: str) -> list[str]:
    said = yard.apply(*words)
    assert said.code == 0, said.document["problems"]
    refs: list[str] = said.document["result"]["done"]
    return refs


def test_from_a_first_plan_to_the_next_person(tmp_path: Path) -> None:
    yard = two_hosts(tmp_path)
    planned = yard.plan("--refresh").actions
    assert planned[REF] == "create"
    assert REF in done(yard)
    train = yard.recorded(REF)
    assert yard.keys(REF) == ["ana/desk", "ana/laptop", "bo/desk", "bo/laptop"]

    runs, hosts = yard.runs, yard.hosts()
    assert yard.plan("--refresh").actions == {}
    assert done(yard) == [] and (yard.runs, yard.hosts()) == (runs, hosts)

    keys = yard.root("gpu01") / f"etc/gpuaas/ssh/{train.login}"
    ours = keys.read_text()
    keys.write_text(f"{ours}ssh-ed25519 AAAA eve\n")
    assert yard.plan("--refresh").actions[REF] == "repair"
    done(yard)
    assert keys.read_text() == ours

    yard.remove(TRAIN)
    assert yard.plan().actions == {REF: "release"}
    assert done(yard) == [REF]
    proofs = "SELECT slot, passed FROM proof WHERE allocation_id = ? ORDER BY slot"
    assert yard.rows(proofs, train.id) == [("s0", 1), ("s1", 1)]
    assert not keys.exists()

    yard.write(NEXT)
    yard.commit()
    assert done(yard) == ["allocation/vision/next"]
    assert yard.keys("allocation/vision/next") == ["ana/desk", "ana/laptop"]
    assert set(yard.claims) == {
        "allocation/vision/next@gpu01/s0",
        "allocation/vision/next@gpu01/s1",
        "allocation/vision/solo@gpu02/s0",
    }
    assert len(yard.runs) == 4
