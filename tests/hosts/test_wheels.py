"""Wheels in a folder for hosts without an index: those that were agreed, and no others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.hosts import wheels
from reconciler.hosts.wheels import fetch_wheels
from reconciler.model.problem import ProblemError
from reconciler.model.spec.requirements import Requirements
from reconciler.specs.read.requirements_file import read_requirements
from tests.bundles import hello

pytestmark = pytest.mark.walk

LOCK = read_requirements(hello.lock("1.0"))
(RELEASE,) = LOCK.releases
NAME = "gpuaas_hello-1.0-py3-none-any.whl"


@pytest.fixture
def index(tmp_path: Path) -> str:
    for version in hello.VERSIONS:
        hello.make(tmp_path / "index", version)
    return f"file://{tmp_path / 'index'}"


def refused(lock: Requirements, folder: Path, index: str) -> str:
    with pytest.raises(ProblemError) as caught:
        fetch_wheels(lock, "3.11", folder, [index])
    (problem,) = caught.value.problems
    assert problem.code == "mirror_failed"
    return problem.message


def test_by_its_hash_and_only_once(tmp_path: Path, index: str) -> None:
    """The index may be gone afterwards; what lies in the folder otherwise stays."""
    folder = tmp_path / "to/mirror"
    folder.mkdir(parents=True)
    (folder / "other.whl").write_text("x")
    assert fetch_wheels(LOCK, "3.9", folder, [index]) == (NAME,)
    before = (folder / NAME).stat()
    assert fetch_wheels(LOCK, "3.9", folder, ["file:///nowhere"]) == (NAME,)
    assert (folder / NAME).stat() == before
    assert sorted(path.name for path in folder.iterdir()) == [NAME, "other.whl"]


def test_another_hash_is_another_wheel(tmp_path: Path, index: str) -> None:
    """F-BUN-02: whatever an index has under the name, and whatever lies in the folder already."""
    lock = Requirements(releases=(replace(RELEASE, hashes=("0" * 64,)),))
    assert "something else under the name" in refused(lock, tmp_path / "mirror", index)
    assert not list((tmp_path / "mirror").glob("*.whl"))


def test_what_is_nowhere_is_told(tmp_path: Path, index: str) -> None:
    lock = Requirements(releases=(replace(RELEASE, version="3.0"),))
    assert "gpuaas-hello==3.0" in refused(lock, tmp_path / "mirror", index)
    (tmp_path / "file").write_text("")
    assert "file" in refused(LOCK, tmp_path / "file/mirror", index)


def test_what_pip_says_has_an_end(
    tmp_path: Path, index: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wheels, "MAX_SAID", 3)
    assert "pip says more than" in refused(LOCK, tmp_path / "to", "file:///nowhere")
