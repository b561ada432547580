"""Editing: a file says one thing more, and every other character of it is where it was."""

from __future__ import annotations

import difflib
import os
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from reconciler.model.problem import ProblemError
from reconciler.specs.edit import edit
from reconciler.specs.edit.edit import add_entry, create, entry_added, entry_removed, values_set
from reconciler.specs.read.yaml_reader import read_documents
from tests import privileges
from tests.specs.small_fleet import Fleet

PATH = ("spec", "approvals")
ENTRY = {"by": "olga", "at": "2026-11-20T09:12:00Z", "covers": ["host", "no"], "digest": "sha256:a"}
FLOW = '{by: olga, at: "2026-11-20T09:12:00Z", covers: [host, "no"], digest: "sha256:a"}'
LINES = (
    "- by: olga",
    '  at: "2026-11-20T09:12:00Z"',
    '  covers: [host, "no"]',
    '  digest: "sha256:a"',
)


def added(before: str, document: int = 0) -> str:
    return entry_added("x.yaml", before.encode(), document, PATH, ENTRY).decode()


def new_lines(before: str, after: str) -> list[str]:
    """The lines that are new; not one old line may be gone."""
    changes = list(difflib.ndiff(before.splitlines(), after.splitlines()))
    assert not [line for line in changes if line.startswith("- ")], changes
    return [line[2:] for line in changes if line.startswith("+ ")]


def values(text: str) -> list[Any]:
    parsed = read_documents("x.yaml", text.encode())
    assert not parsed.problems
    return [one.document.value for one in parsed.documents]


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        pytest.param(
            'spec:\n  approvals: # the newest counts\n    - by: ana   # x\n      at: "1"\n'
            "  # of what follows\n  z: 1\n",
            [f"    {line}" for line in LINES],
            id="as the others are written",
        ),
        pytest.param(
            "spec:\n  approvals:\n  -   by: ana\n      covers:\n      - host\n",
            ["  -   by: olga", *(f"    {line}" for line in LINES[1:])],
            id="as far in as the others",
        ),
        pytest.param(
            "spec:\n  approvals:\n    - {by: ana, covers: [host,\n       s0]} # x\n\n\n---\nb: 1\n",
            [f"    - {FLOW}"],
            id="on one line like the others",
        ),
        pytest.param(
            "# a\nspec:\n    a: 'x'   # y\n    slots:\n    - {b: 2}\n\n# end\n",
            ["    approvals:", *(f"    {line}" for line in LINES)],
            id="a first one, its dash where other dashes stand",
        ),
        pytest.param(
            "spec: # x\n  a: 1\n...\n",
            ["  approvals:", *(f"    {line}" for line in LINES)],
            id="a first one, without any list to go by",
        ),
    ],
)
def test_new_lines_and_no_others(before: str, expected: list[str]) -> None:
    after = added(before)
    assert new_lines(before, after) == expected
    assert values(after)[0]["spec"]["approvals"][-1] == ENTRY


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("spec: {a: 1, approvals: []}\n", f"spec: {{a: 1, approvals: [{FLOW}]}}\n"),
        ("spec: {a: 1,}", f"spec: {{a: 1, approvals: [{FLOW}],}}"),
        (
            "spec: {approvals: [{by: a}, {by: b}]} # x\n",
            f"spec: {{approvals: [{{by: a}}, {{by: b}}, {FLOW}]}} # x\n",
        ),
        (
            "spec:\n  approvals: [\n    {by: a},\n    {by: b}]\n",
            f"spec:\n  approvals: [\n    {{by: a}},\n    {{by: b}},\n    {FLOW}]\n",
        ),
        (
            "spec:\n  approvals: []   # none\n  b: 1\n",
            "\n    ".join(["spec:\n  approvals:   # none", *LINES]) + "\n  b: 1\n",
        ),
    ],
)
def test_within_a_line(before: str, after: str) -> None:
    assert added(before) == after


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", [True, False])
def test_encoding_and_line_ends_stay(mark: str, end: str, last: bool) -> None:
    lines = ["# Ünï 🙂", "kind: X", "spec:", "  a: Grüße", "  approvals:", "    - by: ana"]
    before = mark + end.join(lines) + (end if last else "")
    after = added(before)
    wanted = mark + end.join([*lines, *(f"    {line}" for line in LINES)])
    assert after == wanted + (end if last else "")


def test_of_several_documents_only_one_changes() -> None:
    whole = "a: 1\n--- # second\nspec:\n  x: 1\n---\n# third\nspec: {approvals: [{by: ana}]}\n"
    first, second, third = whole.split("---")
    assert added(whole, 1) == "---".join([first, added_to(second), third])
    assert added(whole, 2).startswith("---".join([first, second, ""]))
    assert values(added(whole, 2))[:2] == values(whole)[:2]


def added_to(text: str) -> str:
    return text.rstrip("\n") + "\n  approvals:\n" + "".join(f"    {line}\n" for line in LINES)


@pytest.mark.parametrize(
    "before",
    [
        pytest.param("spec: &x\n  approvals:\n    - {by: a}\nother: *x\n", id="seen elsewhere too"),
        pytest.param("base: &b {approvals: [{by: a}]}\nspec:\n  <<: *b\n  c: 1\n", id="merged in"),
        pytest.param("l: &l [{by: a}]\nspec:\n  approvals: *l\n", id="an alias"),
        pytest.param("spec:\n  approvals: 1\n", id="no list"),
        pytest.param("spec:\n  c: |\n    text\n    # part of it\n", id="text that looks otherwise"),
    ],
)
def test_what_would_change_more_is_left_to_people(before: str) -> None:
    """And they are told what to write."""
    with pytest.raises(ProblemError) as refused:
        added(before)
    (problem,) = refused.value.problems
    assert problem.code == "edit_unsound"
    assert problem.hint == f"add by hand to spec.approvals: {FLOW}"


# -- any layout

APPROVAL = {"by": some.sampled_from(["ana", "no"]), "covers": some.just(["host"])}
APPROVALS = some.lists(some.fixed_dictionaries(APPROVAL), max_size=3)
SPECS = some.fixed_dictionaries(
    {"address": some.sampled_from(["gpu01", "10.0.0.1"]), "slots": some.just([{"name": "s0"}])},
    optional={
        "approvals": APPROVALS,
        "reserve": some.just({"cpus": "0-3", "memoryGiB": 8}),
        "note": some.sampled_from(["two\nlines", "with # in it", "x" * 120, "it's"]),
    },
)


@some.composite
def files(draw: some.DrawFn) -> tuple[str, int]:
    """Documents as other programs write them, with comments strewn in; and the one to edit."""
    texts = []
    for _ in range(draw(some.integers(1, 3))):
        style = draw(some.sampled_from([None, False, True]))
        document = {"kind": "Node", "spec": draw(SPECS), "labels": {"z": "1"}}
        text = yaml.safe_dump(
            document,
            default_flow_style=style,
            sort_keys=draw(some.booleans()),
            indent=draw(some.integers(2, 6)),
            width=draw(some.sampled_from([20, 80, 1000])),
        )
        change = draw(some.sampled_from([str, _spaced, _remarked]))
        texts.append("".join(map(change, text.splitlines(keepends=True))))
    between = draw(some.sampled_from(["---\n", "...\n---\n# next\n", "--- # x\n"]))
    return between.join(texts), draw(some.integers(0, len(texts) - 1))


def _spaced(line: str) -> str:
    return f"{line}\n" if line.endswith("0\n") else line


def _remarked(line: str) -> str:
    return f"# about it\n{line}" if line.startswith(("kind:", "spec:", "labels:")) else line


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(files())
def test_whatever_a_file_looks_like(drawn: tuple[str, int]) -> None:
    """It says what it said and the entry, its comments and other documents are as they were."""
    before, document = drawn
    after = added(before, document)
    expected = values(before)
    expected[document]["spec"].setdefault("approvals", []).append(ENTRY)
    assert values(after) == expected
    kept = iter(after)
    assert all(letter in kept for letter in before.replace("[]", ""))
    for number, (old, new) in enumerate(zip(before.split("---"), after.split("---"), strict=True)):
        assert (old == new) is (number != document)


# -- files


@pytest.fixture
def node(fleet: Fleet) -> Path:
    path = fleet.folder / "specs" / "gpu01.yaml"
    path.write_text("spec:\n  a: 1\n")
    return path


def add(fleet: Fleet, name: str = "specs/gpu01.yaml") -> Any:
    return add_entry(fleet.settings, name, 0, PATH, ENTRY)


def test_the_mode_stays_and_the_place_is_told(fleet: Fleet, node: Path) -> None:
    node.chmod(0o664)
    place = add(fleet)
    assert (place.file, place.line) == ("specs/gpu01.yaml", 4)
    assert stat.S_IMODE(node.stat().st_mode) == 0o664
    assert add(fleet).line == 8
    assert sorted(path.name for path in node.parent.iterdir() if "gpuaas" in path.name) == []


@privileges.needs(privileges.giving_away)
def test_root_leaves_the_file_to_its_owner(fleet: Fleet, node: Path) -> None:
    os.chown(node, 1234, 1235)
    add(fleet)
    assert (node.stat().st_uid, node.stat().st_gid) == (1234, 1235)


def test_a_link_within_the_tree_leads_to_the_file(fleet: Fleet, node: Path) -> None:
    (node.parent / "link.yaml").symlink_to(node.name)
    add(fleet, "specs/link.yaml")
    assert (node.parent / "link.yaml").is_symlink()
    assert "olga" in node.read_text()


def test_nothing_is_written_out_of_the_tree(fleet: Fleet, tmp_path: Path) -> None:
    """F-PAR-05: neither by a link to a file nor by one to a folder."""
    outside = tmp_path / "outside.yaml"
    outside.write_text("spec: {a: 1}\n")
    (fleet.folder / "specs/out.yaml").symlink_to(outside)
    (fleet.folder / "specs/folder").symlink_to(tmp_path)
    for refused in (
        lambda: add(fleet, "specs/out.yaml"),
        lambda: add(fleet, "specs/folder/outside.yaml"),
        lambda: create(fleet.settings, fleet.folder / "specs/folder/new.yaml", "a: 1\n"),
        lambda: create(fleet.settings, tmp_path / "new.yaml", "a: 1\n"),
        lambda: create(fleet.settings, fleet.folder / "specs/new.txt", "a: 1\n"),
    ):
        with pytest.raises(ProblemError) as error:
            refused()
        assert error.value.problems[0].code == "file_outside_tree"
    assert outside.read_text() == "spec: {a: 1}\n"
    assert not list(tmp_path.rglob("new.*"))


def test_somebody_elses_edit_is_not_written_over(
    fleet: Fleet, node: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def edited_meanwhile(name: str, *rest: Any) -> bytes:
        after = entry_added(name, *rest)
        node.write_text("spec:\n  a: 2\n")
        return after

    monkeypatch.setattr(edit, "entry_added", edited_meanwhile)
    with pytest.raises(ProblemError) as refused:
        add(fleet)
    assert refused.value.problems[0].code == "file_changed"
    assert node.read_text() == "spec:\n  a: 2\n"
    assert not [path.name for path in node.parent.iterdir() if path.name.startswith(".")]


def test_a_file_with_errors_is_shown_not_edited(fleet: Fleet, node: Path) -> None:
    node.write_text("spec:\n  a: ~\n")
    with pytest.raises(ProblemError) as refused:
        add(fleet)
    assert refused.value.problems[0].code == "yaml_null"
    assert node.read_text() == "spec:\n  a: ~\n"


def test_a_new_file_is_never_an_old_one(fleet: Fleet) -> None:
    path = fleet.folder / "specs/new/gpu02.yaml"
    assert create(fleet.settings, path, "a: 1\n") == "specs/new/gpu02.yaml"
    with pytest.raises(ProblemError) as refused:
        create(fleet.settings, path, "a: 2\n")
    assert refused.value.problems[0].code == "file_exists"
    assert path.read_text() == "a: 1\n"


def test_an_entry_behind_one_that_is_none() -> None:
    before = b"spec:\n  list:\n  - a # x\n"
    after = entry_added("x.yaml", before, 0, ("spec", "list"), {"b": 1})
    assert after == before + b"  - {b: 1}\n"


def test_a_new_file_is_whole_or_none(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever ends it: a full disk, or somebody who does not want it any more."""
    path = fleet.folder / "specs/gpu03.yaml"
    for error in (OSError(28, "No space left on device"), KeyboardInterrupt()):

        def fails(number: int, error: BaseException = error) -> None:
            raise error

        with monkeypatch.context() as context, pytest.raises((ProblemError, KeyboardInterrupt)):
            context.setattr(os, "fsync", fails)
            create(fleet.settings, path, "a: 1\n")
        assert not path.exists()


@pytest.mark.parametrize("name", ["link.yaml", "folder/gpu03.yaml"])
def test_a_new_file_lies_where_its_name_says(fleet: Fleet, name: str) -> None:
    """Who may own what goes by names: a link within the tree would lead into another's place."""
    theirs = fleet.folder / "specs/theirs"
    theirs.mkdir()
    (fleet.folder / "specs/link.yaml").symlink_to("theirs/new.yaml")
    (fleet.folder / "specs/folder").symlink_to("theirs")
    with pytest.raises(ProblemError) as refused:
        create(fleet.settings, fleet.folder / "specs" / name, "a: 1\n")
    assert refused.value.problems[0].code == "file_outside_tree"
    assert not list(theirs.iterdir())


# Values.

RESTART = ("spec", "restart")
AGAIN = {"generation": 2, "reason": "it: hangs"}


def valued(before: str, values: dict[str, Any] = AGAIN) -> str:
    return values_set("x.yaml", before.encode(), 0, RESTART, values).decode()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            "spec:\n  sku: a # x\n\n# end\n",
            'spec:\n  sku: a # x\n  restart: {generation: 2, reason: "it: hangs"}\n\n# end\n',
            id="where there was none",
        ),
        pytest.param(
            "spec:\n  restart:   # how often\n    generation: 1 # once\n    reason: 'x'\n  z: 1\n",
            "spec:\n  restart:   # how often\n    generation: 2 # once\n"
            '    reason: "it: hangs"\n  z: 1\n',
            id="in its place, comments beside it",
        ),
        pytest.param(
            "spec: {sku: a, restart: {generation: 1}, z: 1} # x\n",
            'spec: {sku: a, restart: {generation: 2, reason: "it: hangs"}, z: 1} # x\n',
            id="in brackets",
        ),
        pytest.param(
            "spec:\n  restart:\n    generation: 1\n",
            'spec:\n  restart:\n    generation: 2\n    reason: "it: hangs"\n',
            id="one of them new",
        ),
        pytest.param(
            "spec: {restart: {}}\n",
            'spec: {restart: {generation: 2, reason: "it: hangs"}}\n',
            id="into empty brackets",
        ),
    ],
)
def test_values_are_set_and_nothing_else_is_touched(before: str, after: str) -> None:
    """Rule 10: a command that edits specs leaves everything else as its author wrote it."""
    assert valued(before) == after
    assert values(after)[0]["spec"]["restart"] == AGAIN
    assert valued(after) == after


@pytest.mark.parametrize(
    "before",
    [
        "spec:\n  restart: &r {generation: 1}\n  other: *r\n",
        "spec:\n  restart: 5\n",
        "spec:\n  restart:\n    reason: |\n      x\n    # kept\n    generation: 2\n",
        "spec:\n  restart:\n    reason: >- # kept\n      x\n",
        "spec:\n  restart: {generation: [1, # kept\n    2]}\n",
    ],
    ids=["shared", "no mapping", "a comment below it", "a comment beside it", "a comment in it"],
)
def test_values_that_would_change_more_are_not_set(before: str) -> None:
    """The hint says what to write by hand."""
    with pytest.raises(ProblemError) as refused:
        valued(before)
    (problem,) = refused.value.problems
    assert problem.code == "edit_unsound"
    assert "spec.restart: {generation: 2" in problem.hint


def removed(before: str, number: int) -> str:
    return entry_removed("x.yaml", before.encode(), 0, ("spec", "list"), number).decode()


@pytest.mark.parametrize(
    ("before", "number", "after"),
    [
        (
            "spec:\n  list: # all\n    # the first\n    - a # x\n    # the second\n    - b\n"
            "  z: 1\n",
            0,
            "spec:\n  list: # all\n    # the first\n    # the second\n    - b\n  z: 1\n",
        ),
        (
            "spec:\n  list:\n  - a\n  - b: 1\n    c: 2   # x\n  # of z\n  z: 1\n",
            1,
            "spec:\n  list:\n  - a\n  # of z\n  z: 1\n",
        ),
        (
            "spec:\n  list:  # x\n  - {a: 1,\n     b: 2}\n  z: 1\n",
            0,
            "spec:\n  list: []  # x\n  z: 1\n",
        ),
        ("spec:\r\n  list:\r\n  - a\r\n  - b\r\n", 1, "spec:\r\n  list:\r\n  - a\r\n"),
        ("spec:\n  list:\n  - a\n  - b", 1, "spec:\n  list:\n  - a\n"),
        ("spec: {list: [a, b, c]} # x\n", 0, "spec: {list: [b, c]} # x\n"),
        ("spec: {list: [a, b, c]}\n", 1, "spec: {list: [a, c]}\n"),
        ("spec: {list: [a, {b: 1}]}\n", 1, "spec: {list: [a]}\n"),
        ("spec: {list: [ a ]}\n", 0, "spec: {list: []}\n"),
        ("spec: {list: [a,\n  b,\n]}\n", 1, "spec: {list: [a,\n]}\n"),
    ],
)
def test_an_entry_goes_and_nothing_else(before: str, number: int, after: str) -> None:
    assert removed(before, number) == after


@pytest.mark.parametrize(
    ("before", "number"),
    [
        ("spec:\n  list: [a, # first\n    b]\n", 0),
        ("spec:\n  list: &l\n  - a\n  other: *l\n", 0),
        ("spec:\n  list:\n  - &a {x: 1}\n  - *a\n", 0),
        ("spec:\n  list: {a: 1}\n", 0),
        ("spec: {}\n", 0),
    ],
)
def test_an_entry_that_others_share_or_comments_surround_stays(before: str, number: int) -> None:
    with pytest.raises(ProblemError) as refused:
        removed(before, number)
    assert refused.value.problems[0].code == "edit_unsound"
