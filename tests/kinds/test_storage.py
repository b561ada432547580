"""Storage and StorageClass: one backend, and only what it can do."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from playbooks.module_utils.gpuaas import volumes
from reconciler import shipped
from reconciler.kinds import storage_class
from tests.kinds.sample import Fleet

STORAGE, CLASS = "storage/vision/datasets", "storage_class/shared-nfs"


def test_good_ones_have_no_problem() -> None:
    fleet = Fleet()
    assert fleet.problems(STORAGE) == fleet.problems(CLASS) == []


def test_a_project_uses_what_it_is_entitled_to() -> None:
    fleet = Fleet()
    fleet["project/vision"]["entitlements"]["storageClasses"] = []
    assert fleet.only(STORAGE).code == "not_entitled"


def test_a_class_is_asked_for_what_it_can_do() -> None:
    fleet = Fleet()
    fleet[CLASS]["accessModes"] = ["single_writer"]
    assert fleet.only(STORAGE).code == "class_cannot_multi_attach"
    fleet[STORAGE]["accessMode"] = "single_writer"
    fleet[CLASS]["accessModes"] = ["multi_reader"]
    assert fleet.only(STORAGE).code == "document_rejected"


@pytest.mark.parametrize("server", ["300.1.1.1", "a..b", "::::", "filer:2049"])
def test_a_server_that_is_none_is_told(server: str) -> None:
    """F-REAL-19: nothing would ever answer there."""
    fleet = Fleet()
    fleet[CLASS]["nfs"]["server"] = server
    problem = fleet.only(CLASS)
    assert problem.code == "value_pattern" and server in problem.message


@pytest.mark.parametrize(
    ("option", "is_one"),
    [
        *(("port=2049", True), ("port=1", True), ("port=65535", True), ("hard", True)),
        *(("port=0", False), ("port=65536", False), ("port=99999", False), ("nolock", False)),
    ],
)
def test_an_option_of_a_mount_is_one_here_and_on_the_host(option: str, is_one: bool) -> None:
    """F-REAL-19: both doors take the same."""
    schema = json.loads(shipped.schemas()["storage_class"])
    options = schema["properties"]["spec"]["properties"]["nfs"]["properties"]["options"]
    assert (re.search(options["items"]["pattern"], option) is not None) is is_one
    assert (volumes.OPTION.fullmatch(option) is not None) is is_one


def test_several_need_a_class_that_allows_several() -> None:
    """STO-06: what cannot be attached twice is no way to share anything."""
    fleet = Fleet()
    fleet[CLASS]["maxAttachments"] = 1
    assert fleet.only(STORAGE).code == "class_cannot_multi_attach"
    fleet[STORAGE]["accessMode"] = "single_writer"
    assert fleet.problems(STORAGE) == []


@pytest.mark.parametrize(
    ("available", "is_there"),
    [
        ({}, True),
        ({"nodes": ["gpu02"]}, True),
        ({"nodes": ["gpu01"]}, False),
        ({"families": ["h100-sxm"]}, True),
        ({"nodes": ["gpu01"], "families": ["h100-sxm"]}, True),
    ],
)
def test_a_pin_is_where_the_class_is(available: dict[str, Any], is_there: bool) -> None:
    fleet = Fleet()
    fleet[CLASS]["available"] = available
    fleet[STORAGE]["node"] = "gpu02"
    codes = [problem.code for problem in fleet.problems(STORAGE)]
    assert codes == ([] if is_there else ["document_rejected"])


def test_a_class_has_one_backend() -> None:
    fleet = Fleet()
    fleet[CLASS]["loop"] = {"path": "/srv/volumes"}
    assert fleet.only(CLASS).code == "field_forbidden"
    del fleet[CLASS]["loop"], fleet[CLASS]["nfs"]
    assert fleet.only(CLASS).code == "field_missing"


@pytest.mark.parametrize("path", ["srv/volumes", "/srv/../etc", ".."])
def test_paths_are_absolute_and_stay(path: str) -> None:
    """F-PAR-06"""
    fleet = Fleet()
    fleet[CLASS]["nfs"]["export"] = path
    assert fleet.only(CLASS).code == "path_unsafe"
    del fleet[CLASS]["nfs"]
    for backend in ("directory", "loop"):
        fleet[CLASS][backend] = {"path": path}
        assert fleet.only(CLASS).code == "path_unsafe"
        del fleet[CLASS][backend]


@pytest.mark.parametrize("path", ["/etc/volumes", "/home", "/gpuaas", "/var/lib/gpuaas/volumes/x"])
def test_no_data_lies_in_folders_of_the_system(path: str) -> None:
    """F-PAR-06: said before any host has to refuse it."""
    fleet = Fleet()
    del fleet[CLASS]["nfs"]
    fleet[CLASS]["directory"] = {"path": path}
    assert fleet.only(CLASS).code == "path_unsafe"
    assert volumes.NOT_PLACES == storage_class.NOT_PLACES


@pytest.mark.parametrize("path", ["/", "//", "/srv//disks", "/srv/disks/"])
def test_a_folder_is_spelled_in_one_way(path: str) -> None:
    """Hosts know a volume by its place, so two spellings would be two volumes."""
    fleet = Fleet()
    fleet[CLASS]["nfs"]["export"] = path
    assert fleet.only(CLASS).code == "path_unsafe"
    del fleet[CLASS]["nfs"]
    fleet[CLASS]["loop"] = {"path": path}
    assert fleet.only(CLASS).code == "path_unsafe"


def test_prices_are_in_order() -> None:
    fleet = Fleet()
    fleet[CLASS]["prices"] *= 2
    assert fleet.only(CLASS).code == "price_unsound"


def test_all_of_it_is_supported() -> None:
    assert Fleet().unsupported(STORAGE) == Fleet().unsupported(CLASS) == ""
