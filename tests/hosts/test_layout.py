"""The layout of a host: said once here, and by the host's own programs to the letter the same."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from gpuaas import (
    file_search,
    mount_places,
    network,
    prepare,
    quota_shares,
    runtimes,
    slices,
    systemd_mounts,
    trial_login,
    volumes,
)
from gpuaas import paths as host

from reconciler.kinds import storage_class
from reconciler.kinds.node import host as node
from reconciler.model.host import layout

PACKAGE = Path(__file__).parents[2] / "reconciler"
ELSEWHERE = {
    "model/host/layout.py",
    "operations/reconcile/service/install.py",  # The control machine's own units.
}
OURS = re.compile(
    r"/(etc/gpuaas|var/lib/gpuaas|opt/gpuaas|run/gpuaas|home/|(etc|run)/systemd/system)"
    r"|/usr/local/(bin|libexec)/gpuaas|^/gpuaas(/|$)"
)
ID, LOGIN, UID = "abcdefghij", "my-run-abcd", 20001


def literals(path: Path) -> Iterator[str]:
    """Texts of a module but for its docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    texts = (node for node in ast.walk(tree) if isinstance(node, ast.Constant))
    for found in texts:
        if isinstance(found.value, str) and id(found) not in prose:
            yield found.value


def test_no_other_module_says_where_something_stands_on_a_host() -> None:
    said = [
        f"{path}: {text!r}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.relative_to(PACKAGE).as_posix() not in ELSEWHERE
        for text in literals(path)
        if OURS.search(text)
    ]
    assert not said, "\n".join(said)


def test_roots_are_those_of_the_host() -> None:
    assert layout.UNITS == host.UNITS
    assert layout.INSTANCES == host.INSTANCES == prepare.INSTANCES
    assert layout.PRIVATE == host.PRIVATE
    assert layout.WANTS == prepare.WANTS
    assert (layout.VOLUMES, layout.VOLUME_RECORD.folder) == (volumes.VOLUMES, volumes.RECORDS)
    assert layout.MOUNTS == mount_places.OURS
    assert layout.RUNTIMES == runtimes.RUNTIMES
    assert layout.QUOTA.folder == quota_shares.FOLDER
    assert layout.KEYS == trial_login.KEYS
    assert layout.SLICE.of("{}") == prepare.SLICES
    assert f"{layout.PROGRAMS}/devices" == slices.DEVICES
    assert f"{layout.PROGRAMS}/network" == network.PROGRAM
    assert (layout.HOME.of("{login}"), layout.OWN_SCRATCH.of("{id}")) == file_search.OWN
    assert storage_class.NOT_PLACES == volumes.NOT_PLACES


def test_places_of_an_allocation_are_those_of_the_host() -> None:
    places = host.Places(ID, LOGIN, UID)
    tops = (layout.instance(top).of(LOGIN) for top in layout.PRIVATE)
    by_uid = [place.of(UID) for place in (layout.SLICE, layout.USER_MANAGER)]
    assert set(places.folders) == {
        *(layout.HOME.of(LOGIN), layout.OWN_SCRATCH.of(ID), layout.RUNTIME_SLICE.of(UID)),
        *tops,
        *by_uid,
    }
    assert places.keys == (layout.KEY_FILE.of(LOGIN),)
    assert places.mark == layout.RESTART_MARK.of(ID)
    session = f"{layout.instance('session').of(LOGIN)}/env"
    assert places.environments == (layout.ENVIRONMENT.of(ID), session)
    assert set(places.files) == {
        *(layout.DESCRIPTOR.of(ID), *places.environments, places.mark),
        *(f"{folder}/{layout.DROP_IN}" for folder in by_uid),
        layout.mount_unit(layout.instance("shm").of(LOGIN)),
        *(place.of(UID) for place in (layout.DEVICES, layout.LOOPBACK, layout.QUOTA)),
    }


def test_what_a_node_is_prepared_with_is_what_its_host_takes() -> None:
    assert set(node.FILES) == set(prepare.FILES)
    assert set(node.BLOCKS) == set(prepare.BLOCKS)
    assert set(node.FOLDERS) == set(prepare.FOLDERS)
    assert node.UNITS == prepare.UNITS


@pytest.mark.parametrize("place", ["/data/a-b", "/gpuaas/x/y-z"])
def test_mount_units_are_named_as_on_the_host(place: str) -> None:
    assert layout.mount_unit(place) == systemd_mounts.unit_of(place)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/etc/gpuaas/allocations/abc.json", "abc"),
        ("/etc/gpuaas/allocations/.json", ""),
        ("/etc/gpuaas/allocations/a/b.json", ""),
        ("/etc/gpuaas/allocations/abc", ""),
        ("/etc/gpuaas/allocations", ""),
        ("x/etc/gpuaas/allocations/abc.json", ""),
    ],
)
def test_a_path_is_read_back_to_the_letter(path: str, name: str) -> None:
    assert layout.DESCRIPTOR.name_in(path) == name
    assert not name or layout.DESCRIPTOR.of(name) == path
