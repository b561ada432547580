"""The host's own programs, run to do something: it is done, or it is refused."""

from __future__ import annotations

from .paths import Refusal, Tree
from .probes import ProbeError, call, failure


def must(program: str, *arguments: str) -> str:
    """What it says; raises Refusal with its own words where it fails."""
    try:
        done = call(program, *arguments)
    except ProbeError as error:
        raise Refusal("verb_failed", str(error)) from error
    if done.returncode != 0:
        raise Refusal("verb_failed", failure(program, done))
    return done.stdout


def tried(program: str, *arguments: str) -> str:
    """Why it did not do what it was to do; empty where it did."""
    try:
        done = call(program, *arguments)
    except ProbeError as error:
        return str(error)
    return "" if done.returncode == 0 else failure(program, done)


def change(tree: Tree, program: str, *arguments: str) -> None:
    """Something of the host is other afterwards; a dry run only notes that it would be."""
    tree.changed = True
    if not tree.dry:
        must(program, *arguments)
