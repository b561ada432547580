"""YAML to documents with places: nothing is lost, nothing is guessed, everything has a line."""

from __future__ import annotations

import time
import tracemalloc

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.model.problem import Problem
from reconciler.specs.read.text import split_lines
from reconciler.specs.read.yaml_reader import Parsed, read_documents


def read(text: str | bytes) -> Parsed:
    return read_documents("a.yaml", text.encode() if isinstance(text, str) else text)


def values(text: str | bytes) -> list[object]:
    parsed = read(text)
    assert not parsed.problems, parsed.problems
    return [located.document.value for located in parsed.documents]


def one(text: str | bytes) -> Problem:
    problems = read(text).problems
    assert len(problems) == 1, problems
    return problems[0]


def spot(problem: Problem) -> tuple[int, int]:
    assert problem.source is not None
    return problem.source.line, problem.source.column


def test_a_key_that_stands_twice_names_both_lines() -> None:
    """F-PAR-01"""
    problem = one("members: [ana]\nother: 1\nmembers: [bo]\n")
    assert problem.code == "yaml_duplicate_key"
    assert "line 1" in problem.message and "3" in problem.message
    assert spot(problem) == (3, 1)


def test_a_duplicate_is_found_at_every_depth() -> None:
    """F-PAR-01"""
    parsed = read("spec:\n  storage: []\n  deep:\n    - {storage: 1, storage: 2}\n  storage: []\n")
    assert [spot(problem) for problem in parsed.problems] == [(4, 20), (5, 3)]
    assert parsed.problems[0].source is not None
    assert parsed.problems[0].source.dotted == "spec.deep[0].storage"


def test_a_merge_with_an_override_is_no_duplicate() -> None:
    """F-PAR-01: control."""
    text = "base: &b {x: 1, z: 2}\nmore: &m {x: 5, w: 4}\none:\n  <<: [*b, *m]\n  z: 3\n"
    assert values(text) == [
        {
            "base": {"x": 1, "z": 2},
            "more": {"x": 5, "w": 4},
            "one": {"x": 1, "z": 3, "w": 4},
        }
    ]
    assert one("a: &a {x: 1}\nb:\n  <<: *a\n  <<: *a\n").code == "yaml_duplicate_key"
    assert one("a: &a [1]\nb:\n  <<: *a\n").code == "yaml_syntax"


def test_all_documents_of_a_file_are_read() -> None:
    """F-PAR-02: the empty one is skipped, and still counted in the place of the others."""
    parsed = read("a: 1\n---\nb: 2\n---\n---\nc: 3\n...\n")
    assert [one.document.value for one in parsed.documents] == [{"a": 1}, {"b": 2}, {"c": 3}]
    assert [one.document.index for one in parsed.documents] == [0, 1, 3]
    assert [one.document.line for one in parsed.documents] == [1, 3, 6]


def test_keys_must_be_text() -> None:
    """F-PAR-07: an ordinary problem, never a traceback."""
    parsed = read("on: 1\n7: 2\n? [a]\n: 3\ntrue: 4\nok: 6\n")
    assert [problem.code for problem in parsed.problems] == [
        "yaml_ambiguous",
        *["yaml_key_not_text"] * 3,
    ]
    assert [spot(problem)[0] for problem in parsed.problems] == [1, 2, 3, 5]
    assert parsed.documents[0].document.value == {"ok": 6}


def test_an_alias_bomb_is_refused_at_once() -> None:
    """F-PAR-08"""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    for level in range(1, 10):
        inner = ", ".join([f"*a{level - 1}"] * 10)
        lines.append(f"a{level}: &a{level} [{inner}]")
    tracemalloc.start()
    begin = time.perf_counter()
    problem = one("\n".join(lines))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert problem.code == "yaml_expansion"
    assert time.perf_counter() - begin < 2
    assert peak < 50 << 20


def test_a_large_honest_file_loads() -> None:
    """F-PAR-08: the guard counts what aliases add, not what the file holds."""
    text = "list:\n" + "".join(f"  - name-{number}\n" for number in range(150_000))
    assert len(values(text)[0]["list"]) == 150_000  # type: ignore[index]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("a: &a [1, *a]\n", "yaml_alias"),
        ("a: &a {b: {c: *a}}\n", "yaml_alias"),
        ("a: *nowhere\n", "yaml_alias"),
        ("a: " + "[" * 20_000, "yaml_depth"),
        ("a: " + "[" * 70 + "]" * 70, "yaml_depth"),
        ("".join("  " * depth + "a:\n" for depth in range(100)), "yaml_depth"),
    ],
)
def test_pathological_structure_is_refused(text: str, code: str) -> None:
    """F-PAR-09"""
    assert one(text).code == code


def test_aliases_cannot_stack_depth() -> None:
    """F-PAR-09"""
    text = "a: &a " + "[" * 40 + "]" * 40 + "\nb: " + "[" * 40 + "*a" + "]" * 40
    assert one(text).code == "yaml_depth"


def test_depth_up_to_the_limit_is_read() -> None:
    assert not read("a: " + "[" * 60 + "]" * 60).problems


def test_windows_files_mean_the_same() -> None:
    """F-PAR-13"""
    text = "kind: User\nspec:\n  note: |\n    one\n    two\n"
    plain = values(text)
    assert values(b"\xef\xbb\xbf" + text.encode()) == plain
    assert values(text.replace("\n", "\r\n")) == plain
    assert "\r" not in str(plain)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1"])
def test_other_encodings_get_a_plain_message(encoding: str) -> None:
    """F-PAR-13"""
    problem = one("kind: Usér\n".encode(encoding))
    assert problem.code == "encoding_unsupported"
    assert "UTF-8" in problem.hint
    assert spot(problem)[0] == 1


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: 1\n<<<<<<< HEAD\nb: 2\n=======\nb: 3\n>>>>>>> theirs\n", 2),
        ("a: |\n  text\n  <<<<<<< HEAD\n  mine\n  =======\n  >>>>>>> theirs\n", 3),
        ('a: "text\n\n>>>>>>> theirs"\n', 3),
    ],
)
def test_merge_markers_are_refused_wherever_they_stand(text: str, line: int) -> None:
    """F-PAR-14"""
    parsed = read(text)
    assert not parsed.complete
    assert [problem.code for problem in parsed.problems] == ["merge_conflict_markers"]
    assert spot(parsed.problems[0])[0] == line


def test_arrows_in_prose_are_no_merge_markers() -> None:
    assert values("a: 'x <<<<<<< y'\nb: '<<<<<<<<<<'\n")


def test_tags_are_refused() -> None:
    parsed = read("a: !!str 1\nb: !foo [x]\nc: !!python/object:os.system x\n")
    assert [problem.code for problem in parsed.problems] == ["yaml_tag"] * 3


def test_everything_wrong_is_shown_at_once() -> None:
    parsed = read("a: no\nb: ~\nc: 010\nd: *e\nf: 1\nf: 2\ng: [x, off]\n")
    assert [(spot(p)[0], p.code) for p in parsed.problems] == [
        (1, "yaml_ambiguous"),
        (2, "yaml_null"),
        (3, "yaml_ambiguous"),
        (4, "yaml_alias"),
        (6, "yaml_duplicate_key"),
        (7, "yaml_ambiguous"),
    ]
    assert parsed.complete


@pytest.mark.parametrize(
    ("text", "line", "hint"),
    [
        ("a: 1\nb: c: d\n", 2, "colon"),
        ("a: 1\n\tb: 2\n", 2, "tabs"),
        ('a: 1\nb: "open\nc: 2\n', 2, "close the quote"),
        ("a: 1\nb: [x, y\n", 2, "close"),
        ('a: "\x1b[2J"\n', 1, ""),
    ],
)
def test_syntax_errors_point_at_their_line(text: str, line: int, hint: str) -> None:
    """F-CLI-04"""
    parsed = read(text)
    assert not parsed.complete
    problem = parsed.problems[-1]
    assert (problem.code, spot(problem)[0]) == ("yaml_syntax", line)
    assert hint in problem.hint and problem.hint


@pytest.mark.parametrize("text", ["", "\n\n", "# only words\n", "---\n", "---\n# x\n---\n"])
def test_a_file_without_documents_is_a_warning(text: str) -> None:
    """F-CLI-04"""
    problem = one(text)
    assert (problem.code, problem.is_error, spot(problem)) == ("file_empty", False, (1, 1))


@pytest.mark.parametrize("text", ["- a\n", "word\n", "[]\n"])
def test_a_document_is_a_mapping(text: str) -> None:
    assert one(text).code == "document_not_mapping"


def test_places_lead_to_keys_and_values() -> None:
    [located] = read("kind: User\nspec:\n  keys:\n    - id: laptop\n      at: x\n").documents

    def place(*path: str | int, key: bool = False) -> tuple[int, int, str]:
        source = located.source(path, key=key)
        return source.line, source.column, source.dotted

    assert place("kind") == (1, 7, "kind")
    assert place("kind", key=True) == (1, 1, "kind")
    assert place("spec", "keys") == (3, 3, "spec.keys")
    assert place("spec", "keys", 0, "at") == (5, 11, "spec.keys[0].at")
    assert place("spec", "keys", "laptop", "at") == (5, 11, "spec.keys[0].at")
    assert place("spec", "nothing", "here") == (2, 1, "spec.nothing.here")
    assert place() == (1, 1, "")


@given(
    st.binary(max_size=60)
    | st.text(alphabet=" \n-:[]{}&*!|>'\"#?,a1~\t%<=@\ufeff\x85", max_size=80).map(str.encode)
)
@settings(max_examples=400, deadline=None)
def test_no_bytes_break_the_reader(content: bytes) -> None:
    """F-PAR-09: whatever is in a file, there is an answer, and every problem has a place."""
    parsed = read_documents("a.yaml", content)
    lines = len(split_lines(content))
    for problem in parsed.problems:
        assert problem.source and problem.hint
        assert 1 <= problem.source.line <= lines + 1 and problem.source.column >= 1
    assert parsed.complete or parsed.problems


_PLAIN = st.from_regex(r"[a-m][a-m0-9]{0,6}", fullmatch=True)
_TREES = st.recursive(
    _PLAIN | st.integers(-(10**14), 10**14) | st.booleans(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_PLAIN, inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(_PLAIN, _TREES, min_size=1, max_size=5), st.booleans())
@settings(max_examples=150, deadline=None)
def test_what_another_writer_wrote_is_read_as_it_was_meant(tree: object, flow: bool) -> None:
    text = yaml.safe_dump(tree, default_flow_style=flow)
    assert values(text) == [tree]
