"""Steps of an allocation, and the words for its files and units on the host.

For every drawer of the allocation: what it has is spread over several, how it is asked for is not.
"""

from __future__ import annotations

from collections.abc import Mapping

from reconciler.kinds.contract import Binding
from reconciler.model.canonical import text_digest
from reconciler.model.host.facts.path_fact import file_fact, shown
from reconciler.model.plan.items.item import AllocationItem, FileItem
from reconciler.model.plan.plan import Order, Step, step_id
from reconciler.model.plan.verb import Verb

FILE_MODE, OWN_MODE = "0644", "0640"
"""Of a file that everybody may read, and of one that its tenant's group alone may."""


def step_of(
    binding: Binding,
    verb: Verb,
    order: Order,
    item: AllocationItem,
    facts: Mapping[str, str | None],
) -> Step:
    """One verb for it on its host."""
    node = binding.placement.node
    return Step(
        id=step_id(node, verb, binding.ref, binding.id),
        verb=verb,
        node=node,
        ref=binding.ref,
        order=order,
        item=item,
        expected=facts,
    )


def file_items(files: Mapping[str, str], mode: str = FILE_MODE) -> tuple[FileItem, ...]:
    """Path → content, as hosts are asked for it."""
    return tuple(FileItem(path=path, mode=mode, content=content) for path, content in files.items())


def file_facts(
    files: Mapping[str, str], mode: str = FILE_MODE, gid: int = 0
) -> dict[str, str | None]:
    """Path → content, as hosts tell it; with the group that reads it where it is a tenant's."""
    return {
        shown(path): file_fact(mode, text_digest(content), gid) for path, content in files.items()
    }


def own_mode(binding: Binding) -> str:
    """The mode of what a tenant reads and its neighbours do not; without accounts there is one
    user.
    """
    return OWN_MODE if binding.uid is not None else FILE_MODE


def own_gid(binding: Binding) -> int:
    """The group that reads it besides root; 0 without accounts."""
    return (binding.gid or 0) if binding.uid is not None else 0
