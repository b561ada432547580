"""`storage attach` and `detach`: a storage in the file of an allocation of its project."""

from __future__ import annotations

from collections.abc import Mapping

from reconciler.kinds.allocation.spec import AllocationSpec
from reconciler.kinds.storage import STORAGES
from reconciler.model.problem import refuse
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref, parse_ref
from reconciler.model.spec.resource import Resource
from reconciler.operations.edit.contract import WRITE, EditWish, SpecEdit
from reconciler.operations.edit.edit import (
    Changes,
    edit_document,
    mapping_of,
)
from reconciler.operations.fleet import Fleet
from reconciler.operations.new.attachments import usual_mode
from reconciler.operations.references import unknown
from reconciler.operations.specs import read_desired
from reconciler.specs.edit.edit import Added, Removed, Valued

PATH = ("spec", "storage")


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachWish:
    """`storage` is PROJECT/NAME, `allocation` a ref or a name of that project.

    Without a `mode` the usual one of the storage; without a `path` the one it has, or /data/NAME.
    """

    storage: str
    allocation: str
    mode: str = ""
    path: str = ""


def attach(fleet: Fleet, wish: AttachWish, how: EditWish = WRITE) -> SpecEdit:
    """Add the attachment, or change the one that there is. Raises ProblemError."""
    desired = read_desired(fleet)
    ref = storage_ref(wish.storage)
    storage = STORAGES.at(desired, ref) if ref else None
    if ref is None or storage is None:
        known = (one.ref for one in STORAGES.of(desired))
        raise unknown(ref or Ref("storage", "", wish.storage), "no storage in the specs", known)
    mode = wish.mode or str(usual_mode(storage))
    path = {"mountPath": wish.path} if wish.path else {}

    def change(resource: Resource[AllocationSpec], value: Mapping[str, object]) -> Changes:
        _insist_on_project(ref, resource)
        entries = mapping_of(value.get("spec")).get("storage", [])
        there = [mapping_of(one) for one in entries] if isinstance(entries, list) else []
        at = next((n for n, one in enumerate(there) if one.get("name") == ref.name), None)
        if at is None:
            return [Added(path=PATH, entry={"name": ref.name, **path, "mode": mode})]
        values = {**({"mode": wish.mode} if wish.mode else {}), **path}
        new = {key: word for key, word in values.items() if there[at].get(key) != word}
        return [Valued(path=(*PATH, at), values=new)] if new else []

    named = allocation_named(wish.allocation, ref.project)
    return edit_document(fleet, named, change, f"Attach {ref} to {named}", how)


def detach(fleet: Fleet, storage: str, allocation: str, how: EditWish = WRITE) -> SpecEdit:
    """Take the attachment out of the file of the allocation. Raises ProblemError.

    The storage itself may be gone from the specs: its name is all that is needed.
    """
    ref = storage_ref(storage)
    if ref is None:
        raise unknown(Ref("storage", "", storage), "no ref of a storage", ())
    named = allocation_named(allocation, ref.project)

    def change(resource: Resource[AllocationSpec], value: Mapping[str, object]) -> Changes:
        _insist_on_project(ref, resource)
        entries = mapping_of(value.get("spec")).get("storage", [])
        there = [mapping_of(one) for one in entries] if isinstance(entries, list) else []
        found = [at for at, one in enumerate(there) if one.get("name") == ref.name]
        return [Removed(path=PATH, number=at) for at in found]

    return edit_document(fleet, named, change, f"Detach {ref} from {named}", how)


def _insist_on_project(storage: Ref, allocation: Resource[AllocationSpec]) -> None:
    """In the file of an allocation, a name is that of a storage of its own project."""
    project = allocation.ref.project
    if storage.project != project:
        own = Ref("storage", project, storage.name)
        hint = f"if that is meant, name {own}; data of another project is never attached"
        raise refuse("not_found", f"{storage} is no storage of project {project}", hint)


def storage_ref(text: str) -> Ref | None:
    """Of `PROJECT/NAME`, or the whole ref."""
    return parse_ref(f"storage/{text.removeprefix('storage/')}")


def allocation_named(text: str, project: str) -> str:
    """The ref of an allocation, which may be told by its name in a known project."""
    return text if "/" in text else f"allocation/{project}/{text}"
