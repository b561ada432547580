"""`bundle use` and `drop`: a bundle version in the file of an allocation; who it is stays."""

from __future__ import annotations

from collections.abc import Mapping

from reconciler.kinds.allocation.spec import ALLOCATIONS, AllocationSpec
from reconciler.model.problem import refuse
from reconciler.model.ref import Ref, parse_ref
from reconciler.model.spec.resource import Resource
from reconciler.operations.edit.contract import WRITE, EditWish, SpecEdit
from reconciler.operations.edit.edit import (
    Changes,
    edit_document,
    mapping_of,
)
from reconciler.operations.fleet import Fleet
from reconciler.operations.new.contract import Answers, NoAnswer
from reconciler.operations.new.new import scene_of
from reconciler.operations.new.runtimes import runtime, runtime_entry
from reconciler.operations.references import ref_of
from reconciler.specs.edit.edit import Added, Removed, Valued

PATH = ("spec", "runtimes")


def drop_runtime(fleet: Fleet, bundle: str, allocation: str, how: EditWish = WRITE) -> SpecEdit:
    """Take a bundle out, in all versions or the named one. Raises ProblemError."""
    name, _, version = bundle.partition("@")

    def change(resource: Resource[AllocationSpec], value: Mapping[str, object]) -> Changes:
        entries = mapping_of(value.get("spec")).get("runtimes", [])
        there = [mapping_of(one) for one in entries] if isinstance(entries, list) else []
        found = [
            at
            for at, one in enumerate(there)
            if one.get("bundle") == name and version in ("", one.get("version"))
        ]
        return [Removed(path=PATH, number=at) for at in reversed(found)]

    message = f"Use {bundle} no longer in {ref_of(allocation)}"
    return edit_document(fleet, allocation, change, message, how)


def use_runtime(fleet: Fleet, bundle: str, allocation: str, how: EditWish = WRITE) -> SpecEdit:
    """Add the version behind those that there are, or put it in the place of another version of
    the same bundle. Raises ProblemError.
    """
    scene = scene_of(fleet)
    ref = parse_ref(allocation) or Ref("allocation", "", allocation)
    found = ALLOCATIONS.at(scene.desired, ref)
    answers = Answers(given={"sku": (found.spec.sku,)} if found else {})
    try:
        entry = runtime_entry(runtime(bundle, scene, answers))
    except NoAnswer as error:
        raise refuse("bundle_version_unknown", str(error), "gpuaas bundle list") from error

    def change(resource: Resource[AllocationSpec], value: Mapping[str, object]) -> Changes:
        entries = mapping_of(value.get("spec")).get("runtimes", [])
        there = [mapping_of(one) for one in entries] if isinstance(entries, list) else []
        same = [at for at, one in enumerate(there) if one.get("bundle") == entry["bundle"]]
        if any(there[at] == entry for at in same):
            return []
        if same:
            return [Valued(path=(*PATH, same[0]), values={"version": entry["version"]})]
        return [Added(path=PATH, entry=entry)]

    word = f"{entry['bundle']}@{entry['version']}"
    return edit_document(fleet, allocation, change, f"Use {word} in {ref}", how)
