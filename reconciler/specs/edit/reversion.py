"""Reversion: files of a fleet as they would be with documents of another commit.

Both commits lie in private checkouts; nothing here writes. A document is its ref, wherever it
stands; what else is in its file stays. A result that does not say what it should is none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from reconciler.model.problem import Problem, ProblemError, Source, refuse
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.settings import Settings
from reconciler.model.spec.rollback import Reverted
from reconciler.specs.edit.segments import appended, removed, replaced, segment_of
from reconciler.specs.git.blobs import documents_of
from reconciler.specs.git.private_checkout import files_of
from reconciler.specs.read.check_file import ref_of
from reconciler.specs.read.library import ENDINGS, is_spec, list_specs, read_file
from reconciler.specs.read.text import without_mark
from reconciler.specs.read.yaml_reader import read_documents

Files = Mapping[str, bytes | None]
"""What each file is to hold; None for one that goes."""

Held = Callable[[Reverted], bool]
"""Whether a document is to stay as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reversion:
    """`files` are those that change, `reverted` the documents; `held` are those that stay."""

    files: Files
    reverted: tuple[Reverted, ...] = ()
    held: tuple[Reverted, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    file: str
    index: int
    value: Mapping[str, object]


class _Edit(NamedTuple):
    """What becomes of a document in one file; without a value it is taken out."""

    ref: Ref
    value: Mapping[str, object] | None
    segment: str = ""


def revert(now: Settings, then: Settings, ref: Ref, held: Held) -> Reversion:
    """One document as it stood `then`. Raises ProblemError; `not_found` if it is in neither."""
    here, there = _find(now, ref), _find(then, ref)
    if here is None and there is None:
        raise refuse(
            "not_found",
            f"{ref} is neither in the specs now nor was it at that commit",
            "see what became of it: gpuaas timeline",
        )
    one = Reverted(
        ref=ref,
        file=(here or there).file,  # type: ignore[union-attr]
        then=there.value if there else None,
        now=here.value if here else None,
    )
    if one.then == one.now:
        return Reversion(files={})
    _insist_on_name(now, then, one)
    if held(one):
        return Reversion(files={}, held=(one,))
    file = Path(now.folder, one.file)
    before = read_file(one.file, str(file)) if file.exists() else None
    edit = _Edit(ref, None)
    if there is not None:
        content = read_file(there.file, str(Path(then.folder, there.file)))
        edit = _Edit(ref, there.value, _segment(content, there.index))
    return Reversion(files={one.file: _with(one.file, before, [edit])}, reverted=(one,))


def _insist_on_name(now: Settings, then: Settings, one: Reverted) -> None:
    """What has another name since would be let go of, and made anew under the one of then."""
    former = _former(one.now)
    then_called = one.ref._replace(name=former)
    if one.then is None and former and _find(then, then_called) is not None:
        raise _renamed(one.ref, then_called, one.ref)
    if one.now is None and (since := _renamed_to(now, one.ref)) is not None:
        raise _renamed(one.ref, one.ref, since)


def _renamed(ref: Ref, then: Ref, now: Ref) -> ProblemError:
    return refuse(
        "rollback_renamed",
        f"{now} was called {then.name} then: by text alone it would be let go of and made anew",
        f"rename it back by hand: name {then.name}, formerName {now.name}; then roll back {then}",
    )


def _former(value: Mapping[str, object] | None) -> str:
    metadata = (value or {}).get("metadata")
    return str(metadata.get("formerName", "")) if isinstance(metadata, Mapping) else ""


def _renamed_to(now: Settings, ref: Ref) -> Ref | None:
    """What says now that it had this name before."""
    for file in list_specs(now).files:
        content = read_file(file.name, file.path)
        if b"formerName" in content:
            for known, place in _places(file.name, content):
                if known._replace(name=ref.name) == ref and _former(place.value) == ref.name:
                    return known
    return None


def revert_all(now: Settings, then: Settings, held: Held | None) -> Reversion:
    """Every file of the spec root as it was `then`, but for documents that are `held`.

    Raises ProblemError where a file that would change cannot be read, and something may be held.
    """
    before, after = files_of(now), files_of(then)
    names = [name for name in sorted(before | after) if before.get(name) != after.get(name)]
    if held is not None:
        _insist_on_readable(names, before)
    documents = list(_reverted(now, names, before, after))
    differ = [one for one in documents if one.now != one.then]
    stay = tuple(one for one in differ if held is not None and held(one))
    kept = {one.ref for one in stay}
    files: dict[str, bytes | None] = {}
    for name in names:
        old, new = before.get(name), after.get(name)
        told = _documents(name, old).keys() | _documents(name, new).keys()
        # Whatever stays in it keeps the file, and all others of it are as they were then.
        made = new if not kept & told else _with(name, old, list(_edits(name, old, new, kept)))
        if made != old:
            files[name] = made
    changed = tuple(one for one in differ if one.ref not in kept)
    return Reversion(files=files, reverted=changed, held=stay)


def _insist_on_readable(names: Iterable[str], before: Mapping[str, bytes]) -> None:
    """What cannot be read may shut somebody out."""
    parsed = (read_documents(name, before[name]) for name in names if _is_spec(name, before))
    problems = tuple(problem for one in parsed if not one.complete for problem in one.problems)
    if problems:
        raise ProblemError(problems)


def _is_spec(name: str, files: Mapping[str, bytes]) -> bool:
    return name in files and name.endswith(ENDINGS)


def _edits(
    name: str, old: bytes | None, new: bytes | None, kept: Collection[Ref]
) -> Iterator[_Edit]:
    """All of one file, but for what is kept."""
    here, there = _documents(name, old), _documents(name, new)
    at = dict(_places(name, new or b""))
    for ref in sorted((here.keys() | there.keys()) - set(kept)):
        if ref not in there:
            yield _Edit(ref, None)
        elif here.get(ref) != there[ref]:
            yield _Edit(ref, there[ref], _segment(new or b"", at[ref].index))


def _reverted(
    now: Settings, names: Iterable[str], before: Mapping[str, bytes], after: Mapping[str, bytes]
) -> Iterator[Reverted]:
    """The documents of files that differ, each once."""
    here: dict[Ref, tuple[str, Mapping[str, object]]] = {}
    there: dict[Ref, tuple[str, Mapping[str, object]]] = {}
    root = now.spec_root.rstrip("/") + "/"
    for name in names:
        if not is_spec(name.removeprefix(root)):
            continue
        for found, content in ((here, before.get(name)), (there, after.get(name))):
            for ref, value in _documents(name, content).items():
                found[ref] = name, value
    for ref in sorted(here.keys() | there.keys()):
        mine, theirs = here.get(ref), there.get(ref)
        file = (mine or theirs or ("",))[0]
        yield Reverted(
            ref=ref,
            file=file,
            then=theirs[1] if theirs else None,
            now=mine[1] if mine else None,
        )


def _with(name: str, before: bytes | None, edits: Iterable[_Edit]) -> bytes | None:
    """The content of a file after these edits; None where no document is left in it."""
    mark = b"" if before is None else before.removesuffix(without_mark(before))
    text = "" if before is None else without_mark(before).decode("utf-8")
    wanted = _documents(name, before)
    for ref, value, segment in edits:
        index = next((at.index for known, at in _places(name, text.encode()) if known == ref), None)
        if value is None:
            wanted.pop(ref, None)
            text = removed(text, index) if index is not None else text
            continue
        wanted[ref] = value
        if index is not None:
            text = replaced(text, index, segment)
        else:
            text = appended(text, segment) if text else segment
    after = mark + text.encode("utf-8")
    parsed = read_documents(name, after)
    if not wanted and not parsed.documents:
        return None
    same = _documents(name, after) == wanted and _nameless(after) == _nameless(before or b"")
    if parsed.problems or not same:
        raise refuse(
            "edit_unsound",
            "it cannot be edited by a program: its layout would make more of it than was meant",
            f"take what you want out of it by hand: git show COMMIT:./{name}",
            source=Source(file=name, line=1, column=1),
        )
    return after


def _nameless(content: bytes) -> list[Mapping[str, object]]:
    """What it says without saying of what: nobody has asked for a change of that."""
    found = (one.document.value for one in read_documents("", content).documents)
    return [value for value in found if ref_of(value) is None]


def _segment(content: bytes, index: int) -> str:
    return segment_of(without_mark(content).decode("utf-8"), index)


def _find(settings: Settings, ref: Ref) -> _Place | None:
    """Where a document stands. Raises ProblemError where nobody can say, or it stands twice."""
    listing = list_specs(settings)
    problems: list[Problem] = list(listing.problems if listing.broken else ())
    found: list[_Place] = []
    for file in listing.files:
        content = read_file(file.name, file.path)
        # A name that is written by an escape stands in no text as it is.
        if ref.name.encode() not in content and b"\\" not in content:
            continue
        parsed = read_documents(file.name, content)
        if not parsed.complete:
            problems += parsed.problems
        found += (place for known, place in _places(file.name, content) if known == ref)
    if problems:
        raise ProblemError(tuple(problems))
    if len(found) > 1:
        raise refuse(
            "duplicate_resource",
            f"{ref} stands in {found[0].file} and in {found[1].file}",
            "which of them is meant nobody can say: take the files by git",
        )
    return found[0] if found else None


def _places(name: str, content: bytes) -> Iterator[tuple[Ref, _Place]]:
    for one in read_documents(name, content).documents:
        ref = ref_of(one.document.value)
        if ref is not None:
            yield ref, _Place(file=name, index=one.document.index, value=one.document.value)


def _documents(name: str, content: bytes | None) -> dict[Ref, Mapping[str, object]]:
    """What a file says by ref; nothing of what cannot be read, which is taken as a whole."""
    if content is None or documents_of(content) is None:
        return {}
    return {ref: place.value for ref, place in _places(name, content)}
