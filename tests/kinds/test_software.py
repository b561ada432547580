"""Bundle, Artifact, AppManifest and App: versions that make sense."""

from __future__ import annotations

import pytest

from reconciler.kinds.registry import KINDS
from tests.kinds.sample import Fleet

BUNDLE, APP = "bundle/pytorch", "app/vision/chat"


def test_good_ones_have_no_problem() -> None:
    fleet = Fleet()
    for ref in (BUNDLE, APP, "app_manifest/vllm", "artifact/vllm-image"):
        assert fleet.problems(ref) == []


def test_families_and_vendor_agree() -> None:
    fleet = Fleet()
    fleet[BUNDLE]["versions"][0]["compatible"]["gpuVendor"] = "amd"
    problem = fleet.only(BUNDLE)
    assert problem.code == "bundle_unsound"
    assert "h100-sxm" in problem.message


def test_without_gpu_it_is_verified_without() -> None:
    fleet = Fleet()
    fleet[BUNDLE]["versions"][0]["compatible"]["gpuVendor"] = "none"
    assert fleet.only(BUNDLE).code == "bundle_unsound"


def test_it_is_staged_where_it_runs() -> None:
    fleet = Fleet()
    fleet[BUNDLE]["versions"][0]["stageOn"]["families"] = ["h100-sxm", "mi300"]
    assert fleet.only(BUNDLE).code == "bundle_unsound"


@pytest.mark.parametrize("version", ["current", "Current", "tmp", "TMP", "2.6.0-CU124"])
def test_a_version_is_a_folder_of_its_own(version: str) -> None:
    """F-BUN-06: no reserved name, and none that another differs from by case alone."""
    fleet = Fleet()
    (first, *_) = fleet[BUNDLE]["versions"]
    fleet[BUNDLE]["versions"].append({**first, "version": version})
    assert fleet.only(BUNDLE).code == "bundle_unsound"


@pytest.mark.parametrize(
    ("key", "text"), [("driverMin", "new"), ("driverMin", "550.54-x"), ("cuda", "cu12")]
)
def test_what_is_compared_is_a_number(key: str, text: str) -> None:
    fleet = Fleet()
    fleet[BUNDLE]["versions"][0]["compatible"][key] = text
    assert fleet.only(BUNDLE).code == "bundle_unsound"


@pytest.mark.parametrize("lock", ["/etc/passwd", "../lock.txt", "bundles/../../x"])
def test_a_lock_file_is_in_the_repository(lock: str) -> None:
    """F-PAR-06"""
    fleet = Fleet()
    fleet[BUNDLE]["versions"][0]["install"]["lock"] = lock
    assert fleet.only(BUNDLE).code == "path_unsafe"


def test_an_index_is_known() -> None:
    fleet = Fleet()
    fleet[BUNDLE]["versions"][0]["install"]["index"] = "corp"
    assert fleet.only(BUNDLE).code == "dangling_reference"


def test_everything_a_bundle_names_is_referred_to() -> None:
    fleet = Fleet()
    fleet[BUNDLE]["versions"][0]["stageOn"]["nodes"] = ["gpu01"]
    found = [str(one.ref) for one in KINDS["bundle"].refs(fleet.resource(BUNDLE))]
    assert found == ["node_family/h100-sxm", "node_family/h100-sxm", "node/gpu01"]


def test_a_canary_says_who_gets_it() -> None:
    fleet = Fleet()
    fleet["artifact/vllm-image"]["stage"] = "canary"
    assert fleet.only("artifact/vllm-image").code == "field_missing"
    fleet["artifact/vllm-image"]["canary"] = {"percent": 10}
    assert fleet.problems("artifact/vllm-image") == []


def test_an_app_names_a_version_there_is() -> None:
    """OBJ-06: an app is an object of its own, that refers to a manifest and to allocations."""
    fleet = Fleet()
    found = {str(one.ref) for one in KINDS["app"].refs(fleet.resource(APP))}
    assert found == {"project/vision", "app_manifest/vllm", "allocation/vision/train-a"}
    fleet[APP]["version"] = "9"
    assert fleet.only(APP).code == "dangling_reference"


def test_the_columns_of_a_manifest_are_the_seeds() -> None:
    """APP-03, APP-04, APP-05"""
    spec = KINDS["app_manifest"].parse(Fleet()["app_manifest/vllm"], "vllm")
    assert spec.compatibility.requires_capacity_shape == ("baremetal", "gpu_slice")
    assert (spec.compatibility.min_gpu_count, spec.compatibility.requires_exclusive_node) == (
        1,
        False,
    )
    assert spec.runtime_profile.ports[0].port == 8000
    assert spec.active


def test_apps_wait_for_a_later_version() -> None:
    assert Fleet().unsupported(APP) == "App"
    assert Fleet().unsupported(BUNDLE) == ""
