"""Emitting: whatever a spec may hold reads back as it was, and looks as people write it."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from reconciler.specs.edit import yaml_writer
from reconciler.specs.read.yaml_reader import read_documents

TEXT = some.one_of(
    some.text("abcXYZ 0123456789.,:-_/+=#{}[]'\"&*!|>%@`~é", max_size=30),
    some.sampled_from(
        ["no", "on", "y", "null", "~", "", "1e3", "012", "1:30", "0x1f", "2026-01-01", "<<", "="]
    ),
)
NAMES = some.text("abcdefgXYZ", min_size=1, max_size=8)
SCALARS = some.one_of(TEXT, some.integers(-(10**14), 10**14), some.booleans())
VALUES: some.SearchStrategy[Any] = some.recursive(
    SCALARS,
    lambda inner: some.one_of(
        some.lists(inner, max_size=4), some.dictionaries(NAMES, inner, max_size=4)
    ),
    max_leaves=12,
)


def read(text: str) -> list[Any]:
    parsed = read_documents("x.yaml", text.encode("utf-8"))
    assert not parsed.problems, (text, parsed.problems)
    return [one.document.value for one in parsed.documents]


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(some.dictionaries(NAMES, VALUES, min_size=1, max_size=5))
def test_what_is_written_reads_back(value: dict[str, Any]) -> None:
    """In lines, and on one line too; two documents stay two."""
    assert read(yaml_writer.document(value)) == [value]
    assert read(f"x: {yaml_writer.flow(value)}\n") == [{"x": value}]
    assert read(yaml_writer.document(value) + "---\n" + yaml_writer.document(value)) == [
        value,
        value,
    ]


def test_a_document_as_a_person_would_write_it() -> None:
    value = {
        "kind": "Node",
        "metadata": {"name": "gpu01", "labels": {"rack": "no"}},
        "spec": {
            "reserve": {"cpus": "0-3,112", "memoryGiB": 64},
            "slots": [{"name": "s0", "gpu": {"model": "NVIDIA H100 80GB HBM3"}, "numa": 0}],
            "shapes": ["baremetal", "gpu_slice"],
            "hostKeys": ["ssh-ed25519 " + "A" * 80],
        },
    }
    assert yaml_writer.document(value) == (
        "kind: Node\n"
        "metadata:\n"
        "  name: gpu01\n"
        '  labels: {rack: "no"}\n'
        "spec:\n"
        '  reserve: {cpus: "0-3,112", memoryGiB: 64}\n'
        "  slots:\n"
        "    - name: s0\n"
        "      gpu: {model: NVIDIA H100 80GB HBM3}\n"
        "      numa: 0\n"
        "  shapes: [baremetal, gpu_slice]\n"
        "  hostKeys:\n"
        f"    - ssh-ed25519 {'A' * 80}\n"
    )
