"""The schemas: closed, described, sound, and one with the typed specs and their rules."""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, get_type_hints

import jsonschema_rs
import pytest

from reconciler.kinds.registry import KINDS
from reconciler.model.codec import camel, encode
from reconciler.model.ref import KIND_WORDS, PROJECT_KINDS, is_name, parse_ref
from reconciler.model.settings import Settings
from reconciler.planner.diff.change_words import ALWAYS_ALLOWED, CONDITIONS
from reconciler.planner.diff.fields import word_of
from reconciler.specs.read.validation import Validator
from tests.docs.render_kinds import fields
from tests.kinds.sample import examples

FOLDER = Path(__file__).parents[2] / "schemas"
SCHEMAS: dict[str, Any] = {
    word: json.loads((FOLDER / f"{word}.schema.json").read_text("utf-8"))
    for word in (*KINDS, "settings")
}
OWN = {word: schema for word, schema in SCHEMAS.items() if word in KINDS}
VALID = {ref.kind: document for ref, document in examples().items()}

CHANGES = ALWAYS_ALLOWED | set(CONDITIONS)


def is_valid(word: str, document: Any) -> bool:
    return bool(jsonschema_rs.validator_for(SCHEMAS[word]).is_valid(document))


def parts(schema: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Every subschema that is an object, with its place."""
    if isinstance(schema, dict):
        yield place, schema
        for key, item in schema.items():
            yield from parts(item, f"{place}/{key}")
    elif isinstance(schema, list):
        for at, item in enumerate(schema):
            yield from parts(item, f"{place}/{at}")


def changed(word: str, path: tuple[str | int, ...], value: Any) -> Any:
    document = copy.deepcopy(dict(VALID[word]))
    inside: Any = document
    for part in path[:-1]:
        inside = inside[part]
    inside[path[-1]] = value
    return document


def test_schemas_are_called_by_their_kind() -> None:
    for word, schema in OWN.items():
        assert schema["$id"] == f"{word}.schema.json"
        assert KIND_WORDS[schema["title"]] == word
        assert schema["properties"]["kind"]["const"] == KINDS[word].NAME == schema["title"]


@pytest.mark.parametrize("word", SCHEMAS)
def test_closed_on_every_level(word: str) -> None:
    """F-PAR-03: an unknown key is an error wherever it stands, so a typo never means a default."""
    for place, part in parts(SCHEMAS[word]):
        if part.get("type") == "object":
            free = part.get("additionalProperties")
            assert free is False or (isinstance(free, dict) and "propertyNames" in part), place
        if part.get("type") == "array":
            assert "items" in part and "maxItems" in part, place
        if part.get("type") == "string":
            assert "maxLength" in part and "pattern" in part, place
        if part.get("type") == "integer":
            assert "minimum" in part and "maximum" in part, place


@pytest.mark.parametrize("word", OWN)
def test_valid_and_closed_as_a_whole(word: str) -> None:
    """OBJ-09, F-PAR-03: the example passes, and fails with one more key at any depth."""
    document = VALID[word]
    assert is_valid(word, document)
    for path in objects(document):
        if path[-1:] not in {("labels",), ("env",), ("params",)}:
            assert not is_valid(word, changed(word, (*path, "unheardOf"), "x")), path
    assert not is_valid(word, {**document, "status": {}})
    assert not is_valid(word, changed(word, ("metadata", "annotations"), {}))


def objects(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if isinstance(value, Mapping):
        yield path
        for key, item in value.items():
            yield from objects(item, (*path, key))
    elif isinstance(value, list):
        for at, item in enumerate(value):
            yield from objects(item, (*path, at))


@pytest.mark.parametrize("word", SCHEMAS)
def test_every_field_is_described(word: str) -> None:
    schema = SCHEMAS[word]
    for path, field, _ in fields(schema, schema["$defs"], ""):
        assert field.get("description", "").endswith((".", '".', "…")), f"{word}{path}"


def test_common_parts_are_the_same_everywhere() -> None:
    for word, schema in SCHEMAS.items():
        for name, part in schema["$defs"].items():
            twins = [other["$defs"][name] for other in SCHEMAS.values() if name in other["$defs"]]
            assert all(twin == part for twin in twins), f"{word}: {name}"
    for word, schema in OWN.items():
        metadata = schema["properties"]["metadata"]
        assert ("project" in metadata["properties"]) is (word in PROJECT_KINDS)
        assert ("project" in metadata["required"]) is (word in PROJECT_KINDS)


@pytest.mark.parametrize(
    "name",
    ["Team-A", "team_a", "team-", "-team", "te--am", "1team", "", "a" * 33, "tеam", "té", "..",
     "a/../b", "/", ".", "team\n", "٣", "a b"],
)  # fmt: skip
def test_names_are_plain(name: str) -> None:
    """F-PAR-04, F-PAR-06, F-PAR-18: only one alphabet, no paths, no newline, no look-alikes."""
    assert not is_name(name)
    for word in OWN:
        assert not is_valid(word, changed(word, ("metadata", "name"), name)), word


TEXTS: tuple[tuple[str, tuple[str | int, ...], str], ...] = (
    ("user", ("spec", "emails", 0), "ana@corp.example"),
    ("user", ("spec", "displayName"), "Ana"),
    ("node", ("spec", "address"), "10.0.0.11"),
    ("node", ("spec", "identity", "machineId"), "4f3c2b1a0d9e48b7a6c5d4e3f2a1b0c9"),
    ("node", ("spec", "slots", 0, "cpus"), "4-16"),
    ("node", ("spec", "slots", 0, "gpu", "uuid"), "GPU-eb6c0716-025b"),
    ("node", ("spec", "slots", 0, "gpu", "pciAddress"), "0000:0a:00.0"),
    ("node", ("spec", "root"), "/srv/root"),
    ("node", ("spec", "approvals", 0, "digest"), "sha256:" + "0" * 64),
    ("bundle", ("spec", "versions", 0, "version"), "2.6.0-cu124"),
    ("allocation", ("spec", "storage"), "/data/x"),
    ("grant", ("spec", "expiresAt"), "2026-12-05T18:00:00Z"),
    ("project", ("spec", "budget"), "12000.00"),
    ("artifact", ("spec", "ref"), "registry.example/x@sha256:" + "0" * 64),
)


@pytest.mark.parametrize(("word", "path", "good"), TEXTS)
def test_texts_hold_one_line_of_ascii_digits(
    word: str, path: tuple[str | int, ...], good: str
) -> None:
    """F-PAR-04: a newline at the end, control characters and foreign digits are refused."""

    def value(text: str) -> Any:
        if path[-1] == "storage":
            return [{"name": "x", "mode": "ro", "mountPath": text}]
        if path[-1] == "budget":
            return {"monthly": text, "currency": "EUR"}
        return text

    assert is_valid(word, changed(word, path, value(good)))
    for bad in (
        good + "\n",
        "\n" + good,
        good + "\r",
        good + "\x00",
        good + "\x0b",
        good + "\u2028",
    ):
        assert not is_valid(word, changed(word, path, value(bad))), repr(bad)
    if path[-1] not in ("displayName",):
        assert not is_valid(word, changed(word, path, value(good + "٣")))


@pytest.mark.parametrize("version", ["..", ".", "current", "../../etc", "a/b", "", "-1", "x" * 65])
def test_versions_are_no_paths(version: str) -> None:
    """F-PAR-06 F-BUN-06: a version becomes a folder's name on every host."""
    path = ("spec", "versions", 0, "version")
    assert not is_valid("bundle", changed("bundle", path, version))


@pytest.mark.parametrize(
    "mount", ["/etc", "/data/..", "/data/../etc", "/home/ana", "data", "/data//x", "/", "/datax"]
)
def test_mount_paths_stay_below_their_roots(mount: str) -> None:
    attachment = [{"name": "x", "mode": "ro", "mountPath": mount}]
    assert not is_valid("allocation", changed("allocation", ("spec", "storage"), attachment))


@pytest.mark.parametrize(
    "text",
    ["2026-13-01T00:00:00Z", "2026-12-05", "2026-12-05T18:00:00", "2026-12-05T24:00:00Z",
     "2026-12-05 18:00:00Z", "tomorrow"],
)  # fmt: skip
def test_times_have_a_zone(text: str) -> None:
    assert not is_valid("grant", changed("grant", ("spec", "expiresAt"), text))


@pytest.mark.parametrize("number", ["1.2345678", "-1", "1e3", ".5", "1.", "1234567890", "1,5", 1.5])
def test_money_is_quoted_decimal_text(number: Any) -> None:
    path = ("spec", "prices", 0, "perGpuHour")
    assert not is_valid("sku", changed("sku", path, number))


@pytest.mark.parametrize("field", ["packages", "image", "conda", "grants", "app"])
def test_an_allocation_stays_small(field: str) -> None:
    """OBJ-01, OBJ-07, BND-27: others' fields are refused, and the schema says where they belong."""
    assert not is_valid("allocation", changed("allocation", ("spec", field), ["x"]))
    assert SCHEMAS["allocation"]["properties"]["spec"]["x-hints"][field]


def test_shapes_are_two() -> None:
    """OBJ-09, OBJ-10, F-REAL-23: a shape to come is refused by its own code, not stretched."""
    for shape in ("mig", "vgpu", "Baremetal", "", 1, None):
        assert not is_valid("sku", changed("sku", ("spec", "shape"), shape))
    spoilt = {
        "sku": (changed("sku", ("spec", "shape"), "mig"), ("spec", "shape")),
        "node": (changed("node", ("spec", "shapes"), ["vgpu"]), ("spec", "shapes", 0)),
    }
    for word, (document, path) in spoilt.items():
        (flaw,) = Validator(json.dumps(SCHEMAS[word])).flaws(document)
        assert (flaw.problem.code, flaw.path) == ("shape_not_supported", path)


def test_reserved_fields_are_named() -> None:
    """OBJ-10: `parent` and `mig` are kept for child slots; a bundle's project for later."""
    slot = SCHEMAS["node"]["properties"]["spec"]["properties"]["slots"]["items"]
    assert slot["x-reserved"] == ["parent", "mig"]
    assert SCHEMAS["bundle"]["properties"]["metadata"]["x-reserved"] == ["project"]
    for reserved in slot["x-reserved"]:
        path = ("spec", "slots", 0, reserved)
        assert not is_valid("node", changed("node", path, "x"))


@pytest.mark.parametrize("surface", ["block", "object"])
def test_surfaces_of_the_future_have_a_code_of_their_own(surface: str) -> None:
    """STO-05: what storage cannot be yet is refused by name, and is no unknown field."""
    spoilt = changed("storage_class", ("spec", surface), {"pool": "x"})
    (flaw,) = Validator(json.dumps(SCHEMAS["storage_class"])).flaws(spoilt)
    assert (flaw.problem.code, flaw.path) == ("surface_not_supported", ("spec", surface))


def test_a_slot_is_whole_or_none() -> None:
    """INV-01, INV-04, INV-05, INV-07: identity, NUMA, CPUs and memory are never left out."""
    for missing in ("name", "gpu", "numa", "cpus", "memoryGiB"):
        document = copy.deepcopy(dict(VALID["node"]))
        del document["spec"]["slots"][0][missing]
        assert not is_valid("node", document), missing
    assert not is_valid("node", changed("node", ("spec", "slots"), 8))


def test_sets_and_keyed_lists_refuse_repetition() -> None:
    """Every list says whether it is a set, has a key, or is in an order that means something."""
    in_order = {"prices", "approvals", "ownership", "rules", "command"}
    for word, schema in SCHEMAS.items():
        for place, part in parts(schema):
            if part.get("type") == "array" and place.rsplit("/", 1)[1] not in in_order:
                assert ("x-key" in part) is not ("x-set" in part), f"{word}{place}"
                assert part.get("uniqueItems", False) is ("x-set" in part), f"{word}{place}"


@pytest.mark.parametrize("word", OWN)
def test_rules_cover_every_field_and_no_other(word: str) -> None:
    """PLN: the change of any field has a word of its own or of a field above it."""
    schema = OWN[word]
    listed = list(fields(schema["properties"]["spec"], schema["$defs"], "spec"))
    known = {path for path, _, _ in listed} | {"labels", "spec"}
    known |= {f"{path}[]" for path, field, _ in listed if "items" in field}
    rules = KINDS[word].FIELD_RULES
    assert set(rules) <= known, set(rules) - known
    assert set(rules.values()) <= CHANGES
    for path in known:
        above = [
            rule for rule in rules if path == rule or path.startswith((rule + ".", rule + "["))
        ]
        inside = [rule for rule in rules if rule.startswith((path + ".", path + "["))]
        assert above or inside, path
    assert rules["labels"] == "live"


def test_the_nearest_rule_counts() -> None:
    """A rule speaks for what lies below it; a recorded price is never changed, only added to."""
    node, sku = KINDS["node"].FIELD_RULES, KINDS["sku"].FIELD_RULES
    assert word_of("spec.slots[s0].gpu.uuid", node) == "approval falls; refuse while claimed"
    assert word_of("spec.slots[s0].disabled.reason", node) == "live"
    assert word_of("spec.prices[2026-01-01T00:00:00Z].perGpuHour", sku) == "immutable once recorded"
    assert word_of("spec.unheardOf", node) == "refuse"


@pytest.mark.parametrize("word", OWN)
def test_typed_specs_fit_their_schemas(word: str) -> None:
    """Fields, defaults and required ones are the same twice: a schema cannot promise otherwise."""
    schema = OWN[word]
    example = KINDS[word].parse(VALID[word]["spec"], "some-name")
    compare(type(example), schema["properties"]["spec"], word)


def test_settings_fit_their_schema() -> None:
    compare(Settings, SCHEMAS["settings"], "", {"folder"})


FILLED = {"displayName", "publicAddress", "sharing", "access", "mountPath"}
"""Filled by `parse` from other fields, so that the typed form always has them."""


def compare(cls: Any, schema: Mapping[str, Any], place: str, extra: Collection[str] = ()) -> None:
    hints = get_type_hints(cls)
    typed = {camel(field.name): field for field in dataclasses.fields(cls)}
    stated = schema["properties"]
    assert set(typed) - set(extra) == set(stated), f"{place}: {set(typed) ^ set(stated)}"
    for name, part in stated.items():
        here, field = f"{place}.{name}", typed[name]
        default = value_of(field)
        required = name in schema.get("required", ())
        if name not in FILLED:
            assert required is (default is dataclasses.MISSING), here
            if "default" in part and not dataclasses.is_dataclass(default):
                assert encode(default) == part["default"], here
            elif not required and not dataclasses.is_dataclass(default):
                assert default is None or "default" in part or not default, here
        inner = next((c for c in classes(hints[field.name]) if dataclasses.is_dataclass(c)), None)
        below = part.get("items", part)
        if inner is not None:
            compare(inner, below, here)


def value_of(field: Any) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def classes(hint: Any) -> Iterator[Any]:
    yield hint
    for inner in getattr(hint, "__args__", ()):
        yield from classes(inner)


def test_refs_in_the_policy_are_refs() -> None:
    drift = {"ref": "node/gpu01", "key": "x", "reason": "x", "owner": "olga",
             "until": "2027-01-01T00:00:00Z"}  # fmt: skip
    assert is_valid("policy", changed("policy", ("spec", "acceptedDrift"), [drift]))
    assert parse_ref(drift["ref"])
