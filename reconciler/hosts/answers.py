"""A host's answer about itself, read strictly: wrong types are refused, unknown keys dropped.

Hosts do not extend the model of the product; what they say that it has no word for is noted.
"""

from __future__ import annotations

import dataclasses
import json
import re
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import cache
from typing import Any, Union

from reconciler.model.codec import camel, decode
from reconciler.model.host.evidence import NodeFacts, ProbeProblem
from reconciler.model.host.topology import Topology
from reconciler.model.records import dataclass

MAX_TEXT = 4096
MAX_VALUES = 50_000
"""More than any host has to say, and less than a control machine would feel."""

MAX_DEVICES, MAX_CORES, MAX_DROPPED = 256, 4096, 20
MAX_NOISE = 200
NOISE = "login"
"""The probe to which it is put down what a login says by itself."""

CORE = re.compile(r"[0-9]{1,4}(,[0-9]{1,4}){0,15}")
"""A whole core, as its threads."""

_OPENERS = (b",", b"[", b"{")
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"')
"""A name on a host is of as many commas as its owner likes, and is one value."""


class AnswerError(ValueError):
    """An answer that a host may not give."""


def read_answer(text: bytes) -> NodeFacts:
    """Read an answer. Raises AnswerError for anything but facts of the right types.

    What a login has printed before them, as by a `.bashrc`, is noted and counts for nothing.
    """
    before, answer = split_noise(text)
    value = read_json(answer)
    fitting = _Fitting()
    facts = decode(NodeFacts, fitting.fit(NodeFacts, value, "facts"))
    if facts.source not in ("host", "standin"):
        raise AnswerError("facts.source is neither host nor standin")
    _check_machine(facts)
    dropped = tuple(
        ProbeProblem(probe="answer", message=f"unknown key dropped: {key}")
        for key in fitting.dropped[:MAX_DROPPED]
    )
    return replace(facts, problems=(*facts.problems, *dropped, *_noise(before)))


def split_noise(text: bytes) -> tuple[bytes, bytes]:
    """What was printed before the answer, which is one line and the last; and that."""
    before, _, line = text.rstrip().rpartition(b"\n")
    if line.startswith(b"{"):
        return before, line
    glued, brace, rest = line.partition(b'{"')
    return b"\n".join(filter(None, (before, glued))), brace + rest if brace else line


def _noise(before: bytes) -> tuple[ProbeProblem, ...]:
    text = "".join(
        char if char.isprintable() else " " for char in before.decode("utf-8", "replace")
    )
    words = " ".join(text.split())[:MAX_NOISE]
    if not words:
        return ()
    return (ProbeProblem(probe=NOISE, message=f"said before the answer, and skipped: {words}"),)


def read_json(text: bytes) -> object:
    """What a host sent, of a bounded size and the same to every reader. Raises AnswerError."""
    if _has_too_many(text):
        raise AnswerError(f"more than {MAX_VALUES} values")
    try:
        return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise AnswerError(f"no JSON: {str(error)[:100]}") from error


def _has_too_many(text: bytes) -> bool:
    """Values, of which two strings each may be one with its key; no copy of the text is made."""
    if _values(text, 0, len(text)) <= MAX_VALUES:
        return False
    found = end = 0
    for number, string in enumerate(_STRING.finditer(text)):
        found += _values(text, end, string.start())
        end = string.end()
        if found > MAX_VALUES or number > 2 * MAX_VALUES:
            return True
    return found + _values(text, end, len(text)) > MAX_VALUES


def _values(text: bytes, start: int, end: int) -> int:
    return sum(text.count(opener, start, end) for opener in _OPENERS)


def _check_machine(facts: NodeFacts) -> None:
    """Refuse hardware that no machine has.

    Of two devices with one name only one would be seen; and an impossible number of devices would
    all be compared with each other.
    """
    topology = facts.topology or Topology()
    numas = topology.numa_nodes or ()
    parts: Mapping[str, Sequence[str | int]] = {
        "gpus by uuid": [gpu.uuid for gpu in facts.gpus or ()],
        "gpus by PCI address": [gpu.pci_address for gpu in facts.gpus or ()],
        "cards by PCI address": [card.pci_address for card in topology.cards or ()],
        "drives by id": [drive.id for drive in topology.drives or ()],
        "network cards by name": [nic.name for nic in topology.nics or ()],
        "NUMA nodes by number": [numa.number for numa in numas],
    }
    for what, names in parts.items():
        if len(names) > MAX_DEVICES or len(set(names)) < len(names):
            raise AnswerError(f"{what}: more than {MAX_DEVICES}, or two of one name")
    cores = [core for numa in numas for core in numa.cores]
    if len(cores) > MAX_CORES or not all(map(CORE.fullmatch, cores)):
        raise AnswerError(f"cores: more than {MAX_CORES}, or what is none")


@dataclass(slots=True)
class _Fitting:
    """One answer measured against the annotations of the model."""

    dropped: list[str] = field(default_factory=list)

    def fit(self, shape: object, value: object, where: str) -> object:
        origin, args = typing.get_origin(shape), typing.get_args(shape)
        if dataclasses.is_dataclass(shape):
            return self._record(shape, value, where)
        if origin in (Union, types.UnionType):
            inner = next(arg for arg in args if arg is not type(None))
            return None if value is None else self.fit(inner, value, where)
        if origin is tuple:
            items = _of(list, value, where)
            return [self.fit(args[0], item, f"{where}[{n}]") for n, item in enumerate(items)]
        if origin is Mapping:
            return {
                _text(key, where): self.fit(args[1], item, f"{where}.{key[:60]}")
                for key, item in _of(dict, value, where).items()
            }
        if shape is bool:
            return _of(bool, value, where)
        return _text(value, where) if shape is str else _count(value, where)

    def _record(self, shape: object, value: object, where: str) -> dict[str, object]:
        told = _of(dict, value, where)
        hints, fields = _shape_of(shape)
        if len(self.dropped) < MAX_DROPPED:
            self.dropped += [
                f"{where}.{key}"[:200] if key.isprintable() else f"{where}.?"
                for key in sorted(set(told) - set(fields))[:MAX_DROPPED]
            ]
        fitted = {}
        for key, one in fields.items():
            if key in told:
                fitted[key] = self.fit(hints[one.name], told[key], f"{where}.{key}")
            elif one.default is dataclasses.MISSING and one.default_factory is dataclasses.MISSING:
                raise AnswerError(f"{where}.{key} is missing")
        return fitted


@cache
def _shape_of(shape: Any) -> tuple[Mapping[str, object], Mapping[str, dataclasses.Field[object]]]:
    """The types of a record's fields, and the fields by the keys that a host uses."""
    fields = {camel(one.name): one for one in dataclasses.fields(shape)}
    return typing.get_type_hints(shape), fields


def _of(kind: type, value: object, where: str) -> Any:
    if not isinstance(value, kind):
        raise AnswerError(f"{where} is no {kind.__name__}")
    return value


def _text(value: object, where: str) -> str:
    """Plain text: a host has no way to steer the terminal of whoever reads it."""
    if not isinstance(value, str) or len(value) > MAX_TEXT or not value.isprintable():
        raise AnswerError(f"{where} is no plain text")
    return value


def _count(value: object, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 63:
        raise AnswerError(f"{where} is no count")
    return value


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice")
    return found


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number")
