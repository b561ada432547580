"""`python -m tests.measures` prints how well the house can carry what comes next.

Each measure is a number of things that make a feature dear: the fewer, the better. They are those
that the design of the house is drawn from; `tests/test_measures.py` lets none of them grow.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path

from tests.sources import nodes, tree

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "reconciler"
SHELF = 15
"""Files in a folder, but for shelves of one sort."""

SHELVES = frozenset({"cli/commands", "cli/views", "kinds", "store/migrations", "store/tables"})
TWO_ROOMS = ("planner", "operations")


@cache
def modules() -> Mapping[str, str]:
    """The text of each module by its path below the package, without its suffix."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.name != "__init__.py":
            name = str(path.relative_to(PACKAGE).with_suffix(""))
            found[name] = path.read_text(encoding="utf-8")
    return found


def file(name: str) -> Path:
    return PACKAGE / f"{name}.py"


def of(*rooms: str) -> Iterator[tuple[str, str]]:
    return ((name, text) for name, text in modules().items() if name.split("/")[0] in rooms)


def crowded_files() -> int:
    """Files above what a folder may have, all folders together."""
    folders = Counter(name.rpartition("/")[0] for name in modules())
    return sum(max(0, n - SHELF) for folder, n in folders.items() if folder not in SHELVES)


def gerunds() -> int:
    """Modules of planner and operations that are named by what they do, not by a thing."""
    return sum(name.rpartition("/")[2].split("_")[0].endswith("ing") for name, _ in of(*TWO_ROOMS))


def unlike_commands() -> int:
    """Commands without an operation of their name: a module, or the folder of its parts.

    One that calls no operation, as `version`, has none to name.
    """
    parts = [name.split("/") for name, _ in of("operations")]
    operations = {word for names in parts for word in names[1:]}
    return sum(
        name.rpartition("/")[2] not in operations
        for name, text in modules().items()
        if name.startswith("cli/commands/") and "reconciler.operations" in text
    )


def repeated_classes() -> int:
    """Names of classes that are defined more than once; a private one is nobody's business."""
    names = Counter(
        node.name
        for name in modules()
        for node in tree(file(name)).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    return sum(number > 1 for number in names.values())


def asked_kinds() -> int:
    """Places that ask for the kind of something, where a registry should answer."""
    return sum(len(re.findall(r"\.kind (?:==|!=|in|not in)\s", text)) for _, text in of(*TWO_ROOMS))


READERS = frozenset({"model/spec/reading", "model/state/world", "specs/read/check_file"})
"""Where a document, or what was applied of one, becomes a typed spec."""


def raw_specs() -> int:
    """Reads of a spec as a dictionary, but where it becomes a typed one."""
    others = (text for name, text in modules().items() if name not in READERS)
    return sum(len(re.findall(r'normal\["spec"\](?! = )', text)) for text in others)


def untyped() -> int:
    """`Any` in what functions take and give, and in fields."""
    return sum(
        isinstance(node, ast.Name) and node.id == "Any"
        for name in modules()
        for node in nodes(file(name))
    )


@cache
def arrows(room: str) -> Mapping[str, frozenset[str]]:
    """Which packages of a room each of them imports; a module beside them counts as one."""
    found: dict[str, set[str]] = {}
    for name in modules():
        if not name.startswith(f"{room}/"):
            continue
        box = found.setdefault(name.split("/")[1], set())
        for node in nodes(file(name)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("reconciler."):
                base = (node.module or "").removeprefix("reconciler.").replace(".", "/")
                targets = {base, *(f"{base}/{alias.name}" for alias in node.names)}
                inside = (t for t in targets if t in modules() and t.startswith(f"{room}/"))
                box |= {target.split("/")[1] for target in inside} - {name.split("/")[1]}
    return {box: frozenset(others) for box, others in found.items()}


def circles(room: str) -> int:
    """Packages of a room that import themselves by way of others."""
    graph = arrows(room)

    def reached(box: str) -> set[str]:
        seen: set[str] = set()
        left = [box]
        while left:
            new = graph[left.pop()] - seen
            seen |= new
            left += new
        return seen

    return sum(box in reached(box) for box in graph)


def floors(room: str) -> int:
    """The longest chain of imports between packages of a room; 0 where they go round."""
    graph = arrows(room)

    @cache
    def height(box: str) -> int:
        return 1 + max((height(below) for below in graph[box]), default=0)

    return 0 if circles(room) else max(map(height, graph))


MEASURES: Mapping[str, Callable[[], int]] = {
    "files above 15 in a folder": crowded_files,
    "packages of planner in circles": lambda: circles("planner"),
    "packages of operations in circles": lambda: circles("operations"),
    "floors in planner": lambda: floors("planner"),
    "floors in operations": lambda: floors("operations"),
    "imports between packages of planner": lambda: sum(map(len, arrows("planner").values())),
    "modules named by what they do": gerunds,
    "commands without an operation of their name": unlike_commands,
    "class names defined twice or more": repeated_classes,
    "kinds asked for in planner and operations": asked_kinds,
    "specs read as dictionaries": raw_specs,
    "Any in signatures and fields": untyped,
}


def main() -> None:
    for what, measure in MEASURES.items():
        print(f"{measure():>5}  {what}")


if __name__ == "__main__":
    main()
