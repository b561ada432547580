"""`edit`: one document is changed in place; everything else in its file stays byte for byte.

What it would become is judged with the whole fleet around it before it replaces anything, and it
replaces only what it was made from.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace

from reconciler import shipped
from reconciler.kinds.allocation.spec import ALLOCATIONS
from reconciler.model.problem import Problem, ProblemError, refuse
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired
from reconciler.model.spec.resource import Resource
from reconciler.operations.edit.contract import WRITE, EditWish, SpecEdit
from reconciler.operations.fleet import Fleet
from reconciler.operations.references import ref_of, unknown
from reconciler.operations.specs import read_desired
from reconciler.specs.edit import edit as writer
from reconciler.specs.edit.draft import judge_draft, new_problems
from reconciler.specs.edit.edit import SpecChange
from reconciler.specs.git import git
from reconciler.specs.read.check_file import ref_of as claimed
from reconciler.specs.read.library import read_spec
from reconciler.specs.read.text import with_text
from reconciler.specs.read.yaml_reader import read_documents

Changes = Sequence[SpecChange]
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
"""As git counts lines, which is not as Python does."""

NO_FILE = "see what there is: gpuaas validate"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenSpec:
    """A file as it was when somebody began to edit it."""

    ref: Ref
    file: str
    document: int
    content: bytes
    desired: Desired = field(repr=False, compare=False)


def begin(fleet: Fleet, named: str) -> OpenSpec:
    """The file that holds a document, sound or not. Raises ProblemError `not_found`."""
    desired, ref = read_desired(fleet), ref_of(named)
    found = desired.resources.get(ref)
    file = found.file if found else _file_with_errors(desired, ref)
    content = read_spec(fleet.settings, file)
    return OpenSpec(
        ref=ref,
        file=file,
        document=found.document if found else _claiming(ref, file, content),
        content=content,
        desired=desired,
    )


def finish(
    fleet: Fleet, opened: OpenSpec, after: bytes, message: str, wish: EditWish = WRITE
) -> SpecEdit:
    """Put `after` in the place of what was opened. Raises ProblemError, and then nothing is
    written: for errors that it brings, where the document is gone from it, and `file_changed`.
    """
    made = SpecEdit(
        ref=str(opened.ref),
        file=opened.file,
        patch=patch(opened.file, opened.content, after),
        message=message,
    )
    if not made.changes:
        if wish.commit:
            git.insist_on_commit(fleet.settings, opened.file)
        return made
    made = replace(made, problems=_judged(fleet, opened, after))
    if not (wish.write or wish.commit):
        return made
    if wish.commit:
        git.insist_on_rest(fleet.settings, opened.file)
    writer.put_over(fleet.settings, opened.file, opened.content, after)
    commit = git.commit(fleet.settings, opened.file, message) if wish.commit else ""
    return replace(made, written=True, commit=commit)


def edit_document(
    fleet: Fleet,
    named: str,
    change: Callable[[Resource, Mapping[str, object]], Changes],
    message: str,
    wish: EditWish = WRITE,
) -> SpecEdit:
    """Make the changes that `change` finds for a sound allocation. Raises ProblemError."""
    opened = begin(fleet, named)
    if not any(ALLOCATIONS.among((opened.ref,))):
        known = ALLOCATIONS.among(opened.desired.resources)
        raise unknown(opened.ref, "no allocation", known)
    resource = opened.desired.resources.get(opened.ref)
    if resource is None:
        raise ProblemError(_own(opened.desired, opened.ref))
    value = document_of(opened, opened.content)
    changes = change(resource, value)
    after = writer.with_changes(opened.file, opened.content, opened.document, changes)
    return finish(fleet, opened, after, message, wish)


def document_of(opened: OpenSpec, content: bytes) -> Mapping[str, object]:
    """The document as it is written in `content`. Raises ProblemError.

    The file may have changed since its documents were counted.
    """
    parsed = read_documents(opened.file, content)
    if parsed.problems:
        raise ProblemError(with_text(parsed.problems, content))
    values = {one.document.index: one.document.value for one in parsed.documents}
    value = values.get(opened.document, {})
    if claimed(value) != opened.ref:
        raise refuse(
            "file_changed", f"{opened.file} was changed by somebody else", "run the command again"
        )
    return value


def patch(name: str, before: bytes, after: bytes) -> str:
    """The difference as `git diff` has it."""
    old, new = (_LINE.findall(text.decode("utf-8", "replace")) for text in (before, after))
    lines = difflib.unified_diff(old, new, f"a/{name}", f"b/{name}")
    return "".join(_ended(lines))


def _ended(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _judged(fleet: Fleet, opened: OpenSpec, after: bytes) -> tuple[Problem, ...]:
    with fleet.cache() as cache:
        found = judge_draft(fleet.settings, shipped.schemas(), cache, opened.file, after)
    problems = new_problems(opened.desired, found)
    if errors := tuple(one for one in problems if one.is_error):
        raise ProblemError(errors)
    gone = (ref for ref in _refs_in(opened) if not _is_there(ref, found))
    if (ref := next(gone, None)) is not None:
        raise refuse(
            "edit_unsound",
            f"{ref} would no longer be there: applied, that releases it",
            "to rename it, leave its old name as metadata.formerName; to remove it, remove it from"
            " the file by hand",
        )
    return problems


def _refs_in(opened: OpenSpec) -> tuple[Ref, ...]:
    """What was opened, and what else stands in its file, sound or not."""
    desired, parsed = opened.desired, read_documents(opened.file, opened.content)
    stand = (claimed(one.document.value) for one in parsed.documents)
    there = (ref for ref in stand if ref in desired.resources or ref in desired.frozen)
    return tuple(dict.fromkeys((opened.ref, *filter(None, there))))


def _is_there(ref: Ref, found: Desired) -> bool:
    return found.names(ref) or any(
        one.former_name == ref.name and one.ref.project == ref.project for one in found.of(ref.kind)
    )


def _file_with_errors(desired: Desired, ref: Ref) -> str:
    """Where a document stands that may not be acted on."""
    known = frozenset((*desired.resources, *desired.frozen))
    if ref in desired.frozen:
        places = (one.source for one in _own(desired, ref))
        if file := next((one.file for one in places if one and one.file), ""):
            return file
    raise unknown(ref, "in no file", known, NO_FILE)


def _claiming(ref: Ref, file: str, content: bytes) -> int:
    """The number of a document with errors; the first where it cannot be told."""
    documents = [one.document for one in read_documents(file, content).documents]
    return next((one.index for one in documents if claimed(one.value) == ref), 0)


def _own(desired: Desired, ref: Ref) -> tuple[Problem, ...]:
    """What is wrong with a document, or else with all of them."""
    errors = tuple(one for one in desired.problems if one.is_error)
    return tuple(one for one in errors if one.ref == str(ref)) or errors


def mapping_of(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}
