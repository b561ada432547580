"""The state is lost while people work: it comes back from the hosts, and nobody notices."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.lab.colony import ALLOCATIONS, Colony
from tests.planner import fleet as paper

pytestmark = pytest.mark.lab

LOST, NEXT = (paper.allocation(name, node="c3") for name in ("lost", "next"))
SESSION = "pgrep -u {login} -f 'sleep 600'"
DOUBT = "node/c3"


@pytest.fixture(scope="module")
def blocked(colony: Colony) -> Iterator[int]:
    """A slot of c3 whose cleanup is blocked by a file, and its uid; of the rest nothing is left."""
    assert colony.change(LOST).code == 0
    held = colony.recorded("allocation/vision/lost")
    host = colony.machines["c3"]
    uid = int(host.run("id", "-u", held.login).stdout)
    host.run(f"echo left > /opt/left && chown {uid} /opt/left")
    done = colony.change(but=[LOST])
    assert (done.code, done.problems) == (1, ["cleanup_blocked"])
    assert held.id not in host.run("ls", "/etc/gpuaas/allocations").stdout
    yield uid
    assert set(colony.refs) == set(ALLOCATIONS)
    colony.rests()


def lose(colony: Colony) -> None:
    for name in ("gpuaas.db", "gpuaas.db-wal", "gpuaas.db-shm"):
        (colony.folder / "state" / name).unlink(missing_ok=True)


def test_the_state_is_lost_and_nobody_notices(colony: Colony, blocked: int) -> None:
    """Rule 21, F-STA-02: sessions stay open with what runs in them, and the next plan is empty.

    F-PLC-04, F-PLC-05: a slot whose cleanup the lost state knew to be blocked is given to nobody
    before its host was seen to be clean.
    """
    host = colony.machines["c3"]
    recorded = {ref: colony.recorded(f"allocation/{ref}") for ref in ALLOCATIONS}
    counters = colony.world.counters
    as_it = f"setpriv --reuid={blocked} --regid={blocked} --clear-groups"
    host.run(f"systemd-run --quiet --unit=stranger {as_it} sleep 700")
    train = recorded["vision/train"]
    with colony.session("vision/train", "ana") as shell:
        where, trees = colony.host_of("vision/train"), colony.trees()
        pid = where.run(SESSION.format(login=train.login)).stdout
        lose(colony)
        refused = colony.shell("plan")
        assert refused.returncode == 1 and "gpuaas state rebuild" in refused.stderr

        done = colony.gpuaas("state", "rebuild", "--yes")
        assert (done.code, done.problems) == (3, ["node_in_doubt"]), done.messages
        assert "sleep" in done.messages and "/opt/left" in done.messages, done.messages
        found = done.document["result"]["found"]
        assert {one["ref"]: one["verdict"] for one in found} == {
            f"allocation/{ref}": "as_applied" for ref in ALLOCATIONS
        }
        plan = colony.plan("--detailed-exitcode")
        assert (plan.code, plan.actions) == (0, {})
        assert colony.trees() == trees
        assert where.run(SESSION.format(login=train.login)).stdout == pid != ""
        assert shell.poll() is None
        assert colony.enter("vision/train", "cem", "true").returncode == 0
    for ref, one in recorded.items():
        again = colony.recorded(f"allocation/{ref}")
        assert (again.id, again.login, again.slots) == (one.id, one.login, one.slots)
        assert (again.basis, again.commit, again.facts) == (one.basis, one.commit, one.facts)
    assert colony.world.counters.last_uid > counters.last_uid
    assert colony.gpuaas("state", "check").code == 0


def test_its_slot_is_given_out_once_it_is_clean(colony: Colony, blocked: int) -> None:
    """F-PLC-04: every look of an apply asks again; what is found stands in the plan's way."""
    host = colony.machines["c3"]
    given = colony.change(NEXT)
    assert (given.code, given.blocked) == (3, {"allocation/vision/next": "sku_unavailable"})
    explained = colony.gpuaas("explain", "vision/next").document["result"]["candidates"]
    (refused,) = [one for one in explained if one["node"] == "c3"]
    assert refused["rule"] == "node_in_doubt"
    assert f"uid {blocked}" in refused["detail"]
    host.run("systemctl stop stranger")
    assert colony.apply().code == 3, "a file is left"
    host.run("rm /opt/left")
    done = colony.apply()
    assert (done.code, done.actions) == (0, {"allocation/vision/next": "create"})
    assert colony.world.doubts == ()
    uid = int(host.run("id", "-u", colony.recorded("allocation/vision/next").login).stdout)
    assert uid > blocked
    measured = colony.rows("SELECT after FROM event WHERE type = 'doubt_ended' AND ref = ?", DOUBT)
    checks = {check["name"] for (after,) in measured for check in json.loads(after)["checks"]}
    assert {"allocations", "paths", "tenants", "strangers"} <= checks
    assert colony.change(but=[NEXT]).code == 0
