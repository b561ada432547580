"""A bare host enrolled as its operator does it: what is printed is pasted, nothing else is done."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.operations.node.bootstrap import bootstrap
from tests.harness.yard import Said, Yard
from tests.lab import example
from tests.lab.host import Host

pytestmark = pytest.mark.lab

CONTENT = """
find /etc /home /root -xdev -type f -newer /etc/os-release -printf '%p %m %u %s %T@\\n' | sort
"""


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    example.write(tmp_path / "fleet")
    yard = Yard(tmp_path / "fleet")
    assert yard.gpuaas("init").code == 0
    return yard


def go_on(yard: Yard, said: str, host: Host, *more: str) -> Said:
    """The command that the host ends with, given its address."""
    command = said.strip().splitlines()[-1].replace("ADDRESS", host.address)
    return yard.gpuaas(*shlex.split(command)[1:], "--name", "new", *more)


def test_a_bare_host_becomes_a_node(yard: Yard, hosts: Callable[[int], tuple[Host, ...]]) -> None:
    """INV-08, INV-14, INV-15: pasted twice, discovered by its own key; another host is not it."""
    (host,) = hosts(1)
    example.make_bare(host)
    lines = bootstrap(yard.fleet(), "ops")
    said = host.run("bash", given=lines).stdout
    assert host.machine_id() in said
    before = host.run(CONTENT).stdout
    assert host.run("bash", given=lines).stdout == said
    assert host.run(CONTENT).stdout == before, "the second time changes nothing"

    file = yard.specs / "nodes/new.yaml"
    found = go_on(yard, said, host, "--write", str(file))
    assert found.code == 0, found.document
    (node,) = found.document["result"]["documents"]
    assert node["spec"]["identity"]["machineId"] == host.machine_id()
    assert set(node["spec"]["identity"]["hostKeys"]) == set(host.host_keys())
    assert node["spec"]["ssh"] == {"user": "ops"}
    assert found.document["result"]["source"] == "standin"
    assert yard.gpuaas("validate").code == 0
    assert yard.plan("--refresh").code == 3, "nothing is placed on what nobody approved"
    shown = yard.gpuaas("node", "show", "new").document["result"]
    checks = {check["name"]: check["result"] for check in shown["readiness"]}
    assert checks.pop("walls") == "fail", "it was never prepared"
    assert set(checks.values()) == {"pass"}, checks
    assert {slot["state"] for slot in shown["slots"]} == {"not_approved"}

    again = yard.gpuaas("node", "discover", host.address)
    assert again.code == 0, "its keys stand in the specs now"
    assert "this machine is node new already" in again.told
    host.wipe()
    host.up()
    host.wait()
    other = yard.gpuaas("node", "discover", host.address)
    assert (other.code, other.problems) == (1, ["host_identity_changed"])
