"""Corrections: edits of a Node's spec where its host shows other hardware than its slots.

What people decide stays: names, approvals, CPUs and memory of a slot, what is disabled. A slot
whose card is not there stays as well; only a card in its very place may take its turn.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from reconciler.kinds.node.proposal import MAX_SLOTS
from reconciler.kinds.node.spec import NodeSpec, Slot
from reconciler.kinds.node_family import near
from reconciler.model.codec import encode
from reconciler.model.host.evidence import NodeFacts
from reconciler.model.records import dataclass

OF_CARD, MEASURED = ("uuid", "pciAddress", "model"), "memoryMiB"


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """New values for the mapping `part` of a slot; without a part, for the slot itself."""

    slot: str
    part: str
    before: Mapping[str, object]
    after: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrections:
    """`added` are slots for cards that have none, and `notes` what no program puts right."""

    changed: tuple[Correction, ...] = ()
    added: tuple[Mapping[str, Any], ...] = ()
    notes: tuple[str, ...] = field(default=())


def corrections(
    spec: NodeSpec, proposed: Sequence[Mapping[str, Any]], facts: NodeFacts
) -> Corrections:
    """`proposed` are the slots that this host would be given if nothing were known of it."""
    by_card = {slot["gpu"]["uuid"]: slot for slot in proposed}
    stated = {slot.gpu.uuid for slot in spec.slots}
    by_place = {
        slot["gpu"]["pciAddress"]: slot for uuid, slot in by_card.items() if uuid not in stated
    }
    changed: list[Correction] = []
    notes: list[str] = []
    for slot in spec.slots:
        shown = by_card.pop(slot.gpu.uuid, None)
        if shown is None and (shown := by_place.get(slot.gpu.pci_address)):
            notes.append(f"{slot.name}: another card in place of {slot.gpu.uuid}")
            by_card.pop(shown["gpu"]["uuid"], None)
        if shown is None:
            notes.append(f"{slot.name}: no slot can be made of {slot.gpu.uuid} now; left as it is")
            continue
        changed += _of_slot(spec, slot, shown, facts)
    room = MAX_SLOTS - len(spec.slots)
    added = _named(list(by_card.values())[:room], {slot.name for slot in spec.slots})
    notes += [f"{slot['name']}: new; see whether its CPUs and memory are free" for slot in added]
    notes += [f"{uuid}: no room for one more slot" for uuid in list(by_card)[room:]]
    return Corrections(changed=tuple(changed), added=tuple(added), notes=tuple(notes))


def _of_slot(
    spec: NodeSpec, slot: Slot, shown: Mapping[str, Any], facts: NodeFacts
) -> Iterator[Correction]:
    stated = encode(slot)
    measured = () if near(shown["gpu"]["memoryMiB"], slot.gpu.memory_mib) else (MEASURED,)
    fields = [
        *OF_CARD,
        *measured,
        *(["serial"] if slot.gpu.serial and "serial" in shown["gpu"] else []),
    ]
    yield from _differing(slot.name, "gpu", stated["gpu"], {f: shown["gpu"][f] for f in fields})
    yield from _differing(slot.name, "", stated, {"numa": shown["numa"]})
    drives = {one.nvme.id for one in spec.slots if one.nvme}
    nics = {one.nic.pci_address for one in spec.slots if one.nic}
    yield from _replaced(slot.name, "nvme", stated, shown, _Seen("id", facts.nvmes, drives))
    yield from _replaced(slot.name, "nic", stated, shown, _Seen("pciAddress", facts.nics, nics))


@dataclass(frozen=True, slots=True)
class _Seen:
    """What of a sort the host shows, by its `key`, and what slots have already."""

    key: str
    shown: Collection[str] | None
    taken: Collection[str]


def _replaced(
    name: str, part: str, stated: Mapping[str, Any], shown: Mapping[str, Any], seen: _Seen
) -> Iterator[Correction]:
    """Another device in place of one that is gone, if it is nobody's; unknown is not gone."""
    before, after = stated.get(part), shown.get(part)
    if not before or not after or seen.shown is None or before[seen.key] in seen.shown:
        return
    if after[seen.key] not in seen.taken:
        yield from _differing(name, part, before, after)


def _differing(
    name: str, part: str, before: Mapping[str, Any], after: Mapping[str, Any]
) -> Iterator[Correction]:
    new = {key: value for key, value in after.items() if before.get(key) != value}
    if new:
        old = {key: before.get(key) for key in new}
        yield Correction(slot=name, part=part, before=old, after=new)


def _named(
    slots: Sequence[Mapping[str, Any]], taken: Collection[str]
) -> list[Mapping[str, object]]:
    free = [name for at in range(MAX_SLOTS * 2) if (name := f"s{at}") not in taken]
    return [{**slot, "name": name} for slot, name in zip(slots, free, strict=False)]
