"""The fleet of docs/reference/examples, to be spoilt in one place by a test."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from reconciler.kinds.registry import KINDS
from reconciler.model.canonical import digest
from reconciler.model.codec import encode
from reconciler.model.problem import Problem
from reconciler.model.ref import KIND_WORDS, Ref, parse_ref
from reconciler.model.settings import Settings
from reconciler.model.spec.desired import Desired
from reconciler.model.spec.resource import Resource
from reconciler.specs.read.yaml_reader import read_documents

EXAMPLES = Path(__file__).parents[2] / "docs" / "reference" / "examples"


@cache
def examples() -> Mapping[Ref, Mapping[str, Any]]:
    found: dict[Ref, Mapping[str, Any]] = {}
    for path in sorted(EXAMPLES.glob("*.yaml")):
        parsed = read_documents(path.name, path.read_bytes())
        assert not parsed.problems, parsed.problems
        for located in parsed.documents:
            value = located.document.value
            metadata = value["metadata"]
            ref = Ref(KIND_WORDS[value["kind"]], metadata.get("project", ""), str(metadata["name"]))
            found[ref] = value
    return found


class Fleet:
    """Documents by ref, each a copy of its own; `fleet["user/ana"]` is a spec to be changed."""

    def __init__(self, operators: tuple[str, ...] = ("olga",)) -> None:
        self.documents: dict[Ref, Any] = copy.deepcopy(dict(examples()))
        self.settings = Settings(folder="/fleet", operators=operators)

    def __getitem__(self, ref: str) -> dict[str, Any]:
        spec: dict[str, Any] = self.documents[_ref(ref)]["spec"]
        return spec

    def add(self, ref: str, like: str, **spec: Any) -> dict[str, Any]:
        """One more resource, a copy of another with some fields replaced."""
        new = copy.deepcopy(self.documents[_ref(like)])
        new["metadata"]["name"] = _ref(ref).name
        new["spec"].update(spec)
        self.documents[_ref(ref)] = new
        return self[ref]

    def remove(self, ref: str) -> None:
        del self.documents[_ref(ref)]

    def desired(self) -> Desired:
        resources = {ref: _resource(ref, value) for ref, value in self.documents.items()}
        return Desired(settings=self.settings, resources=resources, digest="")

    def resource(self, ref: str) -> Resource:
        return _resource(_ref(ref), self.documents[_ref(ref)])

    def problems(self, ref: str) -> list[Problem]:
        desired = self.desired()
        return list(KINDS[_ref(ref).kind].check(desired.resources[_ref(ref)], desired))

    def only(self, ref: str) -> Problem:
        """The one problem that the resource has."""
        (problem,) = self.problems(ref)
        assert problem.hint, problem
        assert problem.ref == ref
        return problem

    def unsupported(self, ref: str) -> str:
        return KINDS[_ref(ref).kind].unsupported(self.resource(ref))


def _ref(text: str) -> Ref:
    ref = parse_ref(text)
    assert ref is not None, text
    return ref


def _resource(ref: Ref, value: Mapping[str, Any]) -> Resource:
    spec = KINDS[ref.kind].parse(value["spec"], ref.name)
    normal = {"labels": value["metadata"].get("labels", {}), "spec": encode(spec)}
    return Resource(
        ref=ref, spec=spec, normal=normal, digest=digest(normal), file=f"{ref.kind}.yaml"
    )
