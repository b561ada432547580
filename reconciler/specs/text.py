"""Bytes of a file before they are YAML: the encoding, half done merges, lines and columns."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from reconciler.kinds.secrecy import find_secrets
from reconciler.model.problem import Problem, Source

_MARK = b"\xef\xbb\xbf"
_WIDE = {
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
    b"\0\0\xfe\xff": "UTF-32",
}
_CONFLICT = re.compile(rb"^[ \t]*(?:<{7}|>{7}|\|{7})(?:[ \r\n]|$)", re.MULTILINE)
_BREAK = re.compile("\r\n|[\r\n\x85\u2028\u2029]")


def without_mark(content: bytes) -> bytes:
    """The content without the invisible byte-order mark that Windows editors put first."""
    return content.removeprefix(_MARK)


def split_lines(content: bytes) -> list[str]:
    """The lines as YAML counts them, whatever the bytes are."""
    return _BREAK.split(without_mark(content).decode("utf-8", "replace"))


def offset_of(text: str, line: int) -> int:
    """Where a line starts, in characters; lines are counted from 1, as YAML counts them."""
    ends = [0, *(found.end() for found in _BREAK.finditer(text))]
    return ends[line - 1]


def check_text(file: str, content: bytes) -> Problem | None:
    """Why the content cannot be taken for text that somebody has finished writing."""
    return _check_encoding(file, content) or _check_markers(file, content)


def place_of(file: str, content: bytes, offset: int) -> Source:
    """Line and column of a byte."""
    before = split_lines(content[:offset])
    return Source(file=file, line=len(before), column=len(before[-1]) + 1)


def with_text(problems: Iterable[Problem], content: bytes) -> tuple[Problem, ...]:
    """The problems of one file, each with the source line it points at, unless that is secret."""
    problems = tuple(problems)
    if not problems:
        return ()
    lines = dict(enumerate(split_lines(content), start=1))
    for problem in problems:
        if problem.source and problem.code in ("private_key_in_spec", "secret_in_spec"):
            lines.pop(problem.source.line, None)
    return tuple(
        problem.at(replace(problem.source, text=_shown(lines.get(problem.source.line, ""))))
        if problem.source
        else problem
        for problem in problems
    )


def _shown(line: str) -> str:
    return "" if next(find_secrets(line), None) else line


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
