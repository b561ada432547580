"""Desired: everything git wants, typed and linked, and what could not be read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from enum import StrEnum

from reconciler.model.problem import Problem
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.settings import Settings
from reconciler.model.spec.ownership import may_stand_below
from reconciler.model.spec.reading import Reading
from reconciler.model.spec.requirements import Requirements
from reconciler.model.spec.resource import Resource
from reconciler.model.spec.revision import Revision


class AuthorDoubt(StrEnum):
    """Why nobody can say who wrote a document, by the code of the problem that this is."""

    SHALLOW = "history_shallow"
    UNCLEAR = "author_unclear"
    SILENT = "no_commit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The commit that last changed the value of a document, or took it away.

    `commit` is empty for what no commit has so, and where there is a `doubt`, which is not that.
    """

    commit: str = ""
    author: str = ""
    email: str = ""
    signed: bool = False
    doubt: AuthorDoubt | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """A document that the commit in hand has in `file` and the folder has not.

    `hidden` is what keeps the file out of sight; empty where somebody deleted it.
    """

    file: str
    hidden: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Desired:
    """`resources` holds what may be acted on. `frozen` holds refs with an error of their own, and
    `broken` the files that could not be read: resources last recorded from them stay as they are.
    `absent` is what the commit in hand has and the folder has not; what of it is hidden is among
    `frozen` too. What is in neither may be gone by a commit, where a repository `knows`; `blind`
    says why one does not answer, and then nothing is. `suspended` are scopes, `user/bo` or
    `project/vision`, that an operator has shut out for now. `locks` are the requirements that
    bundles are made from, by the digest that was agreed. `readings` are what documents say of whom
    they let in that may not be acted on. `misplaced` are files with a document that may not stand
    there: it is none, but for what was applied from there. `lessened` is what of `resources` stands
    as it was recorded, less what readings take from it.
    """

    settings: Settings
    resources: Mapping[Ref, Resource]
    digest: str
    revision: Revision = field(default_factory=Revision)
    frozen: frozenset[Ref] = frozenset()
    broken: frozenset[str] = frozenset()
    ignored: frozenset[str] = frozenset()
    problems: tuple[Problem, ...] = ()
    suspended: frozenset[str] = frozenset()
    locks: Mapping[str, Requirements] = field(default_factory=dict)
    absent: Mapping[Ref, Absence] = field(default_factory=dict)
    knows: bool = False
    blind: str = ""
    readings: Mapping[Ref, tuple[Reading, ...]] = field(default_factory=dict)
    misplaced: Mapping[Ref, frozenset[str]] = field(default_factory=dict)
    lessened: frozenset[Ref] = frozenset()
    _kinds: dict[str, tuple[Resource, ...]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def is_broken(self, file: str) -> bool:
        """Whether `file`, or a folder it lies in, could not be read: its content is unknown."""
        parts = file.split("/")
        return any("/".join(parts[:end]) in self.broken for end in range(1, len(parts) + 1))

    def unread(self, ref: Ref) -> frozenset[str]:
        """The places that could not be read and in which, by the rules, it may stand."""
        broken = (place for place in self.broken if may_stand_below(self.settings, ref, place))
        return frozenset(broken)

    def names(self, ref: Ref) -> bool:
        """Whether some document is about it, sound or not, in the folder or in the commit alone."""
        places = (self.resources, self.frozen, self.absent, self.misplaced)
        return any(ref in place for place in places)

    def get(self, kind: str, name: str, project: str = "") -> Resource | None:
        return self.resources.get(Ref(kind, project, name))

    def of(self, kind: str) -> Iterator[Resource]:
        """Resources of one kind, in the order of their refs; all kinds are sorted out once."""
        if not self._kinds:
            found: dict[str, list[Resource]] = {}
            for resource in self.resources.values():
                found.setdefault(resource.ref.kind, []).append(resource)
            for name, listed in found.items():
                self._kinds[name] = tuple(sorted(listed, key=_ref))
        return iter(self._kinds.get(kind, ()))


def _ref(resource: Resource) -> Ref:
    return resource.ref
