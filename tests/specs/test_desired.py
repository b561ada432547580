"""The whole fleet: all problems at once, each in its place, and nothing broken taken for gone."""

from __future__ import annotations

import pytest

from reconciler.model.problem import Problem
from reconciler.model.ref import Ref
from reconciler.specs.desired import locate
from tests.specs.small_fleet import ALLOCATION, PEOPLE, Fleet, allocation

TRAIN = Ref("allocation", "vision", "train")


def seen(problem: Problem) -> tuple[str, int, str]:
    assert problem.source is not None
    return problem.source.file, problem.source.line, problem.code


BROKEN: dict[str, tuple[str | bytes, int, str]] = {
    "01": ("a: 1\n\tb: 2\n", 2, "yaml_syntax"),
    "02": ("apiVersion: gpuaas/v1\nkind: [a\n", 2, "yaml_syntax"),
    "03": (allocation("b03") + "  owner: bo\n", 9, "yaml_duplicate_key"),
    "04": (allocation("b04") + "  protect: yes\n", 9, "yaml_ambiguous"),
    "05": (allocation("b05") + "  node: ~\n", 9, "yaml_null"),
    "06": (allocation("b06") + "  access: &a [*a]\n", 9, "yaml_alias"),
    "07": (allocation("b07") + "  access: !!set [ana]\n", 9, "yaml_tag"),
    "08": (
        allocation("b08").replace("sku: small", "skuu: small\n  sku: small"),
        7,
        "field_unknown",
    ),
    "09": (allocation("b09").replace("  sku: small\n", ""), 6, "field_missing"),
    "10": (allocation("B10"), 4, "value_pattern"),
    "11": (allocation("b11") + "  protect: 1\n", 9, "value_type"),
    "12": (allocation("b12") + "  storage: [{name: d, mode: rx}]\n", 9, "value_choice"),
    "13": (allocation("b13").replace("Allocation", "Allocaton"), 2, "kind_unknown"),
    "14": (allocation("b14").replace("v1", "v2"), 1, "api_version_unknown"),
    "15": ("<<<<<<< ours\n" + allocation("b15"), 1, "merge_conflict_markers"),
    "16": (allocation("b16").encode("utf-16"), 1, "encoding_unsupported"),
    "17": ("- a list\n", 1, "document_not_mapping"),
    "18": (allocation("b18").replace("owner: ana", "owner: anna"), 8, "dangling_reference"),
    "19": (allocation("b19") + "  access: [ana, ana]\n", 9, "value_repeated"),
    "20": (allocation("b20") + "1: x\n", 9, "yaml_key_not_text"),
}


def test_twenty_broken_files_show_twenty_problems(fleet: Fleet) -> None:
    """F-CLI-04, F-REC-02: with the right line each, in order, and everything else untouched."""
    for name, (content, _, _) in BROKEN.items():
        fleet.write(f"broken/{name}.yaml", content)
    problems = fleet.problems()
    assert [seen(problem) for problem in problems] == [
        (f"specs/broken/{name}.yaml", line, code) for name, (_, line, code) in BROKEN.items()
    ]
    for problem in problems:
        assert problem.source and problem.source.column >= 1 and problem.hint, problem
        content = BROKEN[problem.source.file[-7:-5]][0]
        if isinstance(content, str):
            assert problem.source.text == content.split("\n")[problem.source.line - 1]
    assert TRAIN in fleet.load().resources


def test_what_is_broken_is_frozen_and_never_missing(fleet: Fleet) -> None:
    """F-REC-02: an unreadable file is named, a document with a known ref frozen by it."""
    fleet.write("syntax.yaml", allocation("one") + "---\n" + allocation("two") + "\tx: 1\n")
    fleet.write("schema.yaml", allocation("three") + "---\n" + allocation("four") + "  gpus: 2\n")
    fleet.write("nameless.yaml", allocation("no").replace("name: no", "nam: x"))
    desired = fleet.load()

    def ref(name: str) -> Ref:
        return Ref("allocation", "vision", name)

    assert desired.broken == {"specs/syntax.yaml", "specs/nameless.yaml"}
    assert desired.frozen == {ref("one"), ref("four")}
    assert {TRAIN, ref("three")} <= desired.resources.keys()
    assert not {ref("one"), ref("two"), ref("four")} & desired.resources.keys()


def test_one_ref_in_two_places_names_both_and_freezes_both(fleet: Fleet) -> None:
    fleet.write("again.yaml", "# a copy\n" + allocation("train"))
    first, second = fleet.problems()
    assert seen(first) == ("specs/again.yaml", 2, "duplicate_resource")
    assert "specs/vision/train.yaml:1" in first.message
    assert seen(second) == ("specs/vision/train.yaml", 1, "duplicate_resource")
    assert "specs/again.yaml:2" in second.message
    assert second.source and second.source.text == "apiVersion: gpuaas/v1"
    desired = fleet.load()
    assert TRAIN in desired.frozen and TRAIN not in desired.resources


def test_a_reference_to_a_duplicate_is_ambiguous(fleet: Fleet) -> None:
    fleet.write("more.yaml", PEOPLE.split("---\n")[1])
    fleet.write("bos.yaml", allocation("bos").replace("ana", "bo"))
    codes = [p.code for p in fleet.problems() if p.source and p.source.file == "specs/bos.yaml"]
    assert codes == ["ambiguous_reference"]


def test_a_reference_to_nothing_names_the_nearest(fleet: Fleet) -> None:
    fleet.write("x.yaml", allocation("x").replace("small", "smal"))
    problem = next(p for p in fleet.problems() if p.code == "dangling_reference")
    assert problem.source and problem.source.dotted == "spec.sku"
    assert (problem.source.line, problem.source.column) == (7, 8)
    assert problem.hint == "did you mean `small`?"


def test_a_reference_into_a_broken_file_says_so(fleet: Fleet) -> None:
    """A dangling user blocks that resource only."""
    fleet.write("people.yaml", PEOPLE + "\t")
    problems = [p for p in fleet.problems() if p.code == "dangling_reference"]
    assert problems and all("specs/people.yaml" in p.hint for p in problems)
    assert Ref("sku", "", "small") in fleet.load().resources


def test_a_reference_to_a_frozen_resource_is_no_error(fleet: Fleet) -> None:
    """A broken document freezes itself and nobody else."""
    fleet.write("people.yaml", PEOPLE.replace("[ana@corp.example]", "[]"))
    assert [p.code for p in fleet.problems()] == ["value_range"]
    assert TRAIN in fleet.load().resources


@pytest.mark.parametrize(
    ("rule", "allowed"),
    [
        ("{path: 'vision/**', kinds: [Allocation, Project], projects: [vision]}", True),
        ("{path: 'vision/*', kinds: [Grant]}", False),
        ("{path: 'vision', projects: [nlp]}", False),
        ("{path: 'visio', projects: [nlp]}", True),
        ("{path: '*/train.yaml', projects: [nlp]}", False),
        ("{path: '**/train.yaml', projects: [nlp]}", False),
        ("{path: 'train.yaml', projects: [nlp]}", True),
        ("{path: 'people.yaml', projects: [vision]}", False),
        ("{path: 'people.yaml', kinds: [User], projects: [vision]}", True),
    ],
)
def test_who_may_write_what(fleet: Fleet, rule: str, allowed: bool) -> None:
    """Rule 19"""
    (fleet.folder / "gpuaas.yaml").write_text(
        f"operators: [ana]\nownership:\n  - {rule}\n  - {{path: '**'}}\n"
    )
    outside = [p for p in fleet.problems() if p.code == "document_outside_ownership"]
    assert bool(outside) is not allowed
    assert all(p.source and p.source.line and p.source.text for p in outside)
    assert not {p.ref for p in outside} & {str(ref) for ref in fleet.load().resources}


def test_a_kinds_name_is_no_project(fleet: Fleet) -> None:
    text = (fleet.folder / "specs/vision/project.yaml").read_text()
    fleet.write("user.yaml", text.replace("name: vision", "name: user"))
    problem = fleet.one()
    assert seen(problem) == ("specs/user.yaml", 3, "name_reserved")


def test_secrets_are_found_and_not_repeated(fleet: Fleet) -> None:
    key = "-----BEGIN OPENSSH PRIVATE KEY----- b3BlbnNzaC1rZXktdjEAAAAA"
    user = PEOPLE.split("spec:")[0].replace("ana", "cy")
    keys = f'[{{id: k, publicKey: "{key}"}}]'
    fleet.write("x.yaml", f"{user}spec: {{emails: [cy@corp.example], keys: {keys}}}\n")
    fleet.write("y.yaml", allocation("y") + "  password: hunter2-and-more\n")
    problems = fleet.problems()
    assert {p.code for p in problems} >= {"private_key_in_spec", "secret_in_spec"}
    assert "b3Blbn" not in repr(problems) and "hunter2" not in repr(problems)


def test_spelling_does_not_change_the_digest(fleet: Fleet) -> None:
    """F-PAR-13, F-PAR-17: comments, order, line ends, a mark and 1.0 for 1 are no change."""
    text = ALLOCATION.format(name="train") + "  restart: {generation: 1, reason: x}\n"
    fleet.write("vision/train.yaml", text)
    before = fleet.load()
    other = (
        "# why\nkind: Allocation\napiVersion: gpuaas/v1\nspec:\n"
        "  restart: {reason: 'x', generation: 1.0}\n  owner: \"ana\"\n  sku: small\n"
        "metadata: {project: vision, name: train}\n"
    )
    for content in (other, "\ufeff" + text, text.replace("\n", "\r\n")):
        fleet.write("vision/train.yaml", content)
        after = fleet.load()
        assert after.resources[TRAIN].digest == before.resources[TRAIN].digest
        assert after.digest == before.digest


def test_the_digest_follows_meaning_and_breakage(fleet: Fleet) -> None:
    before = fleet.load().digest
    fleet.write("vision/train.yaml", allocation("train") + "  protect: true\n")
    changed = fleet.load().digest
    fleet.write("vision/train.yaml", allocation("train") + "  protect: on\n")
    assert len({before, changed, fleet.load().digest}) == 3


def test_two_people_only_see_their_own_paths(fleet: Fleet) -> None:
    """`validate PATH` looks at the path with the whole fleet around it."""
    one = fleet.write("one.yaml", allocation("one") + "  gpus: 1\n")
    fleet.write("two.yaml", allocation("two") + "  gpus: 1\n")
    problems = fleet.load(paths=[one]).problems
    assert [seen(p)[0] for p in problems] == ["specs/one.yaml"]
    assert not fleet.load(paths=[fleet.folder / "specs" / "vision"]).problems
    assert fleet.load(paths=[one.parent]).problems


def test_paths_outside_the_root_stand_alone(fleet: Fleet) -> None:
    examples = fleet.folder / "examples"
    examples.mkdir()
    (examples / "x.yaml").write_text(allocation("train"))
    codes = {p.code for p in fleet.load(paths=[examples]).problems}
    assert codes == {"dangling_reference"}
    (examples / "x.yaml").write_text(PEOPLE)
    assert not fleet.load(paths=[examples / "x.yaml"]).problems


def test_locate_fills_in_lines(fleet: Fleet) -> None:
    resource = fleet.load().resources[TRAIN]
    problem = Problem(code="in_use", message="x", source=resource.source("spec", "owner"))
    [located] = locate(fleet.settings, [problem])
    assert located.source is not None
    assert (located.source.line, located.source.column) == (8, 10)
    assert located.source.text == "  owner: ana"
    [gone] = locate(fleet.settings, [problem.at(resource.source("spec"))])
    assert gone.source and gone.source.line == 6
    (fleet.folder / "specs/vision/train.yaml").unlink()
    assert locate(fleet.settings, [problem]) == (problem,)
