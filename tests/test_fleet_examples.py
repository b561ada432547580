"""The two fleets that newcomers read first: the example in `specs/`, and the starter of `init`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from reconciler import shipped
from reconciler.kinds.access.ssh_key import SshKey, parse_public_key
from reconciler.kinds.allocation.allocation import needs, unsupported
from reconciler.kinds.approval import approved_names
from reconciler.kinds.registry import KINDS
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired
from reconciler.model.spec.document import NoCache
from reconciler.specs.desired import load_desired
from reconciler.specs.settings import load_settings

ROOT = Path(__file__).parents[1]
FLEETS = {"example": ROOT, "starter": shipped.folder("templates") / "starter"}
MODELINE = re.compile(r"# yaml-language-server: \$schema=([./]*)schemas/([a-z_]+)\.schema\.json")


@pytest.fixture(scope="module")
def fleets() -> Mapping[str, Desired]:
    return {name: load(folder) for name, folder in FLEETS.items()}


def load(folder: Path) -> Desired:
    schemas = shipped.schemas()
    return load_desired(load_settings(folder, schemas["settings"]), schemas, NoCache())


def spec_files(name: str) -> Iterator[Path]:
    yield from sorted((FLEETS[name] / "specs").rglob("*.yaml"))


@pytest.mark.parametrize("name", FLEETS)
def test_it_is_valid_without_a_warning(fleets: Mapping[str, Desired], name: str) -> None:
    of = fleets[name]
    assert of.problems == ()
    assert (of.frozen, of.broken, of.ignored) == (frozenset(), frozenset(), frozenset())
    assert of.resources


@pytest.mark.parametrize("name", FLEETS)
def test_this_version_can_do_all_of_it(fleets: Mapping[str, Desired], name: str) -> None:
    told = {
        str(ref): KINDS[ref.kind].unsupported(one) for ref, one in fleets[name].resources.items()
    }
    assert set(told.values()) == {""}, told


@pytest.mark.parametrize("name", FLEETS)
def test_everything_on_its_nodes_is_approved(fleets: Mapping[str, Desired], name: str) -> None:
    """INV-07: only approved slots are given out, and a stale approval covers nothing."""
    for node in fleets[name].of("node"):
        slots = {slot.name for slot in node.spec.slots}
        assert approved_names(node.spec) == {"host", *slots}, node.ref


@pytest.mark.parametrize("name", FLEETS)
def test_its_keys_are_real_and_each_has_one_owner(fleets: Mapping[str, Desired], name: str) -> None:
    blobs = []
    for user in fleets[name].of("user"):
        for key in user.spec.keys:
            parsed = parse_public_key(key.public_key)
            assert isinstance(parsed, SshKey), user.ref
            blobs.append(parsed.blob)
    assert len(set(blobs)) == len(blobs)


@pytest.mark.parametrize("name", FLEETS)
def test_it_fits_on_its_nodes(fleets: Mapping[str, Desired], name: str) -> None:
    of = fleets[name]
    wanted = [need for one in of.of("allocation") if (need := needs(one, of))]
    assert len(wanted) == len(list(of.of("allocation")))
    slots = sum(len(node.spec.slots) for node in of.of("node"))
    assert sum(need.slots for need in wanted) <= slots


@pytest.mark.parametrize("name", FLEETS)
def test_editors_find_the_schema_of_each_file(name: str) -> None:
    for path in spec_files(name):
        first, text = path.read_text().split("\n", 1)
        kinds = set(re.findall(r"^kind: (\w+)$", text, re.MULTILINE))
        if len(kinds) > 1:
            continue
        found = MODELINE.fullmatch(first)
        assert found, path
        up, word = found.groups()
        assert path.parent.joinpath(up or ".").resolve() == FLEETS[name].resolve(), path
        assert {KINDS[word].NAME} == kinds, path


@pytest.mark.parametrize("name", FLEETS)
def test_every_file_explains_something(name: str) -> None:
    """They are read as a tutorial; people aside, who are all alike after the first."""
    for path in spec_files(name):
        if path.parent.name != "people":
            comments = [line for line in path.read_text().splitlines()[1:] if "# " in line]
            assert comments, path


def test_the_example_shows_what_there_is_to_show(fleets: Mapping[str, Desired]) -> None:
    """LCH-01, OBJ-11: two projects, five people, allocations of one to eight GPUs, a grant."""
    of = fleets["example"]
    counts = {
        kind: len(list(of.of(kind))) for kind in ("project", "user", "node", "grant", "policy")
    }
    assert counts == {"project": 2, "user": 5, "node": 3, "grant": 1, "policy": 1}
    sizes = sorted(need.slots for one in of.of("allocation") if (need := needs(one, of)))
    assert sizes == [1, 1, 2, 4, 8]
    assert {one.ref.project for one in of.of("allocation")} == {"vision", "nlp"}
    assert not any(unsupported(one) for one in of.of("allocation"))
    assert of.resources[Ref("sku", "", "h100-node")].spec.shape == "baremetal"
    assert all(len(node.spec.slots) == 8 for node in of.of("node"))
    assert {node.spec.root for node in of.of("node")} == {f"state/hosts/gpu0{n}" for n in (1, 2, 3)}
