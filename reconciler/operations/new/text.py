"""The text of a new spec: commented YAML, as the starter's files are written.

Comments are words of this program alone. Whatever somebody has answered is a value, written by the
one writer of YAML values.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator, Mapping, Sequence

from reconciler.model.ref import KIND_WORDS, Ref
from reconciler.operations.fleet import Fleet
from reconciler.operations.new.contract import Part, SpecDraft
from reconciler.specs.edit.yaml_writer import STEP, block, document
from reconciler.specs.read.check_file import API_VERSION

WIDTH = 76
"""Of a comment, with what it is set in by: what a small terminal shows on a line."""


def compose(ref: Ref, heading: str, parts: Sequence[Part]) -> SpecDraft:
    """One document: its heading, what it is called, and its spec part by part."""
    spec: dict[str, object] = {}
    for part in parts:
        spec.update(part.entries)
    (kind,) = (kind for kind, word in KIND_WORDS.items() if word == ref.kind)
    metadata = {"name": ref.name, **({"project": ref.project} if ref.project else {})}
    head: Mapping[str, object] = {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata}
    whole = {**head, "spec": spec}
    lines = [*comment(heading), *document(head).splitlines(), "spec:", *_body(parts)]
    return SpecDraft(text="".join(f"{line}\n" for line in lines), documents=(whole,))


def _body(parts: Sequence[Part]) -> Iterator[str]:
    for part in parts:
        for line in (*comment(part.comment), *block(part.entries)):
            yield f"{' ' * STEP}{line}"


def comment(text: str) -> Iterator[str]:
    """Each line of it is a comment; a line that starts with a blank is not filled."""
    for line in text.splitlines():
        if line.startswith(" "):
            yield f"#{line}"
        else:
            yield from (f"# {one}" for one in textwrap.wrap(line, WIDTH - 2 * STEP))


def with_modeline(fleet: Fleet, kind: str, file: str, text: str) -> str:
    """With the line that tells an editor the schema, where the fleet has it beside its specs."""
    schema = f"schemas/{kind}.schema.json"
    if not (fleet.folder / schema).is_file():
        return text
    to = os.path.relpath(schema, os.path.dirname(file))
    return f"# yaml-language-server: $schema={to}\n{text}"
