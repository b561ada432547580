"""Correcting: a spec says what its host shows, all else of it stays, and nobody has approved."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reconciler.kinds.approval import approval_digest, approved_names
from reconciler.kinds.node.corrections import corrections
from reconciler.kinds.node.spec import NicSpec, Nvme
from reconciler.model.host.evidence import NodeFacts
from reconciler.model.spec.resource import Resource
from reconciler.operations.node.correct import Corrected, correct
from reconciler.operations.specs import read_desired
from reconciler.specs.edit.edit import add_entry
from tests.harness.yard import Yard, laid
from tests.kinds.node.test_proposal import four_cards, gpu, proposed

FACTS = four_cards()
PROPOSED = proposed(FACTS).spec


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    """A node of the four cards that `FACTS` are of, written as `discover` does, and approved."""
    return laid(tmp_path / "fleet", {"gpu01": 2})


def written(yard: Yard) -> Path:
    from_host = proposed(FACTS).spec
    file = yard.specs / "gpu09.yaml"
    lines = ["# rack 4", "apiVersion: gpuaas/v1", "kind: Node", "metadata: {name: gpu09}", "spec:"]
    lines += [f"  address: {from_host['address']}", "  family: h100", "  isolation: account"]
    key = from_host["identity"]["hostKeys"][0]
    lines += [f"  identity: {{machineId: {'b' * 32}, hostKeys: [{key}]}}"]
    lines += ["  slots:  # top to bottom"]
    for slot in reversed(from_host["slots"]):
        card = slot["gpu"]
        lines += [
            f"    - name: {slot['name']}  # as on the label",
            f"      gpu: {{uuid: {card['uuid']}, pciAddress: '{card['pciAddress']}', "
            f"model: {card['model']}, memoryMiB: {card['memoryMiB']}}}",
            f"      numa: {slot['numa']}  # by the board",
            f"      cpus: {slot['cpus']}",
            f"      memoryGiB: {slot['memoryGiB']}",
        ]
    file.write_text("\n".join(lines) + "\n")
    return file


def node(yard: Yard) -> Resource:
    found = read_desired(yard.fleet()).get("node", "gpu09")
    assert found is not None, read_desired(yard.fleet()).problems
    return found


def approved(yard: Yard) -> Path:
    file = written(yard)
    vouch(yard)
    return file


def vouch(yard: Yard) -> None:
    """One approval over the host and all slots, as the file has them now."""
    names = ["host", *(slot.name for slot in node(yard).spec.slots)]
    digest = approval_digest(node(yard).spec, names)
    entry = {"by": "olga", "at": "2026-11-20T09:12:00Z", "covers": names, "digest": digest}
    settings = yard.fleet().settings
    add_entry(settings, "specs/gpu09.yaml", 0, ("spec", "approvals"), entry)


def corrected(yard: Yard, facts: NodeFacts) -> Corrected:
    desired = read_desired(yard.fleet())
    return correct(yard.fleet(), desired, node(yard), facts)


def lines_changed(before: str, after: str) -> list[str]:
    changes = difflib.ndiff(before.splitlines(), after.splitlines())
    return [line for line in changes if line[:2] in ("- ", "+ ")]


def with_card(at: int, **changes: Any) -> NodeFacts:
    cards = tuple(replace(c, **changes) if n == at else c for n, c in enumerate(FACTS.gpus or ()))
    return replace(FACTS, gpus=cards)


def test_a_host_that_shows_what_is_written_changes_nothing(yard: Yard) -> None:
    """INV-14: looking again is no edit."""
    file = approved(yard)
    before = file.read_bytes()
    found = corrected(yard, FACTS)
    assert (found.changed, found.values, found.added) == (False, (), ())
    assert file.read_bytes() == before


def test_another_card_in_the_same_place_is_written_and_falls_out_of_its_approval(
    yard: Yard,
) -> None:
    """INV-08 INV-14: one value of one slot; all else stays, approvals are not touched."""
    file = approved(yard)
    before = file.read_text()
    new = "GPU-99999999-0000"
    found = corrected(yard, with_card(1, uuid=new))
    assert [(one.slot, one.part, one.after) for one in found.values] == [
        ("s1", "gpu", {"uuid": new})
    ]
    old = gpu(1).uuid
    (gone, come) = lines_changed(before, file.read_text())
    assert come[2:] == gone[2:].replace(old, new)
    after = node(yard).spec
    assert len(after.approvals) == 1
    assert approved_names(after) == frozenset()
    assert found.fallen == ("host", "s0", "s1", "s2", "s3")
    assert any(old in note for note in found.notes)


def test_a_card_that_none_has_becomes_a_slot_that_nobody_approved(yard: Yard) -> None:
    """INV-08: it stands at the end, and may not be placed on."""
    file = written(yard)
    text = file.read_text()
    start, end = text.index("    - name: s1"), text.index("    - name: s0")
    file.write_text(text[:start] + text[end:])
    vouch(yard)
    found = corrected(yard, FACTS)
    assert found.added == ("s1",)
    spec = node(yard).spec
    assert [slot.gpu.uuid for slot in spec.slots] == [gpu(at).uuid for at in range(4)]
    assert "s1" not in approved_names(spec)
    assert {"host", "s0", "s2", "s3"} <= approved_names(spec)


@pytest.mark.parametrize("missing", [0, 3])
def test_a_card_that_is_gone_keeps_its_slot(yard: Yard, missing: int) -> None:
    """F-PLC-10: unknown is not absent; somebody may be on it."""
    written(yard)
    spec = node(yard).spec
    left = replace(FACTS, gpus=tuple(c for n, c in enumerate(FACTS.gpus or ()) if n != missing))
    found = corrections(spec, proposed(left).spec["slots"], left)
    assert (found.changed, found.added) == ((), ())
    assert any(note.startswith(f"s{missing}: no slot") for note in found.notes)


def devices() -> Iterator[tuple[str, str, NodeFacts]]:
    slots = PROPOSED["slots"]
    yield "nvme", "id", replace(FACTS, nvmes=tuple(s["nvme"]["id"] for s in slots))
    yield "nic", "pciAddress", replace(FACTS, nics={s["nic"]["pciAddress"]: "mlx" for s in slots})


@pytest.mark.parametrize(("part", "key", "facts"), [*devices()], ids=["nvme", "nic"])
@pytest.mark.parametrize("told", [True, False])
def test_a_drive_or_card_that_is_gone_is_replaced_by_a_free_one(
    yard: Yard, part: str, key: str, facts: NodeFacts, told: bool
) -> None:
    """INV-02 INV-03: only if the host could list them all, and nobody has the other."""
    written(yard)
    spec = node(yard).spec
    first, *others = spec.slots
    gone = {"nvme": Nvme(id="gone", size_gib=1), "nic": NicSpec(pci_address="gone")}[part]
    spec = replace(spec, slots=(replace(first, **{part: gone}), *others))
    seen = facts if told else replace(facts, nvmes=None, nics=None)
    found = corrections(spec, PROPOSED["slots"], seen)
    new = PROPOSED["slots"][0][part]
    assert [one.after[key] for one in found.changed] == ([new[key]] if told else [])
    assert all(one.before[key] == "gone" for one in found.changed)
