"""Splicing: an entry or a value is put into the text of a document; the rest stays as it is.

ruamel.yaml says where things stand; nothing is written out anew, so comments, quotes, order,
indentation and line widths stay whatever they are. Whoever calls holds the result against what
it should say: anchors and other rarities may lead an entry where it does not belong.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from reconciler.specs.edit.yaml_writer import STEP, block, flow, items, scalar

BLOCKS = frozenset("|>")
"""Texts that end where their lines do: what is put in their place would run into what follows."""


class SpliceError(ValueError):
    """Why there is no place for the entry."""


def with_entry(text: str, path: Sequence[str], entry: Mapping[str, object]) -> str:
    """`text`, whose first document now has `entry` at the end of the list at `path`.

    The list is made where there is none. Raises SpliceError.
    """
    here = _compose(text)
    key: Node | None = None
    for depth, word in enumerate(path):
        if not isinstance(here, MappingNode):
            raise SpliceError(f"{'.'.join(path[:depth])} is no mapping")
        found = next(((k, v) for k, v in here.value if k.value == word), None)
        if found is None:
            return _with_key(text, here, path[depth:], entry)
        parent, (key, here) = here, found
    if not isinstance(here, SequenceNode) or key is None:
        raise SpliceError(f"{'.'.join(path)} is no list")
    if not here.flow_style:
        return _after_last(text, here, entry)
    if here.value:
        return _in_brackets(text, here.value[-1], flow(entry))
    if parent.flow_style:
        return _put(text, here.start_mark.index + 1, flow(entry))
    return _in_place_of_none(text, key, here, entry)


def with_values(text: str, path: Sequence[str | int], values: Mapping[str, object]) -> str:
    """`text`, whose first document now has these values, and what else it had, at `path`.

    Raises SpliceError.
    """
    if _find(text, path) is None:
        return _with_value(text, path, values)
    for key, value in values.items():
        text = _with_value(text, (*path, key), value)
    return text


def without_entry(text: str, path: Sequence[str], number: int) -> str:
    """`text`, whose first document no longer has entry `number` of the list at `path`.

    Comments on its own lines go with it; those between entries stay. Raises SpliceError.
    """
    here, key = _find(text, path), _key(text, path)
    if not isinstance(here, SequenceNode) or key is None or number >= len(here.value):
        raise SpliceError(f"{'.'.join(path)} has no such entry")
    if here.flow_style:
        return _without_item(text, here, number)
    entry = here.value[number]
    start = text.rfind("\n", 0, _dash_before(text, entry)) + 1
    end = text.find("\n", _end(text, entry))
    text = text[:start] + (text[end + 1 :] if end >= 0 else "")
    # A list of nothing would be no list.
    return text if len(here.value) > 1 else _put(text, key.end_mark.index + 1, " []")


def _without_item(text: str, here: SequenceNode, number: int) -> str:
    first, last = here.start_mark.index + 1, here.end_mark.index - 1
    if len(here.value) > 1:
        marks = [(one.start_mark.index, one.end_mark.index) for one in here.value]
        first = marks[number - 1][1] if number else marks[0][0]
        last = marks[number][1] if number else marks[1][0]
    if "#" in text[first:last]:
        raise SpliceError("a comment may stand in what would go")
    return text[:first] + text[last:]


def _key(text: str, path: Sequence[str]) -> Node | None:
    """The key of the value at `path`."""
    here = _find(text, path[:-1])
    pairs = here.value if isinstance(here, MappingNode) else ()
    return next((key for key, _ in pairs if key.value == path[-1]), None)


def _find(text: str, path: Sequence[str | int]) -> Node | None:
    here: Node | None = _compose(text)
    for word in path:
        if isinstance(word, int):
            entries = here.value if isinstance(here, SequenceNode) else ()
            here = next(iter(entries[word : word + 1]), None)
        else:
            pairs = here.value if isinstance(here, MappingNode) else ()
            here = next((value for key, value in pairs if key.value == word), None)
    return here


def _with_value(text: str, path: Sequence[str | int], value: object) -> str:
    """One value in place of what stands there, or behind everything beside it."""
    depth = next(d for d in range(len(path), -1, -1) if _find(text, path[:d]) is not None)
    here = _find(text, path[:depth])
    if depth == len(path) and here is not None:
        if isinstance(here, (MappingNode, SequenceNode)) and not here.flow_style:
            raise SpliceError(f"{'.'.join(map(str, path))} is written in lines")
        start, end = here.start_mark.index, here.end_mark.index
        if isinstance(here, ScalarNode) and here.style in BLOCKS:
            raise SpliceError(f"{'.'.join(map(str, path))} is a text in lines of its own")
        lines = text[start:end].splitlines() if not isinstance(here, ScalarNode) else ()
        if any("#" in one for one in lines[:-1]):
            raise SpliceError("a comment may stand in what would go")
        gap = " " if text[start - 1 : start] == ":" else ""
        return text[:start] + gap + flow(value) + text[end:]
    if not isinstance(here, MappingNode) or not (here.value or here.flow_style):
        raise SpliceError(f"{'.'.join(map(str, path[:depth]))} is no mapping")
    word, *rest = map(str, path[depth:])
    for inner in reversed(rest):
        value = {inner: value}
    if not here.flow_style:
        column = here.value[0][0].start_mark.column
        return _put_lines(text, _end(text, here), column, block({word: value}))
    new = f"{scalar(word)}: {flow(value)}"
    if here.value:
        return _in_brackets(text, here.value[-1][1], new)
    return _put(text, here.start_mark.index + 1, new)


def _compose(text: str) -> Node:
    try:
        root: Node | None = next(iter(YAML(pure=True).compose_all(text)), None)
    except YAMLError as error:
        raise SpliceError(f"it reads differently elsewhere: {error}") from error
    if root is None:
        raise SpliceError("there is no document")
    return root


def _after_last(text: str, here: SequenceNode, entry: Mapping[str, object]) -> str:
    """A new entry, written in the style of the last one."""
    last, dash = here.value[-1], here.start_mark.column
    if isinstance(last, ScalarNode) or last.flow_style:
        lines: Iterable[str] = [f"- {flow(entry)}"]
    else:
        same_line = last.start_mark.line == _line(text, _dash_before(text, last))
        lines = items([entry], last.start_mark.column - dash if same_line else STEP)
    return _put_lines(text, _end(text, here), dash, lines)


def _in_brackets(text: str, last: Node, new: str) -> str:
    start = last.start_mark
    own_line = not text[start.index - start.column : start.index].strip()
    gap = _break(text) + " " * start.column if own_line else " "
    return _put(text, last.end_mark.index, f",{gap}{new}")


def _in_place_of_none(text: str, key: Node, here: Node, entry: Mapping[str, object]) -> str:
    """`approvals: []` becomes a list of lines; a comment behind it stays behind the key."""
    after = here.end_mark.index
    text = text[: key.end_mark.index] + ":" + text[after:]
    at = key.end_mark.index + 1
    end = at + len(text[at:].partition("\n")[0].rstrip())
    return _put_lines(text, end, key.start_mark.column + STEP, items([entry]))


def _with_key(
    text: str, here: MappingNode, path: Sequence[str], entry: Mapping[str, object]
) -> str:
    value: object = [entry]
    for word in reversed(path[1:]):
        value = {word: value}
    if here.flow_style:
        return _in_brackets(text, here.value[-1][1], f"{scalar(path[0])}: {flow(value)}")
    column = here.value[0][0].start_mark.column
    lines = block({path[0]: value}) if len(path) > 1 else _list(path[0], entry, _dash(here))
    return _put_lines(text, _end(text, here), column, lines)


def _list(key: str, entry: Mapping[str, object], dash: int) -> Iterable[str]:
    yield f"{scalar(key)}:"
    yield from (f"{' ' * dash}{line}" for line in items([entry]))


def _dash(here: MappingNode) -> int:
    """How far its other lists are set in from their key."""
    lists = (
        value.start_mark.column - key.start_mark.column
        for key, value in here.value
        if isinstance(value, SequenceNode) and not value.flow_style
    )
    return next((columns for columns in lists if columns >= 0), STEP)


def _end(text: str, node: Node) -> int:
    """Behind the last line of what stands in lines, its comment included.

    Comments in lines of their own below it belong to whatever comes next.
    """
    end = node.end_mark.index
    while True:
        end = len(text[:end].rstrip())
        start = text.rfind("\n", 0, end) + 1
        if not text[start:end].lstrip().startswith("#"):
            return end
        end = start


def _dash_before(text: str, entry: Node) -> int:
    return text.rfind("-", 0, entry.start_mark.index)


def _line(text: str, index: int) -> int:
    return text.count("\n", 0, index)


def _put_lines(text: str, at: int, column: int, lines: Iterable[str]) -> str:
    gap = _break(text) + " " * column
    return _put(text, at, "".join(f"{gap}{line}" for line in lines))


def _put(text: str, at: int, new: str) -> str:
    return text[:at] + new + text[at:]


def _break(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"
