"""Cataloguing: a shipped bundle becomes files of the fleet, once, and nothing happens by it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from reconciler import shipped
from reconciler.model.problem import ProblemError
from reconciler.operations.bundle.catalogue import BundleWish, add_bundle, catalogue, shipped_names
from reconciler.operations.specs import read_desired
from tests.harness.yard import Yard, laid

LOCK = "bundles/pytorch-2.13.0-cpu.txt"


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    yard = laid(tmp_path / "yard", {"gpu01": 2})
    settings = yaml.safe_load((yard.folder / "gpuaas.yaml").read_text())
    settings["index"] = {"mirror": "file:///srv/mirror"}
    (yard.folder / "gpuaas.yaml").write_text(yaml.safe_dump(settings))
    return yard


def code_of(yard: Yard, name: str, wish: BundleWish) -> str:
    with pytest.raises(ProblemError) as caught:
        add_bundle(yard.fleet(), name, wish)
    return caught.value.problems[0].code


def read(yard: Yard, name: str = "specs/bundles/pytorch.yaml") -> str:
    return (yard.folder / name).read_text()


@pytest.mark.parametrize("name", shipped_names())
def test_what_is_added_is_sound(yard: Yard, name: str) -> None:
    """BND-22: adding one is a file, with its requirements beside it as they were shipped."""
    done = add_bundle(yard.fleet(), name, BundleWish(index="mirror"))
    assert read(yard, done.file).splitlines()[done.line - 1].startswith("apiVersion")
    for lock in done.locks:
        assert read(yard, lock) == shipped.templates()[lock]
    checked = yard.gpuaas("validate")
    assert (checked.code, checked.problems) == (0, [])
    (bundle,) = read_desired(yard.fleet()).of("bundle")
    assert {one.install.index for one in bundle.spec.versions} == {"mirror"}
    assert [one.version for one in bundle.spec.versions] == list(done.versions)


def test_the_text_is_the_shipped_one(yard: Yard) -> None:
    add_bundle(yard.fleet(), "pytorch", BundleWish())
    assert read(yard) == shipped.templates()["bundles/pytorch.yaml"]


def test_a_bundle_of_the_fleet_gets_the_versions_that_it_lacks(yard: Yard) -> None:
    """What the fleet has of it, and what somebody has written about it, stays as it is."""
    add_bundle(yard.fleet(), "pytorch", BundleWish())
    text = read(yard)
    first, rest = text.split("    - version: 2.13.0-cu130")
    (yard.folder / "specs/bundles/pytorch.yaml").write_text(first.replace("PyTorch", "Torch"))
    done = add_bundle(yard.fleet(), "pytorch", BundleWish(index="mirror"))
    assert done.versions == ("2.13.0-cu130",)
    assert read(yard).startswith(first.replace("PyTorch", "Torch"))
    (bundle,) = read_desired(yard.fleet()).of("bundle")
    assert [one.install.index for one in bundle.spec.versions] == [None, "mirror"]
    assert "2.6 GiB" in rest, "a comment of the shipped text is not copied, and says the size"
    again = add_bundle(yard.fleet(), "pytorch", BundleWish())
    assert (again.versions, again.locks) == ((), ())


def test_it_is_committed_on_request_with_its_requirements(yard: Yard) -> None:
    yard.commit()
    (yard.folder / "other").write_text("x")
    done = add_bundle(yard.fleet(), "hello", BundleWish(commit=True))
    assert len(done.commit) == 40
    said = yard.gpuaas("plan")
    assert said.document["result"]["revision"]["dirty"] is False
    assert (yard.folder / "other").exists()
    assert add_bundle(yard.fleet(), "hello", BundleWish(commit=True)).versions == ()
    (yard.folder / done.file).write_text((yard.folder / done.file).read_text() + "# more\n")
    assert code_of(yard, "hello", BundleWish(commit=True)) == "commit_failed"


def test_refusals_write_no_document(yard: Yard) -> None:
    (yard.folder / "bundles").mkdir()
    (yard.folder / LOCK).write_text("cowsay==6.1\n")
    assert code_of(yard, "pytorch", BundleWish()) == "file_exists", "nothing is written over"
    assert code_of(yard, "pytorhc", BundleWish()) == "not_found"
    assert code_of(yard, "hello", BundleWish(index="nope")) == "dangling_reference"
    outside = BundleWish(file=yard.folder / "hello.yaml")
    assert code_of(yard, "hello", outside) == "file_outside_tree"
    assert not (yard.specs / "bundles").exists()


def test_a_document_with_errors_is_not_doubled(yard: Yard) -> None:
    add_bundle(yard.fleet(), "hello", BundleWish())
    path = yard.folder / "specs/bundles/hello.yaml"
    path.write_text(path.read_text().replace("lockDigest: sha256:98", "lockDigest: sha256:00"))
    elsewhere = BundleWish(file=yard.specs / "hello.yaml")
    assert code_of(yard, "hello", elsewhere) == "edit_unsound"


def test_what_could_be_added_is_listed(yard: Yard) -> None:
    """BND-09, BND-23: the catalogue is what is applied; beside it is what travels with us."""
    found = catalogue(yard.fleet())
    assert found.bundles == ()
    assert [one.bundle for one in found.shipped] == list(shipped_names())
