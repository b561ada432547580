"""Node: isolation, identity, devices that belong to one slot, and approvals that hold."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest

from reconciler.kinds.approval import name_digests
from reconciler.kinds.node import node as node_kind
from reconciler.kinds.node.spec import NodeSpec, Ssh, control_login
from reconciler.model.codec import encode
from reconciler.model.problem import Severity
from reconciler.model.settings import Settings, SshSettings
from tests.kinds.sample import Fleet

PINNED = {
    "machineId": "0" * 32,
    "hostKeys": [
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIK3pAfboDwpZbiQ0JrdK3HF2oLx7KNeVeOWblSefFomR"
    ],
}


def codes(fleet: Fleet, ref: str = "node/gpu01") -> list[str]:
    return [problem.code for problem in fleet.problems(ref)]


def errors(fleet: Fleet, ref: str = "node/gpu01") -> list[str]:
    return [problem.code for problem in fleet.problems(ref) if problem.is_error]


def directory() -> Fleet:
    """gpu01 as a node of this machine."""
    fleet = Fleet()
    node = fleet["node/gpu01"]
    del node["identity"], node["publicAddress"], node["sharing"]
    node.update(isolation="directory", address="local", root="state/hosts/gpu01")
    approve(node)
    return fleet


def approve(node: dict[str, Any]) -> None:
    spec = node_kind.parse(node, "x")
    for approval in node["approvals"]:
        approval["digests"] = encode(name_digests(spec, approval["covers"]))


def typed(fleet: Fleet, ref: str = "node/gpu01") -> NodeSpec:
    spec: NodeSpec = fleet.resource(ref).spec
    return spec


def test_a_good_node_has_no_problem() -> None:
    assert codes(Fleet()) == codes(Fleet(), "node/gpu02") == codes(directory()) == []


@pytest.mark.parametrize("field", ["address", "publicAddress"])
@pytest.mark.parametrize("text", ["300.1.1.1", "a..b", "::::", "10.0.0.1:22", "gpu-.example"])
def test_an_address_that_is_none_is_told(field: str, text: str) -> None:
    """F-REAL-19."""
    fleet = Fleet()
    fleet["node/gpu01"][field] = text
    (problem,) = [one for one in fleet.problems("node/gpu01") if one.is_error]
    assert problem.code == "value_pattern" and text in problem.message


def test_a_uuid_with_a_slip_is_told() -> None:
    """F-REAL-19: a card by it would never show."""
    fleet = Fleet()
    fleet["node/gpu01"]["slots"][0]["gpu"]["uuid"] = "GPU-40b7b21a-8c48-4f0f-a2b8-51184c60985"
    assert "value_pattern" in errors(fleet)


def test_defaults_follow_the_isolation() -> None:
    spec = typed(Fleet(), "node/gpu02")
    assert (spec.sharing, spec.shapes, spec.public_address) == (
        "tenant",
        ("gpu_slice",),
        "10.0.0.12",
    )
    assert (spec.ssh.port, spec.ssh.user, spec.root) == (22, "", "/")
    assert typed(directory()).sharing == "any"


def test_equal_cpu_sets_are_spelt_alike() -> None:
    fleet = Fleet()
    fleet["node/gpu01"]["slots"][0]["cpus"] = "116-128,4,5,6-16"
    assert typed(fleet).slots[0].cpus == "4-16,116-128"
    assert codes(fleet) == [], "another spelling is no change of what was approved"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"identity": None}, "field_missing"),
        ({"root": "/srv/x"}, "field_forbidden"),
        ({"fabric": {"partitions": []}}, "field_forbidden"),
        ({"vm": {"image": "r.example/x@sha256:0", "bridge": "br0"}}, "field_forbidden"),
        ({"isolation": "vm"}, "field_missing"),
        ({"address": "local"}, "field_forbidden"),
    ],
)
def test_fields_go_with_the_isolation(change: dict[str, Any], code: str) -> None:
    """INV-06: what a way of isolating needs is there, and nothing that it does not know."""
    fleet = Fleet()
    node = fleet["node/gpu01"]
    for name, value in change.items():
        if value is None:
            del node[name]
        else:
            node[name] = value
    assert code in errors(fleet)


def test_a_directory_is_known_by_its_identity_wherever_it_is_reached_over_ssh() -> None:
    """INV-06: this machine needs none and may state none; any other is pinned like a host."""
    fleet = directory()
    node = fleet["node/gpu01"]
    node["identity"] = PINNED
    assert errors(fleet) == ["field_forbidden"]
    node.update(address="10.0.0.1", root="/srv/hosts/gpu01")
    assert errors(fleet) == []
    del node["identity"]
    assert errors(fleet) == ["field_missing"]


@pytest.mark.parametrize("address", ["local", "10.0.0.1"])
def test_a_directory_is_never_the_whole_machine(address: str) -> None:
    fleet = directory()
    node = fleet["node/gpu01"]
    del node["root"]
    node["address"] = address
    if address != "local":
        node["identity"] = PINNED
    assert errors(fleet) == ["field_missing"]


@pytest.mark.parametrize(
    ("address", "root", "is_safe"),
    [
        ("local", "state/hosts/gpu01", True),
        ("local", "/srv/hosts/gpu01", True),
        ("10.0.0.1", "/srv/hosts/gpu01", True),
        ("10.0.0.1", "state/hosts/gpu01", False),
        ("local", "state/../../etc", False),
        ("local", "/srv/..", False),
        ("local", "..", False),
    ],
)
def test_a_root_stays_in_its_place(address: str, root: str, is_safe: bool) -> None:
    """F-PAR-06: absolute, or below the fleet's folder on this machine; never upwards."""
    fleet = directory()
    fleet["node/gpu01"].update(address=address, root=root)
    if address != "local":
        fleet["node/gpu01"]["identity"] = PINNED
    assert errors(fleet) == ([] if is_safe else ["path_unsafe"])


@pytest.mark.parametrize(
    ("root", "is_apart"),
    [
        ("state/hosts/gpu02", True),
        ("state/hosts/gpu011", True),
        ("state/hosts/gpu01", False),
        ("./state//hosts/gpu01/", False),
        ("/fleet/state/hosts/gpu01", False),
        ("state/hosts/gpu01/inside", False),
    ],
)
def test_roots_lie_apart(root: str, is_apart: bool) -> None:
    """Two nodes in one folder would take each other's files for leftovers."""
    fleet = directory()
    node = fleet["node/gpu02"]
    del node["identity"]
    node.update(isolation="directory", address="local", root=root)
    assert errors(fleet, "node/gpu02") == ([] if is_apart else ["path_unsafe"])


def test_admin_states_say_why() -> None:
    fleet = Fleet()
    fleet["node/gpu01"]["admin"] = {"state": "draining"}
    assert errors(fleet) == ["field_missing"]
    fleet["node/gpu01"]["admin"] = {"state": "lost", "reason": "burnt"}
    assert "attestedBy" in fleet.only("node/gpu01").hint
    fleet["node/gpu01"]["admin"] |= {"attestedBy": "olga", "until": "2027-02-30T00:00:00Z"}
    assert errors(fleet) == ["value_pattern"]


def test_one_machine_is_one_node() -> None:
    """F: a file copied from another node's; both of them say so."""
    fleet = Fleet()
    fleet["node/gpu02"]["identity"]["machineId"] = fleet["node/gpu01"]["identity"]["machineId"]
    assert errors(fleet) == errors(fleet, "node/gpu02") == ["machine_id_taken"]


def test_one_host_key_is_one_host() -> None:
    """Rule 8: who has its private half passes for both; folders of one machine share its key."""
    fleet = Fleet()
    one, other = (fleet[f"node/gpu0{number}"] for number in (1, 2))
    other["identity"]["hostKeys"] = [*other["identity"]["hostKeys"], *one["identity"]["hostKeys"]]
    assert errors(fleet) == errors(fleet, "node/gpu02") == ["host_key_taken"]
    (problem,) = (one for one in fleet.problems("node/gpu02") if one.is_error)
    assert "node gpu01 as well" in problem.message
    folder = directory()
    folder["node/gpu01"].update(address="10.0.0.12", root="/srv/gpu01", identity=PINNED)
    folder["node/gpu02"]["identity"]["hostKeys"] = PINNED["hostKeys"]
    assert errors(folder) == errors(folder, "node/gpu02") == []


def test_gpus_are_of_the_family() -> None:
    """INV-13: model and memory of every slot are those of the node's family."""
    fleet = Fleet()
    fleet["node/gpu01"]["slots"][1]["gpu"]["memoryMiB"] = 40960
    assert errors(fleet) == ["family_mismatch"]
    fleet.remove("node_family/h100-sxm")
    assert errors(fleet) == [], "a family that is not there is a dangling reference, once"


def share(path: tuple[str, ...]) -> Fleet:
    """Slot s1 gets what s0 has at `path`."""
    fleet = Fleet()
    first, second = fleet["node/gpu01"]["slots"]
    for part in path[:-1]:
        first, second = first[part], second.setdefault(part, copy.deepcopy(first[part]))
    second[path[-1]] = first[path[-1]]
    return fleet


@pytest.mark.parametrize(
    "path",
    [
        ("gpu", "uuid"),
        ("gpu", "pciAddress"),
        ("nvme", "id"),
        ("nic", "pciAddress"),
        ("cpus",),
    ],
)
def test_a_device_is_in_one_slot(path: tuple[str, ...]) -> None:
    """INV-01, INV-02, INV-03, INV-05: GPU, disk, network card and CPUs are in one slot only."""
    problem = next(p for p in share(path).problems("node/gpu01") if p.is_error)
    assert problem.code == "slot_overlap"
    assert problem.source and problem.source.path == ("spec", "slots", "s1", *path)
    assert "s0" in problem.message and "s1" in problem.message


def test_a_gpu_and_a_card_do_not_share_an_address() -> None:
    """INV-03: the address of a GPU is no address of a network card."""
    fleet = Fleet()
    first, second = fleet["node/gpu01"]["slots"]
    first["nic"]["pciAddress"] = second["gpu"]["pciAddress"]
    assert errors(fleet) == ["slot_overlap"]


def test_a_gpu_is_in_one_node() -> None:
    """INV-01: the fleet knows a GPU once; buses and disks of two hosts may be called alike."""
    fleet = Fleet()
    first, second = fleet["node/gpu01"]["slots"][0], fleet["node/gpu02"]["slots"][0]
    assert first["gpu"]["pciAddress"] == second["gpu"]["pciAddress"]
    second["gpu"]["uuid"] = first["gpu"]["uuid"]
    for ref, other in (("node/gpu01", "gpu02"), ("node/gpu02", "gpu01")):
        (problem,) = [p for p in fleet.problems(ref) if p.is_error]
        assert problem.code == "slot_overlap"
        assert other in problem.message


def test_the_reserve_is_nobodys() -> None:
    """INV-05: CPUs kept for the host are in no slot."""
    fleet = Fleet()
    fleet["node/gpu01"]["reserve"]["cpus"] = "0-5"
    problem = fleet.only("node/gpu01")
    assert problem.code == "slot_overlap"
    assert "CPUs 4-5 of slot s0 belong to the reserve" in problem.message


def test_cpu_sets_run_forwards() -> None:
    """INV-05: a set that cannot be read is refused, and read as nothing else."""
    fleet = Fleet()
    fleet["node/gpu01"]["slots"][0]["cpus"] = "16-4"
    assert errors(fleet) == ["value_pattern"]


def test_partitions_are_of_known_slots() -> None:
    fleet = Fleet()
    node = fleet["node/gpu01"]
    node.update(isolation="vm", vm={"image": "r.example/x@sha256:0", "bridge": "br0"})
    node["fabric"] = {"partitions": [{"id": 1, "slots": ["s0", "s9"]}]}
    assert errors(fleet) == ["dangling_reference"]


def test_host_is_no_slot() -> None:
    fleet = Fleet()
    fleet["node/gpu01"]["slots"][0]["name"] = "host"
    assert "name_reserved" in errors(fleet)


def test_approvals_are_of_operators_over_known_names() -> None:
    """INV-07, INV-16: who approves is an operator, and what is approved is there."""
    fleet = Fleet(operators=("otto",))
    assert errors(fleet) == ["approval_unsound"]
    fleet = Fleet()
    (approval,) = fleet["node/gpu01"]["approvals"]
    approval["covers"].append("s7")
    approval["digests"] += [{"name": "s7", "digest": "sha256:" + "0" * 64}]
    assert errors(fleet) == ["approval_unsound"]
    assert "s7" in str(fleet.problems("node/gpu01")[0].message)


IDENTITY = [
    ("", lambda node: node["identity"].update(machineId="1" * 32)),
    ("s0 s1", lambda node: node["identity"].update(serial="other")),
    ("s0 s1", lambda node: node.update(shapes=["gpu_slice"])),
    ("host s1", lambda node: node["slots"][0]["gpu"].update(uuid="GPU-other")),
    ("host s1", lambda node: node["slots"][0].update(numa=1)),
    ("host s1", lambda node: node["slots"][0].update(cpus="4-15,116-127")),
    ("host s1", lambda node: node["slots"][0].update(memoryGiB=223)),
    ("host s1", lambda node: node["slots"][0].pop("nvme")),
    ("host s1", lambda node: node["slots"][0]["nic"].update(rdma=False)),
]
OTHER = [
    lambda node: node.update(address="10.9.9.9"),
    lambda node: node.update(reserve={"cpus": "0-3", "memoryGiB": 8}),
    lambda node: node.update(admin={"state": "draining", "reason": "driver"}),
    lambda node: node["slots"][0].update(disabled={"reason": "Xid 79"}),
    lambda node: node["slots"].reverse(),
    lambda node: node.update(shapes=["gpu_slice", "baremetal"]),
]


@pytest.mark.parametrize(("stays", "change"), IDENTITY)
def test_an_approval_falls_with_what_it_covers(stays: str, change: Any) -> None:
    """INV-04, INV-07, F-REAL-23: whoever edits a slot takes its approval away, and no other's."""
    fleet = Fleet()
    change(fleet["node/gpu01"])
    (stale,) = [p for p in fleet.problems("node/gpu01") if p.code == "approval_stale"]
    assert stale.severity is Severity.WARNING
    spec = typed(fleet)
    assert node_kind.approved_names(spec) == set(stays.split())
    fallen = [name for name in spec.approvals[0].covers if name not in stays.split()]
    assert stale.message.endswith(": " + ", ".join(fallen))
    anew = node_kind.approval_digest(spec, fallen)
    assert anew in stale.hint, "the hint is all that a new approval needs"


@pytest.mark.parametrize(("stays", "change"), IDENTITY)
def test_one_digest_of_all_falls_as_a_whole(stays: str, change: Any) -> None:
    """INV-07: of one digest nobody can tell which name has changed, so none counts."""
    fleet = Fleet()
    (approval,) = fleet["node/gpu01"]["approvals"]
    del approval["digests"]
    approval["digest"] = node_kind.approval_digest(typed(fleet), approval["covers"])
    assert node_kind.approved_names(typed(fleet)) == {"host", "s0", "s1"}
    change(fleet["node/gpu01"])
    assert node_kind.approved_names(typed(fleet)) == frozenset()
    assert "approval_stale" in codes(fleet)


def test_an_approval_has_one_digest_or_one_a_name() -> None:
    """F-REAL-23: none approves nothing, and a name without its own is not approved."""
    fleet = Fleet()
    (approval,) = fleet["node/gpu01"]["approvals"]
    approval["digest"] = "sha256:" + "0" * 64
    assert errors(fleet) == ["field_forbidden"]
    digests = approval.pop("digests")
    del approval["digest"]
    assert errors(fleet) == ["field_missing"]
    assert node_kind.approved_names(typed(fleet)) == frozenset()
    approval["digests"] = [one for one in digests if one["name"] != "s1"]
    assert errors(fleet) == ["approval_unsound"]
    assert node_kind.approved_names(typed(fleet)) == {"host", "s0"}


@pytest.mark.parametrize("change", OTHER)
def test_an_approval_holds_otherwise(change: Any) -> None:
    fleet = Fleet()
    change(fleet["node/gpu01"])
    assert codes(fleet) == []
    assert node_kind.approved_names(typed(fleet)) == {"host", "s0", "s1"}


def test_the_newest_covering_approval_counts() -> None:
    """INV-07: an old approval never lets pass what a newer one did not."""
    fleet = Fleet()
    node = fleet["node/gpu01"]
    newer = {
        "by": "olga",
        "at": "2026-11-25T00:00:00+01:00",
        "covers": ["s0"],
        "digest": "sha256:0",
    }
    node["approvals"].append(newer)
    assert node_kind.approved_names(typed(fleet)) == {"host", "s1"}
    newer["digest"] = node_kind.approval_digest(typed(fleet), ["s0"])
    assert node_kind.approved_names(typed(fleet)) == {"host", "s0", "s1"}
    node["slots"][1]["numa"] = 1
    assert node_kind.approved_names(typed(fleet)) == {"host", "s0"}


def test_no_approval_no_slot() -> None:
    """INV-07, INV-08: what is described is not approved by being described."""
    fleet = Fleet()
    fleet["node/gpu01"]["approvals"] = []
    assert node_kind.approved_names(typed(fleet)) == frozenset()
    assert codes(fleet) == []


def test_a_digest_is_of_the_names_not_of_their_order() -> None:
    spec = typed(Fleet())
    one = node_kind.approval_digest(spec, ["host", "s0", "s1"])
    assert node_kind.approval_digest(spec, ["s1", "host", "s0"]) == one
    assert node_kind.approval_digest(spec, ["host", "s0"]) != one
    assert node_kind.approval_digest(spec, ["host", "s0", "s9"]) != one


def test_what_this_version_cannot_do_yet() -> None:
    assert Fleet().unsupported("node/gpu01") == ""
    fleet = directory()
    assert fleet.unsupported("node/gpu01") == ""
    for state in ("evacuating", "lost"):
        fleet["node/gpu01"]["admin"] = {"state": state, "reason": "x", "attestedBy": "olga"}
        assert fleet.unsupported("node/gpu01") == ""
    fleet["node/gpu01"].update(address="10.0.0.1", root="/srv", admin={})
    assert fleet.unsupported("node/gpu01") == ""


def test_the_control_login_is_the_nodes_own_else_the_fleets() -> None:
    """`ssh.user` of gpuaas.yaml counts where a node does not say."""
    spec = replace(typed(Fleet()), ssh=Ssh())
    fleet = Settings(folder="/fleet", operators=("olga",), ssh=SshSettings(user="ops"))
    plain = Settings(folder="/fleet", operators=("olga",))
    assert (control_login(spec, plain), control_login(spec, fleet)) == ("gpuaas", "ops")
    own = replace(spec, ssh=Ssh(user="root"))
    assert control_login(own, fleet) == "root"


@pytest.mark.parametrize("key", ["ssh-ed25519 AAAA", "ssh-ed25519 AAAAA", f"ssh-rsa {'A' * 64}"])
def test_what_is_no_key_pins_no_host(key: str) -> None:
    """F-REAL-19: nothing that answers there could ever show it."""
    fleet = Fleet()
    fleet["node/gpu01"]["identity"] = {**PINNED, "hostKeys": [key]}
    assert "value_pattern" in errors(fleet)
