"""Mirroring: whose requirements are fetched, and from where."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from reconciler.model.problem import ProblemError
from reconciler.operations.bundle.mirror import MirrorWish, mirror
from tests.bundles import hello
from tests.harness.yard import Yard, laid


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    yard = laid(tmp_path / "yard", {"gpu01": 2})
    yard.write(hello.document(yard.folder, "1.0", "2.0"))
    settings = yaml.safe_load((yard.folder / "gpuaas.yaml").read_text())
    settings["index"] = {"mirror": "file:///srv/mirror", "made": f"file://{yard.folder}/mirror"}
    (yard.folder / "gpuaas.yaml").write_text(yaml.safe_dump(settings))
    return yard


@pytest.mark.walk
def test_the_fleets_own_bundle_from_an_index_by_its_name(yard: Yard, tmp_path: Path) -> None:
    """Before the shipped one of that name, and only the version that was asked for."""
    to = tmp_path / "wheels"
    said = yard.gpuaas("bundle", "mirror", "hello@2.0", "--to", str(to), "--index", "made")
    assert said.code == 0, said.messages
    (version,) = said.document["result"]["versions"]
    assert (version["version"], version["mib"]) == ("2.0", 1)
    assert [path.name for path in to.iterdir()] == version["wheels"]
    assert "fetching hello 2.0" in said.told


@pytest.mark.parametrize(
    ("name", "indexes", "code", "hint"),
    [
        ("hello@3.0", (), "not_found", ""),
        ("jupiter", (), "not_found", "jupyter"),
        ("pytorch@1.0", (), "not_found", ""),
        ("hello", ("mirrow",), "dangling_reference", "mirror"),
    ],
)
def test_what_is_not_there_is_told_before_anything_is_fetched(
    yard: Yard, tmp_path: Path, name: str, indexes: tuple[str, ...], code: str, hint: str
) -> None:
    wish = MirrorWish(to=tmp_path / "wheels", indexes=indexes)
    with pytest.raises(ProblemError) as caught:
        mirror(yard.fleet(), name, wish)
    (problem,) = caught.value.problems
    assert problem.code == code and hint in problem.hint
    assert not (tmp_path / "wheels").exists()


def test_requirements_that_are_not_agreed_are_not_fetched(yard: Yard, tmp_path: Path) -> None:
    """Rule 16: what somebody has put into the file alone is frozen, as for hosts."""
    lock = yard.folder / "locks/hello-1.0.txt"
    lock.write_text(lock.read_text() + "--index-url https://elsewhere.example\n")
    with pytest.raises(ProblemError) as caught:
        mirror(yard.fleet(), "hello", MirrorWish(to=tmp_path / "wheels"))
    (problem,) = caught.value.problems
    assert (problem.code, problem.hint) == ("not_found", "gpuaas validate"), "nor the shipped one"
