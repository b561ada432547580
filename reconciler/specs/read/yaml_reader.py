"""YAML text to plain documents that know the line and column of every key and value.

One pass over the events of libyaml. It collects what is wrong and reads on, so that one look
shows everything; only what makes the rest unreadable ends a file. Knows nothing of kinds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from yaml import events
from yaml._yaml import CParser
from yaml.error import YAMLError

from reconciler.model.problem import PathPart, Problem, ProblemError, Source
from reconciler.model.records import dataclass
from reconciler.model.spec.document import Document
from reconciler.specs.read.scalars import Scalar, plain
from reconciler.specs.read.syntax import (
    DEPTH_LIMIT,
    EXPANSION_LIMIT,
    KEY_NOT_TEXT,
    MERGE_OF_NO_MAPPING,
    PROBLEM_LIMIT,
    TEXT_OF_A_VALUE,
    TOO_DEEP,
    TOO_LARGE,
    TOO_MANY,
    alias_problem,
    duplicate_key,
    empty_file,
    key_problem,
    not_a_mapping,
    syntax_problem,
    tag_problem,
)
from reconciler.specs.read.text import check_text, end_of, without_mark

_SCALAR, _MAPPING_END, _SEQUENCE_END = (
    events.ScalarEvent,
    events.MappingEndEvent,
    events.SequenceEndEvent,
)

Place = tuple[int, int, Any]
"""Line and column from 0, and what lies inside: None, a list of places, or a dict from each key

to the line and column of the key and the place of its value.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """A document, and the place of everything in it."""

    document: Document
    place: Place

    def source(self, path: tuple[PathPart, ...], *, key: bool = False) -> Source:
        """Where `path` stands, or the nearest place above it; with `key`, its key not its value.

        An entry of a list may be named by what stands in it instead of its number.
        """
        path = numbered(self.document.value, path)
        line, column = find(self.place, path, key=key)
        return Source(
            file=self.document.file,
            document=self.document.index,
            path=path,
            line=line + 1,
            column=column + 1,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """A file's documents and what is wrong with its text.

    Not `complete`: its rest could not be read, so nothing follows from what is missing.
    """

    documents: tuple[Located, ...] = ()
    problems: tuple[Problem, ...] = ()
    complete: bool = True


def read_documents(file: str, content: bytes) -> Parsed:
    """All documents in a file's content; empty ones are skipped, but counted."""
    content = without_mark(content)
    unreadable = check_text(file, content)
    if unreadable:
        return Parsed(problems=(unreadable,), complete=False)
    return _Reader(file, content).read()


def numbered(value: object, path: tuple[PathPart, ...]) -> tuple[PathPart, ...]:
    """The path with every entry of a list called by its number."""
    found: list[PathPart] = []
    for part in path:
        if isinstance(value, list) and isinstance(part, str):
            part = next((i for i, entry in enumerate(value) if _is_called(entry, part)), part)
        found.append(part)
        if isinstance(value, dict):
            value = value.get(part)
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            value = value[part]
        else:
            value = None
    return tuple(found)


def _is_called(entry: object, name: str) -> bool:
    return entry == name or (isinstance(entry, dict) and name in map(entry.get, _CALLED_BY))


_CALLED_BY = ("name", "id", "user", "version", "bundle", "allocation", "ref")
"""The fields by which keyed lists tell their entries apart."""


def find(place: Place, path: tuple[PathPart, ...], *, key: bool = False) -> tuple[int, int]:
    """Line and column from 0 of `path`, or of the nearest place above it."""
    line, column, inside = place
    last = len(path) - 1
    for depth, part in enumerate(path):
        if isinstance(inside, dict) and part in inside:
            line, column, value = inside[part]
            inside = value[2]
            if inside is None and not (key and depth == last):
                line, column, _ = value
        elif isinstance(inside, list) and isinstance(part, int) and part < len(inside):
            line, column, inside = inside[part]
        else:
            break
    return line, column


@dataclass(frozen=True, slots=True, kw_only=True)
class _Anchored:
    """What an alias stands for. `size` is that of it all, aliases within it written out."""

    value: object
    place: Place
    size: int
    height: int


class _Reader:
    """One file's pass. `path` is where the pass stands in the document in hand."""

    __slots__ = (
        "anchors", "content", "end", "expanded", "file", "index", "next", "path", "problems",
    )  # fmt: skip

    def __init__(self, file: str, content: bytes) -> None:
        self.file, self.content = file, content
        self.next: Any = CParser(content).get_event
        self.index = -1
        self.path: list[PathPart] = []
        self.problems: list[Problem] = []
        self.anchors: dict[str, _Anchored | None] = {}
        self.expanded = 0
        self.end: tuple[int, int] | None = None

    def read(self) -> Parsed:
        found: list[Located] = []
        try:
            found.extend(self.documents())
        except YAMLError as error:
            self.problems.append(syntax_problem(self.file, self.index, self.content, error))
            return Parsed(documents=tuple(found), problems=tuple(self.problems), complete=False)
        except ProblemError as error:
            self.problems.extend(error.problems)
            return Parsed(documents=tuple(found), problems=tuple(self.problems), complete=False)
        if not found and not self.problems:
            self.problems.append(empty_file(self.file))
        return Parsed(documents=tuple(found), problems=tuple(self.problems))

    def documents(self) -> Iterator[Located]:
        while type(event := self.next()) is not events.StreamEndEvent:
            if type(event) is not events.DocumentStartEvent:
                continue
            self.index += 1
            self.path, self.anchors, self.expanded = [], {}, 0
            root = self.next()
            if type(root) is _SCALAR and not (root.value or root.style):
                continue
            value, place = self.node(root)
            if isinstance(value, dict):
                document = Document(
                    file=self.file, index=self.index, line=place[0] + 1, value=value
                )
                yield Located(document=document, place=place)
            else:
                self.report(root, not_a_mapping(value))

    def node(self, event: Any) -> tuple[Any, Place]:
        kind = type(event)
        mark = event.start_mark
        if kind is _SCALAR:
            return self.scalar(event), (mark.line, mark.column, None)
        if kind is events.AliasEvent:
            return self.alias(event)
        if event.tag is not None:
            self.report(event, tag_problem(event.tag))
        if event.anchor is not None:
            self.anchors[event.anchor] = None
        if len(self.path) >= DEPTH_LIMIT:
            raise ProblemError((self.placed(event, TOO_DEEP),))
        self.path.append(0)
        mapping = kind is events.MappingStartEvent
        value, inside = self.mapping() if mapping else self.sequence()
        self.path.pop()
        place = (mark.line, mark.column, inside)
        if event.anchor is not None:
            self.anchors[event.anchor] = _Anchored(
                value=value, place=place, size=_size(value), height=_height(value)
            )
        return value, place

    def mapping(self) -> tuple[dict[str, object], dict[str, object]]:
        """Most of a fleet's load is spent here, hence the local names and the scalar short cut."""
        get, path, end, scalar = self.next, self.path, _MAPPING_END, _SCALAR
        value: dict[str, object] = {}
        inside: dict[str, Any] = {}
        merges: list[tuple[object, object, Place]] = []
        mark: Any
        while type(event := get()) is not end:
            mark = event.start_mark
            line, column = mark.line, mark.column
            key = path[-1] = self.key(event)
            if key in inside:
                self.report(event, duplicate_key(key, inside[key][0], line))
            item_event: Any = get()
            if type(item_event) is scalar:
                item: Any = self.scalar(item_event)
                mark = item_event.start_mark
                place: Place = (mark.line, mark.column, None)
            else:
                item, place = self.node(item_event)
            if not key and _is_merge(event):
                merges.append((event, item, place))
            elif key and key not in inside:
                value[key] = item
                inside[key] = (line, column, place)
        if merges:
            self.merge(value, inside, merges)
        return value, inside

    def sequence(self) -> tuple[list[object], list[Place]]:
        value: list[object] = []
        inside: list[Place] = []
        while type(event := self.next()) is not _SEQUENCE_END:
            self.path[-1] = len(value)
            item, place = self.node(event)
            value.append(item)
            inside.append(place)
        return value, inside

    def key(self, event: object) -> str:
        """The key's text; empty for a merge, and for what is no key, which is reported."""
        if type(event) is not _SCALAR:
            self.path[-1] = ""
            if type(event) is not events.AliasEvent:
                self.node(event)
            self.report(event, KEY_NOT_TEXT)
            return ""
        text: str = event.value
        key = text if event.style else plain(text)
        if isinstance(key, str) and event.tag is None and key:
            return key
        if not _is_merge(event):
            self.path[-1] = text
            self.report(event, key_problem(key, event.tag))
        return ""

    def scalar(self, event: Any) -> Scalar:
        """Its value; what is refused is reported and kept as text, so that the look goes on."""
        text: str = event.value
        value = text if event.style else plain(text)
        if isinstance(value, Problem):
            self.report(event, value)
            value = text
        if event.tag is not None:
            self.report(event, tag_problem(event.tag))
        if event.anchor is not None:
            mark = event.start_mark
            place = (mark.line, mark.column, None)
            self.anchors[event.anchor] = _Anchored(
                value=value, place=place, size=_size(value), height=0
            )
        return value

    def alias(self, event: Any) -> tuple[Any, Place]:
        mark = event.start_mark
        anchored = self.anchors.get(event.anchor)
        if anchored is None:
            self.report(event, alias_problem(event.anchor, event.anchor in self.anchors))
            return "", (mark.line, mark.column, None)
        self.expanded += anchored.size
        if self.expanded > EXPANSION_LIMIT:
            raise ProblemError((self.placed(event, TOO_LARGE),))
        if len(self.path) + anchored.height > DEPTH_LIMIT:
            raise ProblemError((self.placed(event, TOO_DEEP),))
        return anchored.value, (mark.line, mark.column, anchored.place[2])

    def merge(
        self,
        value: dict[str, object],
        inside: dict[str, object],
        merges: list[tuple[Any, Any, Place]],
    ) -> None:
        """What `<<` brings in: a stated key wins, then the mapping named first."""
        for number, (event, item, place) in enumerate(merges):
            self.path[-1] = "<<"
            if number:
                self.report(event, duplicate_key("<<", merges[0][0].start_mark.line, place[0]))
            several = isinstance(item, list)
            parts = list(zip(item, place[2], strict=True)) if several else [(item, place)]
            for part, part_place in parts:
                if not isinstance(part, dict):
                    self.report(event, MERGE_OF_NO_MAPPING)
                    continue
                for key in part.keys() - value.keys():
                    value[key], inside[key] = part[key], part_place[2][key]

    def report(self, event: Any, problem: Problem) -> None:
        if len(self.problems) >= PROBLEM_LIMIT:
            raise ProblemError((self.placed(event, TOO_MANY),))
        self.problems.append(self.placed(event, problem))

    def placed(self, event: Any, problem: Problem) -> Problem:
        self.end = self.end or end_of(self.content)
        mark = event.start_mark
        line, column = min((mark.line + 1, mark.column + 1), self.end)
        path = tuple(self.path)
        return problem.at(
            Source(file=self.file, document=self.index, path=path, line=line, column=column)
        )


def _is_merge(event: Any) -> bool:
    return type(event) is _SCALAR and event.value == "<<" and not event.style


def _size(value: Any) -> int:
    """How many values there are; long text counts as several."""
    if isinstance(value, dict):
        return 1 + sum(len(key) // TEXT_OF_A_VALUE + _size(item) for key, item in value.items())
    if isinstance(value, list):
        return 1 + sum(map(_size, value))
    return 1 + (len(value) // TEXT_OF_A_VALUE if isinstance(value, str) else 0)


def _height(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value
    return 1 + max(map(_height, inner), default=0) if isinstance(value, (dict, list)) else 0
