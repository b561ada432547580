"""The code of the house as trees: each file is read once a process, and walked once."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """All of its tree, in the order of `ast.walk`."""
    return tuple(ast.walk(tree(path)))


@cache
def imports(path: Path) -> tuple[tuple[str, ast.stmt], ...]:
    """Every imported module as a dotted name; `from a import b` gives `a.b`, as b may be one."""
    found: list[tuple[str, ast.stmt]] = []
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found += [(alias.name, node) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            found += [(f"{module}.{alias.name}", node) for alias in node.names]
    return tuple(found)


@cache
def functions(path: Path) -> tuple[ast.FunctionDef | ast.AsyncFunctionDef, ...]:
    sorts = (ast.FunctionDef, ast.AsyncFunctionDef)
    return tuple(node for node in nodes(path) if isinstance(node, sorts))


@cache
def calls(path: Path) -> tuple[tuple[str, ast.Call], ...]:
    """The last word of what is called: `now` for `datetime.now()`."""
    found = []
    for node in nodes(path):
        if isinstance(node, ast.Call):
            match node.func:
                case ast.Name(id=name) | ast.Attribute(attr=name):
                    found.append((name, node))
    return tuple(found)
