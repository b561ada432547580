"""Enrolling: from the keys that a host shows to a Node that waits for its approval."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.hosts.ssh import discover as ssh_discover
from reconciler.kinds.access.ssh_key import SshKey, listed, parse_public_key
from reconciler.model.host.evidence import NodeFacts
from reconciler.model.plan.work import Host
from reconciler.model.problem import Problem, ProblemError
from reconciler.operations.node.enroll import Discovered, Target, discover, propose_node, write
from reconciler.operations.observe import run_options
from reconciler.operations.specs import read_desired
from reconciler.specs.read.yaml_reader import read_documents
from tests.fleets import public_key
from tests.harness.sshd import Sshd, needs_sshd, sshd
from tests.harness.yard import Yard, laid
from tests.lab import server
from tests.planner import fleet as paper

KEY = " ".join(public_key("gpu09").split()[:2])
MACHINE = "c" * 32


@pytest.fixture(scope="module")
def facts(yard: Yard, tmp_path_factory: pytest.TempPathFactory) -> NodeFacts:
    """What a labelled stand-in of a server with eight cards tells the real observe code."""
    root = tmp_path_factory.mktemp("host")
    own = {
        "etc/machine-id": f"{MACHINE}\n",
        "etc/os-release": 'ID=debian\nVERSION_ID="12"\n',
        "etc/ssh/ssh_host_ed25519_key.pub": f"{KEY} root@gpu09\n",
        "proc/sys/kernel/osrelease": "6.1.0-28-amd64\n",
        "proc/self/mounts": "/dev/nvme8n1p1 / ext4 rw 0 0\n",
        "proc/net/route": "Iface\tDestination\n",
    }
    files = {**server.every_host(), **server.one_host("gpu09"), **own}
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    links = {**server.links_of_every_host(), **server.links_of_one_host("gpu09")}
    for path, target in links.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        os.symlink(target, root / path)
    (root / "usr/bin/nvidia-smi").chmod(0o755)
    host = Host(node="gpu09", address="local", root=str(root), isolation="directory")
    seen = ssh_discover.discover(host, run_options(yard.fleet()), at=yard.fleet().now())
    assert seen.facts is not None, seen.message
    return seen.facts


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Yard:
    return laid(tmp_path_factory.mktemp("fleet"), {"gpu01": 2})


@pytest.fixture
def own(yard: Yard, tmp_path: Path) -> Yard:
    """A fleet of its own, for a test that writes."""
    return laid(tmp_path / "fleet", {"gpu01": 2})


def target(**more: object) -> Target:
    fields = {"address": "gpu09.corp.example", "name": "gpu09", "host_keys": (KEY,), **more}
    return Target(**fields)  # type: ignore[arg-type]


def proposed(yard: Yard, facts: NodeFacts, **more: object) -> Discovered:
    return propose_node(read_desired(yard.fleet()), target(**more), facts)


def refused(problem: pytest.ExceptionInfo[ProblemError]) -> Problem:
    (only,) = problem.value.problems
    return only


# -- what is proposed


def test_a_proposal_is_a_spec_that_validates_and_gives_out_nothing(
    own: Yard, facts: NodeFacts
) -> None:
    """INV-14, INV-08: written into the tree as it is, it is sound; its slots are not approved."""
    found = proposed(own, facts)
    assert [one["kind"] for one in found.documents] == ["Node"]
    assert found.source == "standin"
    assert "TEST STAND-IN" in found.yaml
    (read,) = read_documents("x", found.yaml.encode()).documents
    assert read.document.value == found.documents[0]
    assert write(own.fleet(), found, own.specs / "fleet/gpu09.yaml") == "specs/fleet/gpu09.yaml"
    validated = own.gpuaas("validate")
    assert validated.code == 0, validated.document
    (node,) = (n for n in read_desired(own.fleet()).of("node") if n.ref.name == "gpu09")
    assert len(node.spec.slots) == 8
    assert node.spec.identity.machine_id == MACHINE
    assert KEY in node.spec.identity.host_keys
    assert node.spec.approvals == ()
    shown = own.gpuaas("node", "show", "gpu09").document["result"]
    assert {slot["state"] for slot in shown["slots"]} == {"not_approved"}


def test_how_it_is_reached_is_stated_where_it_is_unusual(yard: Yard, facts: NodeFacts) -> None:
    assert "ssh" not in proposed(yard, facts, user="gpuaas").documents[0]["spec"]
    unusual = proposed(yard, facts, user="ops", port=2222).documents[0]["spec"]
    assert unusual["ssh"] == {"port": 2222, "user": "ops"}


def test_a_family_that_is_missing_is_proposed_too(own: Yard, facts: NodeFacts) -> None:
    """Model, memory, system and driver are those of the host; a name is made from the model."""
    own.remove(paper.family())
    found = proposed(own, facts)
    family, node = found.documents
    assert family["metadata"]["name"] == node["spec"]["family"] == "nvidia-h100-80gb-hbm3"
    assert family["spec"] == {
        "gpu": {"vendor": "nvidia", "model": server.MODEL, "memoryMiB": server.MEMORY_MIB},
        "base": {"os": ["debian-12"], "driverBranches": ["580"]},
    }
    assert any("no NodeFamily fits" in note for note in found.notes)
    assert proposed(own, facts, family="h100").documents[0]["metadata"]["name"] == "h100"
    write(own.fleet(), found, own.specs / "gpu09.yaml")
    problems = own.gpuaas("validate").document["problems"]
    assert not [one for one in problems if one["source"]["file"] == "specs/gpu09.yaml"]


def test_of_two_families_the_operator_chooses(own: Yard, facts: NodeFacts) -> None:
    own.write(paper.family("h100-b"))
    with pytest.raises(ProblemError) as problem:
        proposed(own, facts)
    assert refused(problem).code == "family_unclear"
    assert "h100, h100-b" in refused(problem).hint
    assert proposed(own, facts, family="h100-b").documents[0]["spec"]["family"] == "h100-b"


def test_a_machine_that_is_in_the_specs_keeps_its_name(own: Yard, facts: NodeFacts) -> None:
    """Rule 8: a second node of one machine would be refused (machine_id_taken)."""
    write(own.fleet(), proposed(own, facts), own.specs / "gpu09.yaml")
    again = proposed(own, facts, name="gpu10", address="10.0.0.9")
    assert again.name == again.documents[0]["metadata"]["name"] == "gpu09"
    assert any("is node gpu09 already, in specs/gpu09.yaml" in note for note in again.notes)
    liar = proposed(own, facts, name="gpu10", host_keys=(" ".join(public_key("x").split()[:2]),))
    assert not any("put what changed there" in note for note in liar.notes)
    assert any("has none of its host keys: any host could say so" in note for note in liar.notes)
    moved = replace(facts, machine_id="d" * 32)
    other = proposed(own, moved, name="gpu10")
    assert any("slot s0 of node gpu09: moved?" in note for note in other.notes)
    taken = proposed(own, moved)
    assert any("gpu09 is taken by another machine" in note for note in taken.notes)
    write(own.fleet(), replace(again, documents=_renamed(again)), own.specs / "twice.yaml")
    assert "machine_id_taken" in own.gpuaas("validate").problems


def _renamed(found: Discovered) -> tuple[dict[str, object], ...]:
    return ({**found.documents[-1], "metadata": {"name": "gpu11"}},)


@pytest.mark.parametrize(
    ("lack", "said"),
    [
        ({"machine_id": ""}, "its machine id"),
        ({"gpus": None}, "a card that a slot can be made of"),
        ({"topology": None}, "a card that a slot can be made of"),
    ],
)
def test_what_is_no_node_is_not_printed_as_one(
    yard: Yard, facts: NodeFacts, lack: dict[str, object], said: str
) -> None:
    with pytest.raises(ProblemError) as problem:
        proposed(yard, replace(facts, **lack))  # type: ignore[arg-type]
    assert refused(problem).code == "discovery_incomplete"
    assert said in refused(problem).message


def test_what_a_card_lacks_is_noted(yard: Yard, facts: NodeFacts) -> None:
    assert facts.gpus is not None
    found = proposed(yard, replace(facts, gpus=facts.gpus[1:]))
    assert len(found.documents[0]["spec"]["slots"]) == 7
    assert any("its driver does not answer for it" in note for note in found.notes)


def test_an_address_is_no_name(yard: Yard) -> None:
    with pytest.raises(ProblemError) as problem:
        discover(yard.fleet(), Target(address="10.0.0.9"), lambda keys: True)
    assert refused(problem).code == "usage"
    assert "--name" in refused(problem).hint


# -- whom to believe


@pytest.fixture(scope="module")
def server_of_ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with sshd(tmp_path_factory.mktemp("sshd")) as running:
        yield running


@pytest.fixture
def reached(own: Yard, server_of_ours: Sshd) -> Yard:
    settings = own.folder / "gpuaas.yaml"
    key = f"ssh: {{identityFile: {server_of_ours.login_key}, user: root}}\n"
    settings.write_text(settings.read_text() + key)
    return own


def at(server_of_ours: Sshd, **more: object) -> Target:
    return target(address="127.0.0.1", port=server_of_ours.port, **{"host_keys": (), **more})


def ask(yard: Yard, wanted: Target, *, yes: bool = False) -> tuple[str, list[str]]:
    """The code of the refusal, and the keys that a person was asked about.

    This machine has no cards: whoever gets so far has logged in.
    """
    asked: list[str] = []

    def confirm(keys: tuple[str, ...]) -> bool:
        asked.extend(keys)
        return yes

    with pytest.raises(ProblemError) as problem:
        discover(yard.fleet(), wanted, confirm)
    return refused(problem).code, asked


@needs_sshd
def test_an_unseen_key_is_shown_and_refused(reached: Yard, server_of_ours: Sshd) -> None:
    """Rule 8, F-ANS-02: as `ssh-keygen -lf` shows it; no session was opened meanwhile."""
    before = len(server_of_ours.sessions)
    code, asked = ask(reached, at(server_of_ours))
    assert code == "host_key_unseen"
    public = server_of_ours.folder / "host_key.pub"
    shown = subprocess.check_output(["ssh-keygen", "-lf", public], text=True).strip()
    assert asked == [shown.replace(" test ", " 127.0.0.1 ")]
    assert len(server_of_ours.sessions) == before


@needs_sshd
def test_a_key_that_was_confirmed_or_given_is_believed(reached: Yard, server_of_ours: Sshd) -> None:
    key = parse_public_key(server_of_ours.host_key)
    assert isinstance(key, SshKey)
    in_cards = ("discovery_incomplete", [])
    assert ask(reached, at(server_of_ours), yes=True)[0] == "discovery_incomplete"
    assert ask(reached, at(server_of_ours, accept_shown=True)) == in_cards
    assert ask(reached, at(server_of_ours, host_keys=(server_of_ours.host_key,))) == in_cards
    assert ask(reached, at(server_of_ours, host_keys=(key.fingerprint,))) == in_cards


@needs_sshd
def test_another_key_than_the_one_given_is_another_host(
    reached: Yard, server_of_ours: Sshd
) -> None:
    """F-ANS-02: whether a whole key or a fingerprint was given, and whoever would say yes."""
    before = len(server_of_ours.sessions)
    given = {"host_keys": (KEY,), "accept_shown": True}
    assert ask(reached, at(server_of_ours, **given), yes=True) == ("host_identity_changed", [])
    other = parse_public_key(KEY)
    assert isinstance(other, SshKey)
    given = {"host_keys": (other.fingerprint,), "accept_shown": True}
    assert ask(reached, at(server_of_ours, **given), yes=True) == ("host_key_unseen", [])
    assert len(server_of_ours.sessions) == before


@needs_sshd
def test_the_keys_in_the_specs_are_known(reached: Yard, server_of_ours: Sshd) -> None:
    """Nobody is asked about a host that is enrolled; with another key it is refused."""

    def enrolled(key: str) -> tuple[str, list[str]]:
        identity = {"machineId": MACHINE, "hostKeys": [key]}
        port = {"port": server_of_ours.port, "user": "root"}
        ours = paper.node("gpu07", 1, isolation="account", identity=identity, ssh=port)
        del ours["spec"]["root"]
        ours["spec"]["address"] = "127.0.0.1"
        reached.write(ours)
        return ask(reached, at(server_of_ours, user=""), yes=True)

    assert enrolled(server_of_ours.host_key) == ("discovery_incomplete", [])
    assert enrolled(KEY) == ("host_identity_changed", [])


@pytest.mark.parametrize("sort", ["ed25519", "rsa -b 2048", "rsa -b 3072", "ecdsa -b 384"])
def test_keys_are_listed_as_ssh_keygen_lists_them(sort: str, tmp_path: Path) -> None:
    make = ["ssh-keygen", "-q", "-N", "", "-C", "root@x", "-f", tmp_path / "k", "-t", *sort.split()]
    subprocess.run(make, check=True)
    key = parse_public_key((tmp_path / "k.pub").read_text().strip())
    assert isinstance(key, SshKey)
    listing = ["ssh-keygen", "-lf", tmp_path / "k.pub"]
    assert listed(key, "root@x") == subprocess.check_output(listing, text=True).strip()
