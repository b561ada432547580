"""A new node: what a host says of itself is asked for, shown, and written for people to approve."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.model.problem import ProblemError, refuse
from reconciler.operations.new.answers import from_options
from reconciler.operations.new.contract import Answers, Scene
from reconciler.operations.new.forms import node as node_form
from reconciler.operations.new.new import prepare, scene_of, write
from reconciler.operations.node.enroll import Discovered, Target
from tests.harness.yard import Yard, laid, node

HOSTILE = "x\x1b[2J\nspec: {address: evil}"


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return laid(tmp_path / "fleet", {"gpu01": 2})


def answers(scene: Scene, **given: str) -> Answers:
    texts = {name.replace("_", "-"): (text,) for name, text in given.items()}
    return from_options(node_form.FORM, scene, texts, may_ask=False)


def says(monkeypatch: pytest.MonkeyPatch, document: dict[str, Any], *notes: str) -> list[Target]:
    """Whatever host is asked, it is this one; which were asked."""
    asked: list[Target] = []

    def discover(fleet: Any, target: Target, confirm: Any) -> Discovered:
        asked.append(target)
        name = document["metadata"]["name"]
        return Discovered(name=name, documents=(document,), source="host", notes=notes)

    monkeypatch.setattr(node_form, "discover", discover)
    return asked


def test_a_host_becomes_a_spec_and_gives_out_nothing(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = says(monkeypatch, node("gpu09", 2, covers=()), HOSTILE)
    scene = scene_of(yard.fleet())
    made = prepare(node_form.FORM, scene, answers(scene, address="gpu09.corp.example"))
    assert [(one.address, one.name, one.port) for one in asked] == [
        ("gpu09.corp.example", "gpu09", 22)
    ]
    assert made.file == "specs/node/gpu09.yaml" and made.notes == (HOSTILE,)
    assert HOSTILE not in made.yaml, "what a host says of itself stands in no comment"
    assert "gpuaas node approve gpu09" in made.facts["then"]
    write(yard.fleet(), made, commit=False)
    assert yaml.safe_load((yard.folder / made.file).read_text()) == node("gpu09", 2, covers=())
    assert yard.gpuaas("validate").code == 0
    shown = yard.gpuaas("node", "show", "gpu09").document["result"]
    assert {slot["state"] for slot in shown["slots"]} == {"not_approved"}


def test_a_machine_that_is_known_is_not_written_again(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    says(monkeypatch, node("gpu01", 2, covers=()))
    scene, before = scene_of(yard.fleet()), sorted(yard.specs.rglob("*"))
    with pytest.raises(ProblemError) as refused:
        prepare(node_form.FORM, scene, answers(scene, address="10.0.0.1", name="gpu09"))
    assert "duplicate_resource" in {one.code for one in refused.value.problems}
    assert sorted(yard.specs.rglob("*")) == before


@pytest.mark.parametrize("address", ["local", "", "10.0.0.1"])
def test_an_address_that_gives_no_name_needs_one(yard: Yard, address: str) -> None:
    scene = scene_of(yard.fleet())
    with pytest.raises(ProblemError) as refused:
        answers(scene, address=address)
    assert refused.value.problems[0].code == "usage"


def test_a_host_that_does_not_answer_is_no_node(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    def discover(*words: Any) -> Discovered:
        raise refuse("host_unreachable", "nobody answers")

    monkeypatch.setattr(node_form, "discover", discover)
    said = yard.gpuaas("new", "node", "--address", "gpu09.corp.example")
    assert (said.code, said.problems) == (1, ["host_unreachable"])
    assert not (yard.specs / "node/gpu09.yaml").exists()
