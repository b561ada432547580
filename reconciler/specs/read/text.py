"""Text of a file before it is YAML: encoding, conflict markers, lines and columns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from reconciler.kinds.checks.secrecy import concealed, is_body
from reconciler.model.problem import Problem, Source

SECRET_CODES = ("private_key_in_spec", "secret_in_spec")
_MARK = b"\xef\xbb\xbf"
_WIDE = {
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
    b"\0\0\xfe\xff": "UTF-32",
}
_TAGS_LIMIT = 100
"""libyaml compares each %TAG line with each; tags are refused, so nobody needs one."""
TEXT_LIMIT, WRITTEN_OUT = 400, 6
"""So much of a line, and of a sentence about it, is shown; and what an unseen character counts."""

_CONFLICT = re.compile(rb"^[ \t]*(?:<{7}|>{7}|\|{7})(?:[ \r\n]|$)", re.MULTILINE)
_BREAK = re.compile("\r\n|[\r\n\x85\u2028\u2029]")


POINTER = b"version https://git-lfs.github.com/spec/"


def is_pointer(content: bytes) -> bool:
    """Whether it is what git has in the place of a file that git-lfs keeps."""
    return content.startswith(POINTER)


def without_mark(content: bytes) -> bytes:
    """The content without the invisible byte-order mark that Windows editors put first."""
    return content.removeprefix(_MARK)


def split_lines(content: bytes) -> list[str]:
    """The lines as YAML counts them, whatever the bytes are."""
    return _BREAK.split(without_mark(content).decode("utf-8", "replace"))


def end_of(content: bytes) -> tuple[int, int]:
    """Line and column, from 1, just behind the last that is written: libyaml may point beyond."""
    lines = split_lines(content)
    while len(lines) > 1 and not lines[-1].strip():
        lines.pop()
    return len(lines), len(lines[-1].rstrip()) + 1


def offset_of(text: str, line: int) -> int:
    """Where a line starts, in characters; lines are counted from 1, as YAML counts them."""
    ends = [0, *(found.end() for found in _BREAK.finditer(text))]
    return ends[line - 1]


def check_text(file: str, content: bytes) -> Problem | None:
    """Why the content cannot be taken for text that somebody has finished writing."""
    return (
        _check_pointer(file, content)
        or _check_encoding(file, content)
        or _check_markers(file, content)
        or _check_directives(file, content)
    )


def _check_pointer(file: str, content: bytes) -> Problem | None:
    if not is_pointer(content):
        return None
    return Problem(
        code="lfs_pointer",
        message="this is a pointer of git-lfs, and the file itself is not here",
        hint="git lfs pull; until then what was applied from it stays as it is",
        source=Source(file=file, line=1, column=1),
    )


def place_of(file: str, content: bytes, offset: int) -> Source:
    """Line and column of a byte."""
    before = split_lines(content[:offset])
    return Source(file=file, line=len(before), column=len(before[-1]) + 1)


def with_text(problems: Iterable[Problem], content: bytes) -> tuple[Problem, ...]:
    """The problems of one file, each with the source line it points at, unless that is secret.

    What would fill screens is cut: a file may hold anything, and messages repeat what it holds.
    """
    problems = tuple(problems)
    if not problems:
        return ()
    lines = dict(enumerate(split_lines(content), start=1))
    for problem in problems:
        if problem.source and problem.code in SECRET_CODES:
            lines.pop(problem.source.line, None)
    shown: dict[int, str] = {}
    return tuple(_with_text(problem, lines, shown) for problem in problems)


def _with_text(problem: Problem, lines: Mapping[int, str], shown: dict[int, str]) -> Problem:
    if source := problem.source:
        if source.line not in shown:
            line = lines.get(source.line, "")
            shown[source.line] = "" if is_body(line) or concealed(line) != line else _cut(line)
        text = shown[source.line] if source.column <= len(shown[source.line]) + 1 else ""
        path = tuple(_shown(part) if isinstance(part, str) else part for part in source.path)
        problem = problem.at(replace(source, text=text, path=path))
    return replace(problem, message=_shown(problem.message), hint=_shown(problem.hint))


def _shown(text: str) -> str:
    return _cut(concealed(text))


def _cut(text: str) -> str:
    """What nobody can see is written out when it is shown, and takes that much more room."""
    if len(text) <= TEXT_LIMIT and text.isprintable():
        return text
    room = TEXT_LIMIT
    for at, character in enumerate(text):
        room -= 1 if character.isprintable() else WRITTEN_OUT
        if room < 0:
            return f"{text[:at]}…"
    return text


def _check_encoding(file: str, content: bytes) -> Problem | None:
    bad, what = -1, ""
    try:
        content.decode("utf-8")
        bad, what = content.find(b"\0"), "holds a zero byte: it is no text"
    except UnicodeDecodeError as error:
        bad = error.start
        what = f"holds the byte 0x{content[bad]:02x}, which is not UTF-8"
    for mark, name in _WIDE.items():
        if content.startswith(mark):
            bad, what = 0, f"is {name} text"
    if bad < 0:
        return None
    return Problem(
        code="encoding_unsupported",
        message=f"the file {what}",
        hint="save it as UTF-8 text, or move it out of the spec root",
        source=place_of(file, content, bad),
    )


def _check_markers(file: str, content: bytes) -> Problem | None:
    if b"<<<<<<<" not in content and b">>>>>>>" not in content:
        return None
    marker = _CONFLICT.search(content)
    if marker is None:
        return None
    return Problem(
        code="merge_conflict_markers",
        message="merge conflict markers: a merge was committed half done",
        hint="keep one side of each conflict and delete the marker lines",
        source=place_of(file, content, marker.start()),
    )


def _check_directives(file: str, content: bytes) -> Problem | None:
    if content.count(b"%TAG") <= _TAGS_LIMIT:
        return None
    return Problem(
        code="yaml_tag",
        message=f"more than {_TAGS_LIMIT} times `%TAG`: the file was not read",
        hint="delete these lines: tags are not read here",
        source=place_of(file, content, content.find(b"%TAG")),
    )
