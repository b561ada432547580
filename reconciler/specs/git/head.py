"""HEAD: what the current commit has of the specs and the folder has not.

None of that is a removal: git keeps it out of sight, or somebody deleted it and has not said so in
a commit. Submodules count as they stand in the commit.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field

from reconciler.model.problem import Problem, ProblemError, Severity
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.settings import Settings
from reconciler.model.spec.desired import Absence
from reconciler.model.spec.document import DocumentCache
from reconciler.model.spec.ownership import may_stand
from reconciler.specs.git import history
from reconciler.specs.git.blobs import Blobs
from reconciler.specs.git.history import WorkTree
from reconciler.specs.git.trees import Tree, spec_tree
from reconciler.specs.read.library import Listing, is_spec

SUBMODULE, LINK = "160000", "120000"
SHOWN = 3
HIDDEN: Mapping[str, tuple[str, str]] = {
    "S": (
        "a sparse checkout, or skip-worktree",
        "git sparse-checkout disable, or git update-index --no-skip-worktree FILE",
    ),
    "H": (
        "assume-unchanged",
        "git update-index --no-assume-unchanged FILE, then git checkout -- FILE",
    ),
}
"""What keeps a file out of the folder, by the tag that git has for it, and how that ends."""


@dataclass(slots=True, kw_only=True)
class Sight:
    """What is in the commit and not in sight. `broken` names what nobody can say anything of.

    `answers`: there is a repository, and what it has is known.
    """

    answers: bool = False
    absent: dict[Ref, Absence] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    problems: list[Problem] = field(default_factory=list)


def look(
    settings: Settings,
    listing: Listing,
    known: Collection[Ref],
    cache: DocumentCache,
    stand: WorkTree | None = None,
) -> Sight:
    """Beside the files of a listing, which name the refs `known`.

    `stand` is how the files of the spec root stand, where that was asked before. Raises
    ProblemError `no_commit` where git does not answer.
    """
    tree = spec_tree(settings)
    if tree is None:
        return Sight()
    present = {file.name for file in listing.files}
    eye = _Eye(settings=settings, present=present, refused=listing.broken, known=known, cache=cache)
    eye.look(tree, "HEAD", stand)
    eye.tell()
    return eye.sight


@dataclass(slots=True, kw_only=True)
class _Eye:
    settings: Settings
    present: set[str]
    refused: Collection[str]
    known: Collection[Ref]
    cache: DocumentCache
    sight: Sight = field(default_factory=lambda: Sight(answers=True))
    hidden: dict[str, list[str]] = field(default_factory=dict)

    def look(self, tree: Tree, revision: str, stand: WorkTree | None = None) -> None:
        """At a tree and the submodules in it."""
        git = tree.git(self.settings)
        stand = stand or history.work_tree(git, tree.prefix, ["."], tree.name)
        if not stand.commit and revision == "HEAD":
            return
        tags = history.tags(git)
        moved = revision not in ("HEAD", stand.commit)
        wanted: dict[str, str] = {}
        for mode, blob, path in history.entries(git, revision):
            name = tree.name + path
            if mode == SUBMODULE:
                self.submodule(tree, path, blob)
            elif mode == LINK or not is_spec(path):
                continue
            elif moved or self.may_differ(name, path, stand, tags):
                wanted[name] = blob
        blobs = Blobs(git, self.cache)
        blobs.load(wanted.values())
        for name, blob in wanted.items():
            tag = tags.get(name.removeprefix(tree.name), "")
            self.compare(name, tag if name not in self.present else "", blobs.documents(blob))
        blobs.keep()

    def may_differ(self, name: str, path: str, stand: WorkTree, tags: Mapping[str, str]) -> bool:
        return name not in self.refused and (
            name not in self.present or name in stand.changed or path in tags
        )

    def compare(self, name: str, tag: str, documents: Mapping[Ref, str] | None) -> None:
        """What a file has in the commit, against all that the folder has.

        A document out of place is none in a commit either.
        """
        if tag:
            self.hidden.setdefault(tag, []).append(name)
        if documents is None and name not in self.present:
            self.sight.broken.add(name)
        for ref in documents or ():
            if ref not in self.known and may_stand(self.settings, ref, name):
                hidden = HIDDEN[tag][0] if tag else ""
                self.sight.absent[ref] = Absence(file=name, hidden=hidden)

    def submodule(self, tree: Tree, path: str, commit: str) -> None:
        inner = tree.submodule(path)
        try:
            if inner is not None:
                self.look(inner, commit)
                return
            why = "it is not there"
        except ProblemError as error:
            why = error.problems[0].message
        name = tree.name + path
        self.sight.broken.add(name)
        self.sight.problems.append(
            Problem(
                code="submodule_missing",
                message=f"what the submodule {name} holds is unknown: {why}",
                hint=f"git submodule update --init {name}; until then nothing counts as removed",
            )
        )

    def tell(self) -> None:
        for tag, names in self.hidden.items():
            why, hint = HIDDEN[tag]
            self.sight.problems.append(
                Problem(
                    code="specs_hidden",
                    severity=Severity.WARNING,
                    message=f"git keeps {_some(names)} out of the folder: {why};"
                    " what was applied from there stays as it is",
                    hint=hint,
                )
            )


def _some(names: list[str]) -> str:
    first = ", ".join(sorted(names)[:SHOWN])
    return f"{first} and {len(names) - SHOWN} more" if len(names) > SHOWN else first
