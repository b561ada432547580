"""`node discover --update`: what a host shows is written into its Node for people to read.

Nothing is approved by it: an approval of what it changes is none any more. No host is changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field

from reconciler.hosts.ssh import discover
from reconciler.kinds.approval import approved_names
from reconciler.kinds.node.corrections import Correction, Corrections, corrections
from reconciler.kinds.node.proposal import NodeAddress, propose
from reconciler.kinds.node.spec import NodeSpec
from reconciler.model.host.evidence import NodeFacts
from reconciler.model.problem import refuse
from reconciler.model.records import dataclass
from reconciler.model.spec.desired import Desired
from reconciler.model.spec.resource import Resource
from reconciler.operations.fleet import Fleet
from reconciler.operations.node.enroll import HINTS
from reconciler.operations.observe import host_of, run_options
from reconciler.operations.references import node_of
from reconciler.operations.specs import read_desired
from reconciler.specs.edit.edit import Added, Valued, edit
from reconciler.specs.read.library import read_spec
from reconciler.specs.read.yaml_reader import read_documents
from reconciler.store.snapshot import read_world

SLOTS = ("spec", "slots")


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrected:
    """What was written into `file`; `fallen` names what was approved and is not any more.

    Where the host shows what the spec says, nothing was written and `changed` is False.
    """

    ref: str
    file: str
    line: int
    values: tuple[Correction, ...] = ()
    added: tuple[str, ...] = ()
    fallen: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())
    changed: bool = True


def ask_and_correct(fleet: Fleet, name: str) -> Corrected:
    """Ask the host of a node, by the keys in its spec, and correct that. Raises ProblemError."""
    desired = read_desired(fleet)
    node = node_of(desired, name)
    with fleet.reading() as database:
        host = host_of(fleet, desired, read_world(database), name)
    if host is None:
        raise refuse("not_found", f"{node.ref} cannot be reached by this version", "gpuaas plan")
    seen = discover.discover(host, run_options(fleet), at=fleet.now())
    if seen.facts is None:
        code = seen.problem or "observation_failed"
        raise refuse(code, f"{node.ref}: {seen.message}", HINTS.get(code, ""))
    return correct(fleet, desired, node, seen.facts)


def correct(
    fleet: Fleet, desired: Desired, node: Resource[NodeSpec], facts: NodeFacts
) -> Corrected:
    """Write all differences that these facts show, or nothing. Raises ProblemError."""
    wish = NodeAddress(address=node.spec.address, host_keys=(), family=node.spec.family)
    proposal = propose(facts, wish, desired)
    found = corrections(node.spec, proposal.spec["slots"], facts)
    notes = (*proposal.notes, *found.notes)
    said = Corrected(ref=str(node.ref), file=node.file, line=node.line, notes=notes)
    edits = list(_edits(found, _names(fleet, node)))
    if not edits:
        return Corrected(ref=said.ref, file=said.file, line=said.line, notes=notes, changed=False)
    before = approved_names(node.spec)
    place = edit(fleet.settings, node.file, node.document, edits)
    after = read_desired(fleet).get("node", node.ref.name)
    return Corrected(
        ref=said.ref,
        file=node.file,
        line=place.line,
        values=found.changed,
        added=tuple(slot["name"] for slot in found.added),
        fallen=tuple(sorted(before - (approved_names(after.spec) if after else frozenset()))),
        notes=notes,
    )


def _names(fleet: Fleet, node: Resource[NodeSpec]) -> Sequence[str]:
    """The slots in the order of the file, which need not be that of the spec as it is read."""
    parsed = read_documents(node.file, read_spec(fleet.settings, node.file))
    one = next(one for one in parsed.documents if one.document.index == node.document)
    return [slot["name"] for slot in one.document.value["spec"]["slots"]]


def _edits(found: Corrections, names: Sequence[str]) -> Iterator[Added | Valued]:
    for one in found.changed:
        here: tuple[str | int, ...] = (*SLOTS, names.index(one.slot))
        place = (*here, one.part) if one.part else here
        yield Valued(path=place, values=one.after)
    for slot in found.added:
        yield Added(path=SLOTS, entry=slot)
