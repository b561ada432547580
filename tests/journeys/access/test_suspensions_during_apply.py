"""Suspensions while an apply is at work: at once where it is not, and by it where it is."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.harness.applied_fleet import BO, CEM, TRAIN
from tests.harness.crash import kill
from tests.harness.hanging_host import Apply, hanging, until
from tests.harness.yard import Yard, copy_of
from tests.journeys.access.test_key_files import SOLO_REF, TRAIN_REF
from tests.operations.access.test_suspend import users

pytestmark = pytest.mark.walk

BOX_REF = "allocation/nlp/box"
SHUT = ("suspend", "user/bo", "--reason", "lost a laptop")
KEPT = {**CEM, "spec": {**CEM["spec"], "keys": CEM["spec"]["keys"][:1]}}
"""One key less of somebody who has one on gpu01 and on gpu02."""


def is_all_well(yard: Yard) -> None:
    assert yard.world.revocations == ()
    assert yard.plan("--detailed-exitcode").actions == {}
    assert yard.gpuaas("state", "check").code == 0


def test_hosts_at_work_are_told_by_the_apply(
    yard: Yard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-REAL-24: recorded and carried to every other host at once; what is left is pending."""
    yard.write(KEPT)
    yard.commit()
    with hanging(monkeypatch, tmp_path / "hang", "gpu01") as let_go:
        at_work = Apply(yard)
        until(lambda: (tmp_path / "hang/begun-gpu01").exists())
        until(lambda: {step.node for step in yard.world.open_steps} == {"gpu01"})
        began = time.monotonic()
        said = yard.gpuaas(*SHUT)
        assert time.monotonic() - began < 60 and at_work.is_at_work
        assert (said.code, said.problems) == (1, ["revocation_under_way"])
        assert said.document["result"]["done"] == [BOX_REF, SOLO_REF]
        assert "bo" not in users(yard, SOLO_REF) | users(yard, BOX_REF)
        assert "bo" in users(yard, TRAIN_REF)
        (pending,) = yard.world.revocations
        assert (pending.node, pending.people) == ("gpu01", ("bo", "cem/desk"))
        assert "revocation_pending" in {o["code"] for o in yard.gpuaas("doctor").document["result"]}
        let_go()
        done = at_work.end()
        assert done.problems == ()
    assert users(yard, TRAIN_REF) == {"ana", "cem"}
    assert "cem/desk" not in yard.keys(TRAIN_REF)
    is_all_well(yard)


def test_who_moves_meanwhile_is_shut_out_at_the_new_place(
    yard: Yard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-REAL-24: made for them by a step that knew nothing of it, and put right before the next."""
    yard.write({**TRAIN, "spec": {**TRAIN["spec"], "sku": "slice-1", "node": "gpu02"}})
    yard.commit()
    with hanging(monkeypatch, tmp_path / "hang", "gpu02") as let_go:
        at_work = Apply(yard)
        until(lambda: (tmp_path / "hang/begun-gpu02").exists())
        said = yard.gpuaas(*SHUT)
        assert (said.code, said.problems) == (1, ["revocation_under_way"])
        assert said.document["result"]["done"] == [BOX_REF, TRAIN_REF], "and SOLO by the apply"
        let_go()
        assert at_work.end().problems == ()
    assert yard.recorded(TRAIN_REF).node == "gpu02"
    assert users(yard, TRAIN_REF) == {"ana", "cem"} and "bo" not in users(yard, SOLO_REF)
    is_all_well(yard)


def test_who_is_new_on_a_host_at_work_is_shut_out_when_it_is_done(
    before: Yard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-REAL-24: what was made for them before the word came is put right by the same apply."""
    yard = copy_of(before, tmp_path / "fleet")
    with hanging(monkeypatch, tmp_path / "hang", "gpu01") as let_go:
        at_work = Apply(yard)
        until(lambda: yard.recorded(SOLO_REF) and yard.recorded(BOX_REF))
        until(lambda: (tmp_path / "hang/begun-gpu01").exists())
        assert yard.gpuaas(*SHUT).code == 0
        assert "bo" not in users(yard, SOLO_REF)
        let_go()
        assert at_work.end().problems == ()
    assert users(yard, TRAIN_REF) == {"ana", "cem"}
    is_all_well(yard)


@pytest.mark.parametrize(
    "stop",
    [f"{what}_revocation.{end}" for what in ("begin", "finish") for end in ("before", "after")],
)
def test_what_is_killed_beside_an_apply_is_finished_by_the_next(
    yard: Yard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: str
) -> None:
    """F-REAL-24, F-STA-01: it is on the books, and a host is told of it by whoever comes next."""
    yard.write(KEPT)
    yard.commit()
    with hanging(monkeypatch, tmp_path / "hang", "gpu01") as let_go:
        at_work = Apply(yard)
        until(lambda: {step.node for step in yard.world.open_steps} == {"gpu01"})
        kill(yard, SHUT, stop)
        assert [one.scope for one in yard.world.suspensions] == ["user/bo"]
        let_go()
        assert at_work.end().problems == ()
    assert yard.apply().code == 0
    for ref in (SOLO_REF, TRAIN_REF, BOX_REF):
        assert "bo" not in users(yard, ref)
    is_all_well(yard)
    assert BO
