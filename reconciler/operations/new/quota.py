"""Quota: what the documents of a project ask for in all, against what it may hold at one time.

The plan decides, by what is held; this is what people should know before they write one more.
"""

from __future__ import annotations

from reconciler.kinds.allocation.spec import ALLOCATIONS
from reconciler.kinds.project import PROJECTS
from reconciler.kinds.sku import SKUS
from reconciler.kinds.storage import STORAGES
from reconciler.operations.new.contract import Scene


def gpus_of(scene: Scene, name: str) -> int:
    """The GPUs of a SKU; a whole node has those of the widest one there is."""
    sku = SKUS.get(scene.desired, name)
    widest = max((len(one.slots) for one in scene.stock.offers), default=0) if scene.stock else 0
    return (sku.spec.slots or widest) if sku else 0


def of_allocations(scene: Scene, project: str, more: int) -> tuple[str, str]:
    """What is asked for with so many GPUs more; and, if that is too much, that it is."""
    found = PROJECTS.get(scene.desired, project)
    if found is None:
        return "", ""
    own = [one for one in ALLOCATIONS.of(scene.desired) if one.ref.project == project]
    gpus = sum(gpus_of(scene, one.spec.sku) for one in own) + more
    quota, number = found.spec.quota, len(own) + 1
    told = f"{gpus} of {quota.gpus} GPUs, {number} of {quota.allocations} allocations"
    return told, _too_much(gpus > quota.gpus or number > quota.allocations, project, found.file)


def of_storage(scene: Scene, project: str, more: int) -> tuple[str, str]:
    """The same for GiB of storage; data that is kept counts as well, and is not seen here."""
    found = PROJECTS.get(scene.desired, project)
    if found is None:
        return "", ""
    own = (one for one in STORAGES.of(scene.desired) if one.ref.project == project)
    size = sum(one.spec.size_gib for one in own) + more
    most = found.spec.quota.storage_gib
    return f"{size} of {most} GiB", _too_much(size > most, project, found.file)


def _too_much(is_over: bool, project: str, file: str) -> str:
    if not is_over:
        return ""
    return f"that is more than project {project} may hold: the plan would refuse it ({file})"
