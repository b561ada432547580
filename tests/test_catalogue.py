"""The bundles that travel with the program are sound before anybody adds them."""

from __future__ import annotations

import hashlib
import json

import jsonschema
import pytest
import yaml

from reconciler import shipped
from reconciler.kinds.bundle import RESERVED, InstallSpec
from reconciler.kinds.bundle import parse as parse_bundle
from reconciler.operations.bundle.catalogue import shipped_names
from reconciler.planner.bundles.versions import natural
from reconciler.specs.read.requirements_file import read_requirements

TEXTS = shipped.templates()
NAMES = shipped_names()


def installs(name: str) -> dict[str, InstallSpec]:
    spec = parse_bundle(yaml.safe_load(TEXTS[f"bundles/{name}.yaml"])["spec"], name)
    return {one.version: one.install for one in spec.versions if one.install}


def test_the_first_set() -> None:
    """BND-22: PyTorch and Jupyter; and nothing lies beside them that no document names."""
    assert {"pytorch", "jupyter"} <= set(NAMES)
    locks = {one.lock for name in NAMES for one in installs(name).values()}
    files = {path for path in TEXTS if path.startswith("bundles/")}
    assert files == locks | {f"bundles/{name}.yaml" for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_a_document_is_sound(name: str) -> None:
    """BND-01: name, product name, what it runs on, versions and support level."""
    document = yaml.safe_load(TEXTS[f"bundles/{name}.yaml"])
    jsonschema.Draft202012Validator(json.loads(shipped.schemas()["bundle"])).validate(document)
    assert document["metadata"]["name"] == name
    versions = [one["version"] for one in document["spec"]["versions"]]
    assert versions == sorted(versions, key=natural) and not RESERVED & set(versions)
    for one in document["spec"]["versions"]:
        assert one["install"]["lock"] == f"bundles/{name}-{one['version']}.txt"
        assert one["compatible"]["gpuVendor"] and one["verify"]["imports"]


@pytest.mark.parametrize("name", NAMES)
def test_requirements_are_those_that_are_agreed(name: str) -> None:
    """Rule 16: releases with hashes alone, each once, in order; wheels are told by their hash."""
    for install in installs(name).values():
        text = TEXTS[install.lock]
        assert f"sha256:{hashlib.sha256(text.encode()).hexdigest()}" == install.lock_digest
        releases = [one.name for one in read_requirements(text).releases]
        assert releases == sorted(set(releases))
