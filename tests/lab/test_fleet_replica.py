"""The state is lost while people work: it comes back from its copy, and nobody notices."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from tests.harness.replica_process import replicating
from tests.lab.colony import ALLOCATIONS, Colony

pytestmark = pytest.mark.lab

SESSION = "pgrep -u {login} -f 'sleep 600'"


def test_the_state_is_lost_and_its_copy_is_enough(colony: Colony, tmp_path: Path) -> None:
    """F-STA-02 F-STA-11: plan refuses, the copy brings all of it back, and the next plan is empty.

    Sessions stay open with what runs in them, and no host is changed.
    """
    copy = tmp_path / "elsewhere"
    claims = colony.world.claims
    recorded = {ref: colony.recorded(f"allocation/{ref}") for ref in ALLOCATIONS}
    train = recorded["vision/train"]
    with colony.session("vision/train", "ana") as shell:
        where, trees = colony.host_of("vision/train"), colony.trees()
        pid = where.run(SESSION.format(login=train.login)).stdout
        with replicating(colony.folder, copy, "--to", str(copy)):
            assert colony.apply().code == 0, "others go on meanwhile"
            time.sleep(2.5)
        shutil.rmtree(colony.folder / "state")
        refused = colony.shell("plan")
        assert refused.returncode == 1 and "state restore" in refused.stderr

        back = colony.gpuaas("state", "restore", f"--from-replica={copy}")
        assert back.code == 0, back.messages
        plan = colony.plan("--refresh", "--detailed-exitcode")
        assert (plan.code, plan.actions, plan.plan["waves"]) == (0, {}, [])
        assert colony.apply().code == 0
        assert colony.trees() == trees
        assert where.run(SESSION.format(login=train.login)).stdout == pid != ""
        assert shell.poll() is None
        assert colony.enter("vision/train", "cem", "true").returncode == 0
    assert colony.world.claims == claims
    for ref, one in recorded.items():
        again = colony.recorded(f"allocation/{ref}")
        assert (again.id, again.login, again.slots) == (one.id, one.login, one.slots)
        assert (again.basis, again.commit, again.facts) == (one.basis, one.commit, one.facts)
    assert colony.gpuaas("state", "check").code == 0
    settled = colony.plan("--detailed-exitcode")
    assert (settled.code, settled.actions, settled.plan["confirmed"]) == (0, {}, [])
