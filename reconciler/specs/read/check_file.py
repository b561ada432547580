"""One file's content to resources: parsed, validated and typed, or everything wrong in it.

The same function serves every way to load: here and now, in a helper process, and for a file
that is read again because somebody must be shown the line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from reconciler.kinds.checks.secrecy import find_secrets, is_suspicious
from reconciler.kinds.registry import KINDS
from reconciler.model.canonical import digest
from reconciler.model.codec import encode
from reconciler.model.problem import PathPart, Problem
from reconciler.model.records import dataclass
from reconciler.model.ref import KIND_WORDS, PROJECT_KINDS, Ref, is_name
from reconciler.model.spec.reading import LETS_IN, Reading
from reconciler.model.spec.resource import Resource
from reconciler.specs.read.glimpse import suspended_in
from reconciler.specs.read.suggest import did_you_mean
from reconciler.specs.read.syntax import PROBLEM_LIMIT, TOO_MANY
from reconciler.specs.read.text import with_text
from reconciler.specs.read.validation import check_document, validator_of
from reconciler.specs.read.yaml_reader import Located, Parsed, read_documents

API_VERSION = "gpuaas/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsound:
    """A document with errors: what it claims to be, where it begins, and what it says of people."""

    ref: Ref
    line: int
    reading: Reading | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedFile:
    """What a file says.

    `frozen` are its documents with errors; `suspended` are the people whom its text calls so where
    it has errors. `broken` says that a document of it could not be told from another, or that the
    file could not be read to its end.
    """

    file: str
    resources: tuple[Resource, ...] = ()
    frozen: tuple[Unsound, ...] = ()
    suspended: tuple[Ref, ...] = ()
    problems: tuple[Problem, ...] = ()
    broken: bool = False


class Judge:
    """The schemas, each made ready when the first document of its kind is met."""

    __slots__ = ("_schemas",)

    def __init__(self, schemas: Mapping[str, str]) -> None:
        self._schemas = schemas

    def judge(self, file: str, content: bytes) -> CheckedFile:
        """Everything the content says and everything wrong with it, in its place."""
        parsed = read_documents(file, content)
        problems = list(parsed.problems)
        resources: list[Resource] = []
        frozen: list[Unsound] = []
        broken = not parsed.complete
        suspicious = is_suspicious(content)
        for located in parsed.documents:
            document, ref = located.document, ref_of(located.document.value)
            known = _of_document(parsed, document.index)
            looking = len(problems) <= PROBLEM_LIMIT
            found = self._check(located, known, suspicious) if looking else [TOO_MANY]
            problems += found if looking else ()
            if not (known or found) and parsed.complete and ref is not None:
                resources.append(_resource(located, ref))
            elif ref is not None:
                frozen.append(_unsound(located, ref))
            broken = broken or bool(known) or ref is None
        return CheckedFile(
            file=file,
            resources=tuple(resources),
            frozen=tuple(frozen),
            suspended=tuple(suspended_in(content)) if any(p.is_error for p in problems) else (),
            problems=with_text(_few(problems), content),
            broken=broken or any(problem.is_error for problem in parsed.problems),
        )

    def _check(
        self, located: Located, known: tuple[Problem, ...], suspicious: bool
    ) -> list[Problem]:
        value = located.document.value
        found = list(islice(secrets_of(located), PROBLEM_LIMIT)) if suspicious else []
        found += _envelope(located, known)
        word = KIND_WORDS.get(str(value.get("kind")))
        if word is not None:
            found += check_document(located, validator_of(self._schemas[word]), (*known, *found))
        return found


def ref_of(value: Mapping[str, Any]) -> Ref | None:
    """The ref a document claims, whatever else is wrong with it; None if that cannot be said."""
    word = KIND_WORDS.get(str(value.get("kind")))
    metadata = value.get("metadata")
    if word is None or not isinstance(metadata, dict):
        return None
    project = metadata.get("project") if word in PROJECT_KINDS else ""
    name = metadata.get("name")
    if not (isinstance(name, str) and is_name(name) and isinstance(project, str)):
        return None
    return Ref(word, project, name) if is_name(project) or not project else None


def restore(file: str, row: list[Any]) -> Resource:
    """A resource from its stored form."""
    document, line, kind, project, name, former, normal, normal_digest = row
    return Resource(
        ref=Ref(kind, project, name),
        spec=KINDS[kind].parse(normal["spec"], name),
        normal=normal,
        digest=normal_digest,
        file=file,
        document=document,
        line=line,
        former_name=former,
    )


def store(resource: Resource) -> list[object]:
    """The form in which `restore` wants it."""
    return [
        resource.document,
        resource.line,
        *resource.ref,
        resource.former_name,
        resource.normal,
        resource.digest,
    ]


def _resource(located: Located, ref: Ref) -> Resource:
    document = located.document
    metadata = document.value["metadata"]
    typed = KINDS[ref.kind].parse(document.value["spec"], ref.name)
    normal = {"labels": metadata.get("labels", {}), "spec": encode(typed)}
    return Resource(
        ref=ref,
        spec=typed,
        normal=normal,
        digest=digest(normal),
        file=document.file,
        document=document.index,
        line=document.line,
        former_name=metadata.get("formerName", ""),
    )


def _unsound(located: Located, ref: Ref) -> Unsound:
    document = located.document
    spec = document.value.get("spec")
    said = spec if isinstance(spec, dict) else {}
    reading = Reading(file=document.file, spec=said) if ref.kind in LETS_IN else None
    return Unsound(ref=ref, line=document.line, reading=reading)


def secrets_of(located: Located) -> Iterator[Problem]:
    """Everything in a document that git must not keep, in its place."""
    for secret in find_secrets(located.document.value):
        yield Problem(
            code=secret.code,
            message=secret.message,
            hint=secret.hint,
            source=located.source(secret.path, key=secret.is_key),
        )


def _envelope(located: Located, known: tuple[Problem, ...]) -> Iterator[Problem]:
    """What must be right before a document means anything: its kind and version."""
    value = located.document.value
    broken = {problem.source.path[:1] for problem in known if problem.source}
    kind, version = value.get("kind"), value.get("apiVersion")
    if str(kind) not in KIND_WORDS and ("kind",) not in broken:
        message = f"there is no kind `{kind}`" if kind else "this document states no kind"
        hint = did_you_mean(str(kind or ""), KIND_WORDS, limit=20)
        yield _at(located, ("kind",), "kind_unknown", message, hint)
    if version != API_VERSION and ("apiVersion",) not in broken:
        message = f"there is no apiVersion `{version}`" if version else "no apiVersion is stated"
        hint = f"write `apiVersion: {API_VERSION}`"
        yield _at(located, ("apiVersion",), "api_version_unknown", message, hint)


def _few(problems: list[Problem]) -> list[Problem]:
    """The problems that are shown, and that there are more."""
    if len(problems) <= PROBLEM_LIMIT:
        return problems
    *told, more = problems[: PROBLEM_LIMIT + 1]
    return [*told, replace(TOO_MANY, source=more.source)]


def _at(
    located: Located, path: tuple[PathPart, ...], code: str, message: str, hint: str
) -> Problem:
    return Problem(code=code, message=message, hint=hint, source=located.source(path))


def _of_document(parsed: Parsed, index: int) -> tuple[Problem, ...]:
    return tuple(
        problem
        for problem in parsed.problems
        if problem.is_error and problem.source and problem.source.document == index
    )
