"""Trees: which repository has which spec files, its own work tree or a submodule's."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path

from reconciler.model.records import dataclass
from reconciler.model.settings import Settings
from reconciler.specs.git import git
from reconciler.specs.git.history import Git


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """Spec files that one repository has: the fleet's names of them begin with `name`.

    Git is asked in `folder`, which is absolute and without links, and lies below `top`.
    """

    folder: str
    name: str
    top: Path

    @property
    def prefix(self) -> str:
        """What leads from the top of the repository to the folder."""
        inner = Path(self.folder).relative_to(self.top).as_posix()
        return "" if inner == "." else f"{inner}/"

    def git(self, settings: Settings) -> Git:
        return partial(git.ask, settings, folder=self.folder)

    def submodule(self, path: str) -> Tree | None:
        """The one at `path` of this tree; None if it is not there."""
        folder = Path(self.folder, path)
        if not (folder / ".git").exists():
            return None
        return Tree(folder=str(folder), name=f"{self.name}{path}/", top=folder)


def spec_tree(settings: Settings) -> Tree | None:
    """The tree of the spec root, wherever links lead to it; None without a repository."""
    folder = os.path.realpath(os.path.join(settings.folder, settings.spec_root))
    top = git.repository_of(Path(folder))
    name = settings.spec_root.rstrip("/") + "/"
    return Tree(folder=folder, name=name, top=top) if top else None


def is_plain(settings: Settings, tree: Tree) -> bool:
    """Whether it is that of the fleet's folder, and its files lie where they are named."""
    inner = os.path.normpath(settings.spec_root)
    named = os.path.join(settings.folder, inner)
    is_plainly_named = tree.name == f"{inner}/" and tree.folder == named
    return is_plainly_named and tree.top == git.repository(settings)


def by_tree(settings: Settings, root: Tree, files: Iterable[str]) -> Mapping[Tree, dict[str, str]]:
    """The files by the tree that has them, each with its path there; links are resolved.

    What lies outside the spec root is in none.
    """
    found: dict[Tree, dict[str, str]] = {}
    tops: dict[str, Tree] = {root.folder: root}
    for file in files:
        path = os.path.realpath(os.path.join(settings.folder, file))
        if file.startswith(root.name) and path.startswith(f"{root.folder}/"):
            tree = _tree_of(os.path.dirname(path), root, tops)
            found.setdefault(tree, {})[file] = path.removeprefix(f"{tree.folder}/")
    return found


def _tree_of(folder: str, root: Tree, known: dict[str, Tree]) -> Tree:
    """The tree of the nearest folder from `folder` upwards that is the top of a repository."""
    if folder not in known:
        if os.path.exists(os.path.join(folder, ".git")):
            name = root.name + folder.removeprefix(f"{root.folder}/") + "/"
            known[folder] = Tree(folder=folder, name=name, top=Path(folder))
        else:
            known[folder] = _tree_of(os.path.dirname(folder), root, known)
    return known[folder]
