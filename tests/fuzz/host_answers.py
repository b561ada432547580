"""Any bytes as what a host answers: facts, receipts, descriptors, keys and last words.

Whatever they are, they are refused by the one error of their reader, or they are data: what is made
of them for people is a few plain lines, what is made of them for git reads back as it was, and a
host that lies is believed in nothing but what it says of itself.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass, replace
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType
from typing import Any

from reconciler.cli.text import TextLine, line, render
from reconciler.cli.views import fleet as fleet_view
from reconciler.cli.views import node as node_view
from reconciler.cli.views import plan_json, plan_text
from reconciler.cli.views import problems as problems_view
from reconciler.hosts.ansible import supervisor
from reconciler.hosts.ansible.events import Played, answer_of
from reconciler.hosts.ansible.receipts import plain, receipts_of
from reconciler.hosts.answers import AnswerError, read_answer
from reconciler.hosts.ssh import discover
from reconciler.hosts.ssh.ssh import why_no_root, why_not_reached
from reconciler.kinds.node.host import hardening
from reconciler.model.canonical import canonical, digest
from reconciler.model.codec import camel, decode, encode
from reconciler.model.codes import CODES
from reconciler.model.host.capacity import ClaimState
from reconciler.model.host.descriptor import read_descriptor
from reconciler.model.host.evidence import GpuFact, NodeFacts, Observation
from reconciler.model.host.signed_record import RecordError
from reconciler.model.host.topology import Card, Drive, Nic, NumaNode, Topology
from reconciler.model.host.volume_record import read_volume_record
from reconciler.model.moment import format_moment
from reconciler.model.plan.plan import Order, Step
from reconciler.model.plan.work import Host, HostWork
from reconciler.model.problem import Problem, ProblemError
from reconciler.model.state.world import World
from reconciler.operations.inventory.allocations import allocation_rows
from reconciler.operations.inventory.stock import node_rows, slot_rows, take_stock
from reconciler.operations.node.enroll import Target, propose_node
from reconciler.operations.node.show import NodeShown
from reconciler.planner.placement.inventory import read_offers
from reconciler.planner.placement.readiness import readiness
from reconciler.planner.proof.checks import TOLERANCE_MIB, Devices, Inventory
from reconciler.planner.proof.rules import prove
from reconciler.planner.proof.verify_step import judge
from reconciler.specs.read.yaml_reader import read_documents
from tests.harness.directory_host import PLAYBOOKS, REF, RELEASE, step
from tests.harness.items import make_item
from tests.hosts.test_evidence import FULL, HOSTILE
from tests.kinds.node.test_proposal import KEY, four_cards
from tests.planner import fleet as paper
from tests.planner.walk import make_plan, settled
from tests.security.corpus import HOSTILE as TEXTS

NODE = "gpu01"
AT = format_moment(paper.NOW)
DOCUMENTS = [*paper.base_fleet(nodes=2, slots=2), paper.allocation("train")]
DESIRED = paper.desired(DOCUMENTS)
LEAVING = paper.desired(DOCUMENTS[:-1])
WORLDS = (paper.world(DESIRED), settled(DOCUMENTS))
SETTINGS = DESIRED.settings
STEP = step("allocation.release", RELEASE, node=NODE)
HOST = Host(node=NODE, address="192.0.2.1", root="/", isolation="account", host_keys=(KEY,))
WORK = HostWork(host=HOST, steps=(STEP,))
TARGET = Target(name="new9", address="new9.example", host_keys=(KEY,), user="gpuaas")
RELEASED = {
    "source": "host",
    "paths": {"/home/y": "dir 0700"},
    "platform": {"account *": "listed"},
    "descriptors": {},
    "leftovers": {"20001": []},
    "gpus": [{"uuid": "GPU-1", "pciAddress": "x", "model": "y", "processes": []}],
    "strayKeys": {"x": ["ssh-ed25519 AAAA b"]},
    "strangers": {"20001": ["process 1 sh"]},
    "descriptorTexts": {"abcdefghij": "{}"},
    "volumeTexts": {"abcdefghij": "{}"},
}
RECEIPT = {"step": STEP.id, "ref": str(STEP.ref), "verb": STEP.verb, "changed": True}
PROBLEM = {"code": "verb_failed", "message": "busy"}
ANSWER = {
    "changed": True,
    "receipts": [{**RECEIPT, "ok": False, "evidence": {"/x": None}, "problem": PROBLEM}],
}
SOUND: tuple[Any, ...] = (
    encode(four_cards()),
    *(encode(seen.facts) for seen in WORLDS[0].observations.values()),
    RELEASED,
    ANSWER,
    {"receipts": [{**RECEIPT, "ok": True, "evidence": {"/x": None}, "problem": None}]},
    encode(FULL),
)
WORTH: tuple[Any, ...] = (
    *(None, True, "", [], {}, 0, 1, 15, 255, 2**31, 10**15, 2**63 - 1, -1, 1.5),
    *("host", "standin", "unknown", "listed", "N/A", "Disabled", "GPU-1", "GPU-x", "/home/x", "x"),
    *("account *", "account x", "20001", "abcdefghij", "0-9", "0,1", KEY, "ssh-rsa AAAA"),
    *(text for text in TEXTS if len(text) < 200),
    "y" * 4096,
)
SPOIL, MOST_CHANGES = b"\0", 24
LONGEST_LINE, MOST_LINES = 20_000, 400
SECONDS, SECONDS_EACH = 3.0, 1e-4


def _action() -> ModuleType:
    """The one task of a play, which Ansible loads from its file."""
    spec = spec_from_file_location("action", PLAYBOOKS / "action_plugins/gpuaas_converge.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ACTION = _action()


def look(data: bytes) -> None:
    begin = time.process_time()
    data = spoilt(data[1:]) if data[:1] == SPOIL else data
    check_play(data)
    check_words(data)
    check_keys(data)
    check_descriptor(data.decode("utf-8", "replace"))
    try:
        facts = read_answer(data)
    except AnswerError as error:
        assert_line(plain(str(error)))
    else:
        check_facts(facts)
    spent = time.process_time() - begin
    assert spent < SECONDS + SECONDS_EACH * len(data), f"{spent:.1f} s"


def spoilt(data: bytes) -> bytes:
    """A sound answer with changes, four bytes each: where, how, and with what.

    Bytes changed at random are seldom JSON, and JSON changed at random is seldom an answer.
    """
    value = json.loads(json.dumps(SOUND[data[0] % len(SOUND)] if data else SOUND[0]))
    for start in range(1, min(len(data) - 3, 4 * MOST_CHANGES), 4):
        places = list(_places(value))
        holder, key = places[int.from_bytes(data[start : start + 2]) % len(places)]
        how, what = data[start + 2], data[start + 3]
        other, at = places[what % len(places)]
        if how % 4 == 0:
            holder[key] = WORTH[what % len(WORTH)]
        elif how % 4 == 1:
            holder[key] = json.loads(json.dumps(other[at]))
        elif how % 4 == 2:
            del holder[key]
        elif isinstance(holder, list):
            holder += holder[: what + 1]
        else:
            holder[str(WORTH[what % len(WORTH)])] = holder[key]
        if not any(_places(value)):
            break
    return json.dumps(value).encode()


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every entry in it, as what holds it and where there."""
    for key in list(value) if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], (dict, list)):
            yield from _places(value[key])


# What a play makes of it.


def check_play(data: bytes) -> None:
    """From the bytes on a connection to receipts, by everything that lies on the way."""
    said = data.decode("utf-8", "surrogateescape")
    for rc in (0, 1):
        told = ACTION.answer_of({"rc": rc, "stdout": said, "stderr": said})
        assert told.keys() <= {"answer", "changed", "invalid", "failed", "msg", "module_stderr"}
        for handed_on in told.values():
            assert all(map(str.isprintable, str(handed_on).split("\n"))), told
        logged = supervisor.words(said, None if rc else told)
        assert all(map(str.isprintable, logged.split("\n"))), logged
        outcome = "failed" if told.get("failed") else "ok"
        check_receipts(
            Played(status="successful", answers={NODE: answer_of(outcome, told)}, log="")
        )


def check_receipts(played: Played) -> None:
    (receipt,) = receipts_of(WORK, played)
    assert (receipt.step, receipt.node, receipt.verb) == (STEP.id, NODE, STEP.verb)
    assert isinstance(receipt.ok, bool) and isinstance(receipt.changed, bool)
    assert receipt.ok is (receipt.problem is None)
    if receipt.problem is not None:
        check_problem(receipt.problem)
    assert len(receipt.log) <= 2000 and all(map(str.isprintable, receipt.log.split("\n")))
    outcome = judge(STEP, receipt, replace(WORLDS[0].observations[NODE], node=NODE))
    assert not (outcome.ok and not receipt.ok)
    for text in (outcome.log, *receipt.evidence, *filter(None, receipt.evidence.values())):
        assert all(map(str.isprintable, text.split("\n"))), text


def check_words(data: bytes) -> None:
    said = data.decode("utf-8", "replace")
    code, message = why_not_reached(HOST, said)
    assert code in ("host_unreachable", "host_identity_changed")
    for words in (message, why_no_root(HOST, said), said):
        assert_line(plain(words))


def check_keys(data: bytes) -> None:
    """What stands on the port of a host that nobody knows yet."""
    for shown in data.decode("ascii", "replace").splitlines():
        key = discover.key_of(shown)
        assert key == "" or re.fullmatch(r"[a-z0-9-]+ [0-9A-Za-z+/]+=*", key), key


def check_descriptor(text: str) -> None:
    for read in (read_descriptor, read_volume_record):
        try:
            found = read(text)
        except RecordError as error:
            assert_line(str(error))
        else:
            assert not found.is_signed_by(lambda signed: digest(signed.encode().decode()))


# What is made of facts.


def check_facts(facts: NodeFacts) -> None:
    told = encode(facts)
    assert decode(NodeFacts, json.loads(canonical(told))) == facts
    seen = Observation(node=NODE, at=AT, facts=facts, digest=digest(told))
    for world in WORLDS:
        lying = replace(world, observations={**world.observations, NODE: seen})
        check_plan(lying)
        check_views(lying)
        check_others(lying)
    check_steps(seen)
    check_proposal(facts)


def check_plan(world: World) -> None:
    for desired in (DESIRED, LEAVING):
        made = make_plan(desired, world)
        assert all(change.problem.code in CODES for change in made.changes if change.problem)
        assert_lines(plan_text.lines(made))
        json.dumps(plan_json.view(made), allow_nan=False).encode("ascii")


def check_views(world: World) -> None:
    """Nodes, their slots and their readiness, the allocations on them, and what is published."""
    stock = take_stock(SETTINGS, world, paper.NOW)
    assert_lines(fleet_view.nodes(node_rows(stock)))
    assert_lines(fleet_view.slots(slot_rows(stock)))
    for row in allocation_rows(SETTINGS, world, stock):
        assert all(str(one).isprintable() for one in encode(row).values())
    for offer in read_offers(DESIRED, world, paper.NOW, {}):
        shown = NodeShown(
            name=offer.name,
            file="x",
            line=1,
            address="x",
            ssh=offer.spec.ssh,
            family="h100",
            isolation="directory",
            sharing="any",
            admin=offer.spec.admin,
            readiness=tuple(readiness(offer, None)),
            hardening=hardening(offer.facts, containers=True) if offer.facts else (),
        )
        assert_lines(node_view.lines(shown))


def check_others(world: World) -> None:
    """An honest host beside it: as ready as before, but for a card that both of them show."""
    _, other = read_offers(DESIRED, world, paper.NOW, {})
    assert other.facts == WORLDS[0].observations["gpu02"].facts
    assert other.strange == other.foreign == ()
    for slot in other.slots:
        shown = {gpu.uuid for gpu in world.observations[NODE].facts.gpus or ()}
        assert slot.elsewhere == (frozenset({NODE}) if slot.spec.gpu.uuid in shown else frozenset())


INVENTORY = Inventory(slots={"s0": Devices(gpu="GPU-1")})
GONE = (
    "/etc/gpuaas/ssh/x",
    "/home/x",
    "/var/lib/gpuaas/scratch/x",
    *(f"/var/lib/gpuaas/instances/{place}/x" for place in ("shm", "tmp", "var-tmp")),
)
TOLD = ("account x", "linger x", "shm x")


def check_steps(seen: Observation) -> None:
    """A release of which the host says anything: proved only by everything that must be seen."""
    leaving = Step(
        id="1",
        verb="allocation.release",
        node=NODE,
        ref=REF,
        order=Order.RETIRE,
        item=make_item("allocation.release", id="abcdefghij", uid=20001),
        expected=dict.fromkeys((*GONE, *TOLD)),
    )
    outcome = judge(leaving, None, seen)
    check_problem(outcome.problem)
    claim = paper.claim("x", NODE, "s0", allocation_id="abcdefghij", state=ClaimState.RELEASING)
    facts = seen.facts
    assert facts is not None
    for proof in prove([claim], [leaving], seen, AT, INVENTORY):
        assert all(check.value.isprintable() and len(check.value) < 5000 for check in proof.checks)
        assert proof.passed is bool(
            facts.paths is not None
            and not any(f"{path}/".startswith(f"{at}/") for path in facts.paths for at in GONE)
            and all(f"{told.split()[0]} *" in (facts.platform or {}) for told in TOLD)
            and not any(told in (facts.platform or {}) for told in TOLD)
            and facts.descriptors is not None
            and "abcdefghij" not in facts.descriptors
            and (facts.leftovers or {}).get("20001") == ()
            and [
                gpu.processes == () and (gpu.memory_used_mib or 0) <= TOLERANCE_MIB
                for gpu in facts.gpus or ()
                if gpu.uuid == "GPU-1" and gpu.memory_used_mib is not None
            ]
            == [True]
        )


def check_proposal(facts: NodeFacts) -> None:
    """What people are given to commit says what the documents say, and nothing else."""
    for desired in (DESIRED, paper.desired([])):
        try:
            found = propose_node(desired, TARGET, facts)
        except ProblemError as error:
            assert encode(facts) != SOUND[0], "a sound host is one"
            for problem in error.problems:
                check_problem(problem)
            continue
        assert all(map(str.isprintable, found.yaml.split("\n")))
        again = read_documents("x.yaml", found.yaml.encode())
        assert not again.problems
        assert [one.document.value for one in again.documents] == json.loads(
            json.dumps(list(found.documents))
        )
        assert found.documents[-1]["spec"].get("approvals", []) == []
        for note in found.notes:
            assert_line(render(line(note)))


def check_problem(problem: Problem | None) -> None:
    assert problem is not None and problem.code in CODES
    assert_lines(problems_view.one(problem))
    json.dumps(encode(problem)).encode("ascii")


def assert_lines(lines: Iterable[TextLine]) -> None:
    shown = [render(one) for one in lines]
    assert len(shown) < MOST_LINES
    for one in shown:
        assert_line(one)


def assert_line(shown: str) -> None:
    assert shown.isprintable() and len(shown) < LONGEST_LINE, shown[:1000]


def seeds() -> Iterator[bytes]:
    yield from HOSTILE
    for value in SOUND:
        yield json.dumps(value).encode()
    for number in range(len(SOUND)):
        yield SPOIL + bytes((number, 1, 2, 3, 4))
    yield b"\n" + json.dumps(ANSWER).encode() + b"\n"
    yield json.dumps({"failed": True, "code": "host_identity_changed", "msg": "other"}).encode()
    yield f"host {KEY}\n# host:22 SSH-2.0-x\n".encode()
    yield b"@@@ Host key for gpu01 has changed and you have requested strict checking.\n"
    yield b"sudo: a password is required\n"


def words() -> Iterator[bytes]:
    kinds = (NodeFacts, GpuFact, Topology, NumaNode, Card, Drive, Nic)
    for kind in kinds:
        assert is_dataclass(kind)
        yield from (f'"{camel(one.name)}":'.encode() for one in fields(kind))
    for word in ("step", "ref", "verb", "changed", "ok", "evidence", "problem", "code", "message"):
        yield f'"{word}":'.encode()
    for word in ("receipts", "failed", "unreachable", "add_host", "ansible_facts", "warnings"):
        yield f'"{word}":'.encode()
    some: list[Any] = [STEP.id, NODE, "gpu02", "host", "/home/x", "account x", "listed", "unknown"]
    some += [slot["gpu"]["uuid"] for slot in DOCUMENTS[-2]["spec"].get("slots", ())]
    yield from (json.dumps(one).encode() for one in some)
    yield from (json.dumps(text).encode() for text in TEXTS if 0 < len(text) < 40)
    yield from (
        b"\x1b[K",
        b"\xc2\x9b",
        b"\xed\xa0\x80",
        b"null",
        b"true",
        b"[]",
        b"{}",
        b"1e9",
        b"-0",
    )
