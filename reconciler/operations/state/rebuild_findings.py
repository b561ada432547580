"""Findings of a rebuild and what follows from each, as people are shown them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from reconciler.model.problem import Problem
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.state.rebuilt import JudgedDoubts
from reconciler.model.state.volume import Volume
from reconciler.model.state.world import Doubt
from reconciler.planner.rebuild.descriptors import FoundDescriptor
from reconciler.planner.rebuild.volume_records import FoundVolume
from reconciler.planner.rebuild.volumes import Regained
from reconciler.planner.rebuild.world import FoundVerdict


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRow:
    """An allocation as some host has shown it, and what becomes of it."""

    node: str
    id: str
    verdict: FoundVerdict
    ref: str = ""
    slots: tuple[str, ...] = ()
    why: str = ""
    adopted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeRow:
    """Data as some host has shown it; `state` is `made` or `kept`, empty if it is not taken in.

    `attached` are the ids of allocations that have it.
    """

    node: str
    id: str
    ref: str = ""
    state: str = ""
    size_gib: int = 0
    attached: tuple[str, ...] = ()
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuiltNodeRow:
    """One node that was asked; `doubts` are what is not known of it afterwards."""

    node: str
    answered: bool
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Finds:
    """Of one state. It is shown before anything is written, and nothing else is written then."""

    state_id: str
    found: tuple[FoundRow, ...]
    volumes: tuple[VolumeRow, ...]
    nodes: tuple[RebuiltNodeRow, ...]

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is left open, each with the next thing to do."""
        return (
            *(_unverified(row) for row in self.found if row.verdict is FoundVerdict.UNVERIFIED),
            *(_unverified(row) for row in self.volumes if not row.state),
            *(_doubted(row) for row in self.nodes if row.doubts),
        )


def found_rows(
    judged: Sequence[FoundDescriptor],
    refs: Mapping[str, Ref],
    verdicts: Mapping[str, tuple[FoundVerdict, str]],
) -> tuple[FoundRow, ...]:
    """By ref; those that nobody could read come last."""
    rows = [_found_row(one, refs, verdicts) for one in judged]
    return tuple(sorted(rows, key=lambda row: (not row.ref, row.ref, row.node, row.id)))


def volume_rows(judged: Sequence[FoundVolume], regained: Regained) -> tuple[VolumeRow, ...]:
    """By ref and node: what several hosts reach is told by each of them."""
    volumes = {one.id: one for one in regained.volumes}
    having: dict[str, set[str]] = defaultdict(set)
    for one in regained.attachments:
        having[one.volume].add(one.allocation_id)
    rows = [
        _volume_row(one, volumes.get(one.id) if one.taken else None, having.get(one.id, set()))
        for one in judged
    ]
    return tuple(sorted(rows, key=lambda row: (not row.ref, row.ref, row.node, row.id)))


def node_rows(
    names: Sequence[str], answered: Mapping[str, object], doubts: JudgedDoubts
) -> tuple[RebuiltNodeRow, ...]:
    told: dict[str, list[Doubt]] = defaultdict(list)
    for doubt in doubts.kept:
        told[doubt.node].append(doubt)
    return tuple(
        RebuiltNodeRow(
            node=name,
            answered=name in answered,
            doubts=tuple(f"{one.kind}: {one.reason}" for one in told[name]),
        )
        for name in names
    )


def _found_row(
    one: FoundDescriptor, refs: Mapping[str, Ref], verdicts: Mapping[str, tuple[FoundVerdict, str]]
) -> FoundRow:
    descriptor = one.descriptor
    verdict, why = (
        verdicts.get(one.id, (FoundVerdict.UNVERIFIED, one.why))
        if one.taken
        else (
            FoundVerdict.UNVERIFIED,
            one.why,
        )
    )
    return FoundRow(
        node=one.node,
        id=one.id,
        verdict=verdict,
        ref=str(refs.get(one.id, descriptor.ref)) if descriptor else "",
        slots=descriptor.slots if descriptor else (),
        why=f"adopted though {one.why}" if one.adopted and one.why else why,
        adopted=one.adopted,
    )


def _volume_row(one: FoundVolume, volume: Volume | None, having: Collection[str]) -> VolumeRow:
    return VolumeRow(
        node=one.node,
        id=one.id,
        ref=str(one.ref) if one.ref else "",
        state=volume.state.value if volume else "",
        size_gib=volume.size_gib if volume else 0,
        attached=tuple(sorted(having)) if volume else (),
        why=f"adopted though {one.why}" if one.adopted and one.why else one.why,
    )


def _unverified(row: FoundRow | VolumeRow) -> Problem:
    return Problem(
        code="descriptor_unverified",
        message=f"{row.node}/{row.id}: {row.why}",
        hint="the host takes nobody meanwhile. If you know that it is right: "
        f"gpuaas state rebuild --node {row.node} --adopt {row.node}/{row.id} --reason TEXT",
        ref=row.ref,
    )


def _doubted(row: RebuiltNodeRow) -> Problem:
    return Problem(
        code="node_in_doubt",
        message=f"{row.node}: {'; '.join(row.doubts)}",
        hint="remove what is nobody's, then: gpuaas apply",
        ref=f"node/{row.node}",
    )
