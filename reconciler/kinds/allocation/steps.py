"""Steps of an allocation, and the words for its files and units on the host.

For every drawer of the allocation: what it has is spread over several, how it is asked for is not.
"""

from __future__ import annotations

from collections.abc import Mapping

from reconciler.kinds.contract import Binding
from reconciler.model.canonical import text_digest
from reconciler.model.plan.items.item import AllocationItem, FileItem, FolderItem
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
    group = f" 0:{gid}" if gid else ""
    return {
        shown(path): f"file {mode} {text_digest(content)}{group}" for path, content in files.items()
    }


def folder_fact(folder: FolderItem) -> str:
    """A folder, as hosts tell it; with its owner where that is a tenant."""
    owner = f" {folder.uid}:{folder.gid}" if folder.uid else ""
    return f"dir {folder.mode}{owner}"


def own_mode(binding: Binding) -> str:
    """The mode of what a tenant reads and its neighbours do not; without accounts there is one
    user.
    """
    return OWN_MODE if binding.uid else FILE_MODE


def shown(path: str) -> str:
    """A path or unit as hosts report it: a backslash is doubled."""
    return path.replace("\\", "\\\\")
