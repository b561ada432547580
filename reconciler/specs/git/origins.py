"""Origins: the commit that made each document what it is, from the repository of its file."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress

from reconciler.model.moment import parse_moment
from reconciler.model.problem import ProblemError
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.settings import Settings
from reconciler.model.spec.desired import AuthorDoubt, Origin
from reconciler.model.spec.document import DocumentCache
from reconciler.model.spec.ownership import may_stand
from reconciler.specs.git import history
from reconciler.specs.git.blobs import ABSENT, UNSAID, Blobs, documents_of
from reconciler.specs.git.checkout import as_they_are, is_as_checked_out
from reconciler.specs.git.folder import shallow
from reconciler.specs.git.history import Git
from reconciler.specs.git.provenance import Provenance, Wanted
from reconciler.specs.git.trees import Tree, by_tree, spec_tree
from reconciler.specs.read.library import read_spec


def origins(
    settings: Settings,
    files: Mapping[Ref, str],
    gone: Collection[Ref],
    cache: DocumentCache,
) -> Mapping[Ref, Origin]:
    """The commit of each document in its file; of those that are `gone`, the one that removed it.

    An empty Origin for what no commit has as it is; one with a doubt where git does not say. Where
    `gone` maps to the commits by which they were applied, and when, an earlier removal is none of
    theirs.
    """
    applied = gone if isinstance(gone, Mapping) else {}
    found = dict.fromkeys(files, Origin())
    root = spec_tree(settings)
    if root is None:
        return found
    for tree, paths in by_tree(settings, root, set(files.values())).items():
        here = {ref: paths[file] for ref, file in files.items() if file in paths}
        # What was written there is one thing, and that a link shows it here is another.
        linked = {ref for ref, path in here.items() if tree.name + path != files[ref]}
        linked -= set(gone)
        try:
            stand = history.work_tree(tree.git(settings), tree.prefix, ["."])
            if stand.commit:
                asked = _Asked(settings=settings, tree=tree, changed=stand.changed, cache=cache)
                told = asked.origins(here, frozenset(gone))
                found.update(_since(tree.git(settings), told, applied))
                found.update(dict.fromkeys(linked, Origin(doubt=AuthorDoubt.UNCLEAR)))
        except ProblemError:
            found.update(dict.fromkeys(here, Origin(doubt=AuthorDoubt.SILENT)))
    return found


def _since(
    git: Git, told: Mapping[Ref, Origin], applied: Mapping[Ref, tuple[str, str]]
) -> Iterator[tuple[Ref, Origin]]:
    """What took away what was made anew afterwards has not taken away that.

    What is held although it is gone may have been recorded since as of the very commit of its end.
    """
    earlier: dict[tuple[str, str, str], bool] = {}
    for ref, origin in told.items():
        commit, at = applied.get(ref, ("", ""))
        asked = origin.commit, commit, "" if commit else at
        if origin.commit and (commit or at) and asked not in earlier:
            earlier[asked] = _came_before(git, *asked)
        yield ref, Origin() if earlier.get(asked) else origin


def _came_before(git: Git, commit: str, other: str, at: str) -> bool:
    """Whether it leads to the other one, which may be of another repository, or rewritten.

    What was applied without a commit, `at` that moment, was gone by a commit after it or by none.
    """
    with suppress(ProblemError):
        if other:
            leads = not git("rev-list", "--max-count=1", commit, f"^{other}").strip()
            return leads and commit != other
        made, applied = (
            parse_moment(git("show", "-s", "--format=%cI", commit).strip()),
            parse_moment(at),
        )
        return made is not None and applied is not None and made < applied
    return False


_Files = Mapping[str, Mapping[Ref, str]]
"""What each file says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """One tree, and its files that are not as the commit in hand has them."""

    settings: Settings
    tree: Tree
    changed: frozenset[str]
    cache: DocumentCache

    def origins(self, paths: Mapping[Ref, str], gone: frozenset[Ref]) -> Mapping[Ref, Origin]:
        ask = self.tree.git(self.settings)
        provenance = Provenance(
            git=ask, cache=self.cache, may_stand=self._may_stand, ends=shallow(self.tree.top)
        )
        return provenance.origins(self._wanted(paths, gone))

    def _wanted(self, paths: Mapping[Ref, str], gone: frozenset[Ref]) -> Iterator[Wanted]:
        """What is asked of history: nothing of what only somebody who edits the folder has said."""
        told = {path for ref, path in paths.items() if ref not in gone} - self.changed
        sound = as_they_are(self.tree.git(self.settings), self.tree.folder, told)
        edited = {ref: path for ref, path in paths.items() if ref in gone or path not in sound}
        committed = self._committed({*edited.values(), *self.changed}) if edited else {}
        here = {path: self._here(path) for path in {*edited.values(), *self.changed} - sound}
        for ref, path in paths.items():
            if ref in gone:
                if not any(self._is_left(ref, file, committed, here) for file in self.changed):
                    yield Wanted(ref=ref, path=path, value=ABSENT)
                continue
            if ref not in edited:
                yield Wanted(ref=ref, path=path)
                continue
            value = here[path].get(ref, ABSENT)
            places = [path, *(other for other in committed if other != path)]
            same = (place for place in places if committed.get(place, {}).get(ref) == value)
            if value != ABSENT and (place := next(same, "")):
                yield Wanted(ref=ref, path=place, value=value)
            elif value == ABSENT or path not in self.changed or self._is_as_checked_out(path):
                yield Wanted(ref=ref, path=path, value=UNSAID)

    def _may_stand(self, ref: Ref, path: str) -> bool:
        return may_stand(self.settings, ref, self.tree.name + path)

    def _is_left(self, ref: Ref, file: str, committed: _Files, here: _Files) -> bool:
        """Whether the commit still has what somebody took out of a file without a commit.

        Where the file as it lies there has it too, it counts for nothing, or it would not be gone.
        """
        return (
            ref in committed.get(file, ())
            and ref not in here[file]
            and self._may_stand(ref, file)
            and not self._is_as_checked_out(file)
        )

    def _is_as_checked_out(self, path: str) -> bool:
        """Whether nobody has edited a file, though it does not say what the commit says."""
        try:
            content = read_spec(self.settings, self.tree.name + path)
        except ProblemError:
            return False
        return is_as_checked_out(self.tree.git(self.settings), path, content)

    def _committed(self, paths: Collection[str]) -> _Files:
        """What the commit in hand says in these files."""
        blobs = Blobs(self.tree.git(self.settings), self.cache)
        # What is asked for stands on a line of its own, and no spec has a name of two.
        names = {path: f"HEAD:./{path}" for path in paths if "\n" not in path}
        blobs.load(names.values())
        return {path: blobs.documents(name) or {} for path, name in sorted(names.items())}

    def _here(self, path: str) -> Mapping[Ref, str]:
        """What a file says as it lies there."""
        try:
            return documents_of(read_spec(self.settings, self.tree.name + path)) or {}
        except ProblemError:
            return {}
