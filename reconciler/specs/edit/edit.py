"""The only writer of specs: a file then says what was asked for and nothing else.

What would be written is first read again by our own loader; if it says anything else, the file is
not touched. A file is put in place whole, with the mode it had, and never through a link that leads
out of the spec tree.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from reconciler.atomic_file import partial_file
from reconciler.model.canonical import canonical
from reconciler.model.problem import ProblemError, Source, refuse
from reconciler.model.records import dataclass
from reconciler.model.settings import Settings
from reconciler.specs.edit.splice import SpliceError, with_entry, with_values, without_entry
from reconciler.specs.edit.yaml_writer import flow
from reconciler.specs.read.library import file_name, is_spec, read_file, read_spec, spec_path
from reconciler.specs.read.text import offset_of, with_text, without_mark
from reconciler.specs.read.yaml_reader import Parsed, read_documents


def add_entry(
    settings: Settings, name: str, document: int, path: Sequence[str], entry: Mapping[str, Any]
) -> Source:
    """Put `entry` at the end of the list at `path` of one document of a file; where it is now.

    Raises ProblemError `edit_unsound` where that cannot be done without changing more.
    """
    before = read_spec(settings, name)
    after = entry_added(name, before, document, path, entry)
    _replace(name, spec_path(settings, name), before, after)
    located = next(
        one for one in read_documents(name, after).documents if one.document.index == document
    )
    return located.source((*path, len(_list_at(located.document.value, path)) - 1))


def set_values(
    settings: Settings, name: str, document: int, path: Sequence[str], values: Mapping[str, Any]
) -> Source:
    """Put these values into the mapping at `path` of one document of a file; where they are now.

    What else it holds stays. Raises ProblemError `edit_unsound` as `add_entry` does.
    """
    before = read_spec(settings, name)
    after = values_set(name, before, document, path, values)
    _replace(name, spec_path(settings, name), before, after)
    located = next(
        one for one in read_documents(name, after).documents if one.document.index == document
    )
    return located.source((*path, next(iter(values))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """An entry at the end of a list."""

    path: Sequence[str]
    entry: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Valued:
    """Values of a mapping; a number in its path counts the entries of a list."""

    path: Sequence[str | int]
    values: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """An entry of a list that goes, by its number."""

    path: Sequence[str]
    number: int


SpecChange = Added | Valued | Removed


def edit(settings: Settings, name: str, document: int, changes: Sequence[SpecChange]) -> Source:
    """Make all of these changes to one document of a file, or none; where the first is now.

    Raises ProblemError `edit_unsound` as `add_entry` does.
    """
    before = read_spec(settings, name)
    after = with_changes(name, before, document, changes)
    _replace(name, spec_path(settings, name), before, after)
    located = next(
        one for one in read_documents(name, after).documents if one.document.index == document
    )
    return located.source(tuple(changes[0].path))


def with_changes(name: str, content: bytes, document: int, changes: Sequence[SpecChange]) -> bytes:
    """The content of a file with all of these changes to one document. Raises ProblemError."""
    for one in changes:
        if isinstance(one, Added):
            content = entry_added(name, content, document, one.path, one.entry)
        elif isinstance(one, Removed):
            content = entry_removed(name, content, document, one.path, one.number)
        else:
            content = values_set(name, content, document, one.path, one.values)
    return content


def entry_added(
    name: str, content: bytes, document: int, path: Sequence[str], entry: Mapping[str, object]
) -> bytes:
    """The content of a file with the entry added. Raises ProblemError."""

    def change(value: object) -> None:
        _list_at(value, path).append(entry)

    edit = _Edit(
        splice=lambda text: with_entry(text, path, entry),
        change=change,
        hint=f"add by hand to {'.'.join(path)}: {flow(entry)}",
    )
    return _edited(name, content, document, edit)


def entry_removed(
    name: str, content: bytes, document: int, path: Sequence[str], number: int
) -> bytes:
    """The content of a file without an entry of a list. Raises ProblemError."""

    def change(value: object) -> None:
        del _list_at(value, path)[number]

    edit = _Edit(
        splice=lambda text: without_entry(text, path, number),
        change=change,
        hint=f"take entry {number} of {'.'.join(path)} out by hand",
    )
    return _edited(name, content, document, edit)


def values_set(
    name: str,
    content: bytes,
    document: int,
    path: Sequence[str | int],
    values: Mapping[str, object],
) -> bytes:
    """The content of a file with these values set. Raises ProblemError."""

    def change(value: Any) -> None:
        for word in path:
            value = value[word] if isinstance(word, int) else value.setdefault(word, {})
        value.update(values)

    edit = _Edit(
        splice=lambda text: with_values(text, path, values),
        change=change,
        hint=f"write by hand to {'.'.join(map(str, path))}: {flow(values)}",
    )
    return _edited(name, content, document, edit)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Edit:
    """What is done to the text and to the value of one document, which must come to the same."""

    splice: Callable[[str], str]
    change: Callable[[object], None]
    hint: str


def _edited(name: str, content: bytes, document: int, edit: _Edit) -> bytes:
    parsed = _read_soundly(name, content)
    values = _values(parsed)
    line = next(one.document.line for one in parsed.documents if one.document.index == document)
    mark = content.removesuffix(without_mark(content))
    text = without_mark(content).decode("utf-8")
    start = offset_of(text, line)
    try:
        text = text[:start] + edit.splice(text[start:])
        edit.change(values[document])
    except SpliceError as error:
        raise _unsound(name, line, str(error), edit.hint) from error
    after = mark + text.encode("utf-8")
    found = read_documents(name, after)
    if found.problems or _said(_values(found)) != _said(values):
        why = "its anchors or its layout would make more of it than was asked for"
        raise _unsound(name, line, why, edit.hint)
    return after


def create(settings: Settings, path: Path, content: str) -> str:
    """Write a new spec file; its name. Raises ProblemError; nothing is ever written over."""
    name = new_name(settings, path)
    _create(settings, name, content)
    return name


def new_name(settings: Settings, path: Path) -> str:
    """What a file at `path` would be called, if it would be read as a spec. Raises ProblemError."""
    name = file_name(settings, path)
    root = f"{settings.spec_root.rstrip('/')}/"
    if not (name.startswith(root) and name.isprintable() and is_spec(name.removeprefix(root))):
        raise refuse(
            "file_outside_tree",
            f"{name} would be no spec of this fleet",
            f"name a .yaml file below {settings.spec_root}/, or send the output elsewhere by `>`",
        )
    # Whatever leads out of the tree by a link is refused before a folder is made behind it; within
    # the tree it would lie in a place that others may own.
    place = os.path.realpath(os.path.join(settings.folder, settings.spec_root))
    if spec_path(settings, name) != os.path.join(place, name.removeprefix(root)):
        raise refuse(
            "file_outside_tree",
            f"{name} leads to another place by a link",
            "name that place itself",
        )
    return name


def create_beside(settings: Settings, name: str, content: str) -> None:
    """Write a new file that a spec names, unless it is there and says the same already."""
    try:
        _create(settings, name, content)
    except ProblemError:
        if read_spec(settings, name) != content.encode("utf-8"):
            raise


def put_over(settings: Settings, name: str, before: bytes, after: bytes) -> None:
    """Let a spec file hold `after` if it still holds `before`. Raises ProblemError."""
    _replace(name, spec_path(settings, name), before, after)


def put(settings: Settings, name: str, content: bytes | None) -> None:
    """Let a spec file hold this, or be there no more. Raises ProblemError."""
    path = spec_path(settings, name)
    try:
        if content is None:
            os.unlink(path)
        elif os.path.lexists(path):
            _replace(name, path, read_file(name, path), content)
        else:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "xb") as file, _whole_or_gone(path):
                file.write(content)
                file.flush()
    except OSError as error:
        raise _unwritable(name, error) from error


def _create(settings: Settings, name: str, content: str) -> None:
    path = spec_path(settings, name)
    try:
        Path(settings.folder, name).parent.mkdir(parents=True, exist_ok=True)
        with open(path, "x", encoding="utf-8", newline="") as file, _whole_or_gone(path):
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError as error:
        raise refuse("file_exists", f"{name} is there already", "name another file") from error
    except OSError as error:
        raise _unwritable(name, error) from error


@contextmanager
def _whole_or_gone(path: str) -> Iterator[None]:
    """Half a document is none, and would stand in the way of the whole one."""
    try:
        yield
    except BaseException:
        with suppress(OSError):
            os.unlink(path)
        raise


def _read_soundly(name: str, content: bytes) -> Parsed:
    parsed = read_documents(name, content)
    if parsed.problems:
        raise ProblemError(with_text(parsed.problems, content))
    return parsed


def _values(parsed: Parsed) -> dict[int, object]:
    """What each document says, with nothing shared between them or within one."""
    return {
        one.document.index: json.loads(json.dumps(one.document.value)) for one in parsed.documents
    }


def _said(values: Mapping[int, object]) -> str:
    return canonical({str(index): value for index, value in values.items()})


def _list_at(value: Any, path: Sequence[str]) -> list[object]:
    """The list at `path`, made where there is none."""
    for word in path[:-1]:
        value = value.setdefault(word, {})
    found = value.setdefault(path[-1], [])
    if not isinstance(found, list):
        raise SpliceError(f"{'.'.join(path)} is no list")
    return found


def _unsound(name: str, line: int, why: str, hint: str) -> ProblemError:
    return refuse(
        "edit_unsound",
        f"it cannot be edited by a program: {why}",
        hint,
        source=Source(file=name, line=line, column=1),
    )


def _replace(name: str, path: str, before: bytes, after: bytes) -> None:
    """Put the new content in place at once, unless somebody else has written meanwhile."""
    try:
        found, names = os.stat(path), (".", ".gpuaas")
        with partial_file(Path(path), after, mode=found, durable=True, name=names) as fresh:
            if read_file(name, path) != before:
                hint = "run the command again"
                raise refuse("file_changed", f"{name} was changed by somebody else", hint)
            os.replace(fresh, path)
    except OSError as error:
        raise _unwritable(name, error) from error


def _unwritable(name: str, error: OSError) -> ProblemError:
    return refuse(
        "file_unreadable",
        f"{name} cannot be written: {error.strerror}",
        "make it writable for you; nothing was changed",
    )
