"""`new`: a new document is drafted, judged with the whole fleet around it, and written.

Files only: the state is read for what is free, and nothing is written to it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path

from reconciler import shipped
from reconciler.model.canonical import canonical
from reconciler.model.problem import Problem, ProblemError, Severity, refuse
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired
from reconciler.model.spec.features import FEATURES
from reconciler.model.spec.ownership import may_stand
from reconciler.model.spec.resource import Resource
from reconciler.operations.fleet import Fleet
from reconciler.operations.inventory.stock import Stock, take_stock
from reconciler.operations.new.contract import Answers, Confirm, Form, Scene, SpecDraft
from reconciler.operations.new.place import place_of
from reconciler.operations.new.text import with_modeline
from reconciler.operations.person import person
from reconciler.operations.specs import read_desired
from reconciler.specs.edit import edit
from reconciler.specs.edit.draft import judge_draft, new_problems
from reconciler.specs.git import git
from reconciler.specs.read.yaml_reader import read_documents
from reconciler.store.snapshot import read_world


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSpec:
    """What is to be written, and what no YAML shows of it.

    `problems` are warnings of the fleet that this document brings. `written` and `commit` say what
    was done with it.
    """

    ref: str
    file: str
    yaml: str
    facts: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    written: bool = False
    commit: str = ""

    @property
    def message(self) -> str:
        return f"New {self.ref}"


def scene_of(fleet: Fleet, confirm: Confirm = lambda keys: False) -> Scene:
    """What there is to choose from. Raises ProblemError where specs or state cannot be read."""
    desired = read_desired(fleet)
    return Scene(
        fleet=fleet,
        desired=desired,
        now=fleet.now(),
        stock=_stock(fleet) if fleet.database_file.exists() else None,
        me=_me(fleet, desired),
        confirm=confirm,
    )


def _stock(fleet: Fleet) -> Stock:
    with fleet.reading() as database:
        return take_stock(fleet.settings, read_world(database), fleet.now())


def _me(fleet: Fleet, desired: Desired) -> str:
    try:
        return person(fleet, desired, "asks")
    except ProblemError:
        return ""


def insist_on_place(fleet: Fleet, file: Path | None, *, commit: bool) -> None:
    """Raise ProblemError for what would keep any document out of `file` or out of a commit: before
    somebody answers questions in vain.
    """
    name = _new_name(fleet, file) if file else fleet.settings.spec_root
    if commit:
        git.insist_on_rest(fleet.settings, name)


def _new_name(fleet: Fleet, file: Path) -> str:
    name = edit.new_name(fleet.settings, file)
    if os.path.lexists(fleet.folder / name):
        raise refuse("file_exists", f"{name} is there already", "name another file: --file FILE")
    return name


def prepare(form: Form, scene: Scene, answers: Answers, file: Path | None = None) -> NewSpec:
    """The new document in its file, sound with the whole fleet around it; nothing is written.

    Raises ProblemError with everything that is wrong with it.
    """
    fleet, drafted = scene.fleet, form.draft(scene, answers)
    ref = _ref_of(form, drafted)
    settings = fleet.settings
    name = _new_name(fleet, file) if file else place_of(scene.desired, form, ref)
    if not may_stand(settings, ref, name):
        raise refuse(
            "document_outside_ownership",
            f"{ref} may not stand in {name}",
            "name another file; which may hold it says `ownership` in gpuaas.yaml",
        )
    text = with_modeline(fleet, form.kind, name, drafted.text)
    resource, warnings = _judged(scene, ref, name, text, drafted)
    facts = form.facts(scene, answers, resource)
    return NewSpec(
        ref=str(ref),
        file=name,
        yaml=text,
        facts={label: told for label, told in facts.items() if told},
        notes=drafted.notes,
        problems=warnings,
    )


def insist_on_supported(form: Form) -> None:
    """Raises ProblemError `not_yet_supported` for what this version would only keep as a text."""
    if form.gate:
        feature = FEATURES[form.gate]
        raise refuse(
            feature.code,
            f"{feature.what} are not built yet, so a new {form.kind} would do nothing",
            "to see the document: --print; what is built: gpuaas features",
        )


def write(fleet: Fleet, made: NewSpec, *, commit: bool) -> NewSpec:
    """Put it into its file, which must not be there yet, and commit that file if asked to."""
    if commit:
        git.insist_on_rest(fleet.settings, made.file)
    edit.create(fleet.settings, fleet.folder / made.file, made.yaml)
    done = git.commit(fleet.settings, made.file, made.message) if commit else ""
    return replace(made, written=True, commit=done)


def _ref_of(form: Form, drafted: SpecDraft) -> Ref:
    metadata = drafted.documents[-1]["metadata"]
    said: Mapping[str, str] = metadata if isinstance(metadata, Mapping) else {}
    return Ref(form.kind, said.get("project", ""), said["name"])


def _judged(
    scene: Scene, ref: Ref, name: str, text: str, drafted: SpecDraft
) -> tuple[Resource, tuple[Problem, ...]]:
    """As it would be read. Raises ProblemError for errors, and for a text that says anything else
    than was answered.
    """
    content = text.encode("utf-8")
    read = [one.document.value for one in read_documents(name, content).documents]
    if canonical(read) != canonical(list(drafted.documents)):
        raise refuse(
            "edit_unsound",
            "the document would not be read as it was answered",
            "write it by hand: gpuaas schema says what may stand there",
        )
    fleet = scene.fleet
    with fleet.cache() as cache:
        after = judge_draft(fleet.settings, shipped.schemas(), cache, name, content)
    found = new_problems(scene.desired, after)
    if errors := tuple(one for one in found if one.is_error):
        raise ProblemError(errors)
    resource = after.resources.get(ref)
    if resource is None:
        own = tuple(one for one in after.problems if one.is_error)
        raise ProblemError(own) if own else refuse("edit_unsound", f"{ref} would not be there")
    warnings = tuple(one for one in found if one.severity is Severity.WARNING)
    return resource, warnings
