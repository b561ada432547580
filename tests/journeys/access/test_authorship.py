"""By whom something is, and whether it is gone, whatever somebody else has put beside it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from datetime import timedelta
from getpass import getuser

import pytest
import yaml

from reconciler.model.moment import format_moment
from reconciler.operations.fleet import utc_now
from tests.harness.applied_fleet import BOX, DANA, TRAIN
from tests.harness.yard import Yard
from tests.journeys.access.test_errors_of_others import RULES, elsewhere
from tests.journeys.access.test_key_files import SOLO_REF, TRAIN_REF, changed, pairs
from tests.planner import fleet as paper

pytestmark = pytest.mark.walk


def git(yard: Yard, *words: str) -> str:
    return subprocess.check_output(["git", "-C", yard.folder, *words], text=True)


def for_two_days(name: str) -> dict[str, object]:
    """A grant that a member of the project may not give."""
    end = (utc_now() + timedelta(hours=48)).replace(minute=0, second=0, microsecond=0)
    return paper.grant(name, "train", "dana", expiresAt=format_moment(end))


def refusals(yard: Yard) -> dict[str, str]:
    changes = yard.plan().plan["changes"]
    return {one["ref"]: (one.get("problem") or {}).get("code", "") for one in changes}


def test_a_copy_beside_something_gone_keeps_nobody(yard: Yard) -> None:
    """Its file held something that is protected, and now holds copies out of place."""
    (yard.folder / "gpuaas.yaml").write_text(RULES)
    yard.file(BOX).unlink()
    elsewhere(yard, changed(BOX, protect=True))
    yard.commit()
    assert yard.apply().code == 0
    elsewhere(yard, changed(DANA, emails=[]), changed(TRAIN, colour="red"))
    yard.commit("bo")
    yard.remove(DANA, TRAIN)
    yard.apply()
    assert yard.keys(SOLO_REF) == pairs("ana", "bo", "cem")
    assert yard.recorded(TRAIN_REF) is None
    assert not any(place.startswith(TRAIN_REF) for place in yard.claims)


def test_an_encoding_makes_nothing_the_appliers(yard: Yard) -> None:
    """Whoever pulls what says something else in git than on disk is not its author."""
    olga = yaml.safe_load((yard.specs / "user/olga.yaml").read_text())
    olga["spec"]["osLogins"] = [getuser()]
    yard.write(olga)
    yard.commit()
    assert yard.apply().code == 0
    theirs = yard.specs / "theirs"
    theirs.mkdir()
    pinned = paper.allocation(
        "pinned", "slice-1", node="gpu02", owner="cem", access=["cem", "dana"]
    )
    (theirs / ".gitattributes").write_text("*.yaml text working-tree-encoding=IBM037\n")
    for number in range(2):
        for document in (for_two_days("given"), pinned):
            name = document["metadata"]["name"]
            (theirs / f"{name}.yaml").write_text(yaml.safe_dump(document) + f"# {number}\n")
        yard.commit("cem")
    shutil.rmtree(theirs)
    git(yard, "checkout", "--", "specs/theirs")
    assert not git(yard, "status", "--short", "specs")
    found = refusals(yard)
    assert found["grant/vision/given"] == "author_unclear"
    assert found["allocation/vision/pinned"] in ("author_unclear", "operator_only")
    yard.apply()
    assert yard.keys(TRAIN_REF) == pairs("ana", "bo", "cem")
    assert yard.recorded("allocation/vision/pinned") is None


def breaks_a_file(yard: Yard) -> None:
    elsewhere(yard, name="theirs/x.yaml").write_text("\t- [\n")
    yard.commit("mallory")


def breaks_a_file_of_nobody(yard: Yard) -> None:
    elsewhere(yard, name="nowhere/x.yaml").write_text("\t- [\n")
    yard.commit("mallory")


def plants_a_submodule(yard: Yard) -> None:
    git(yard, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},specs/theirs/sub")
    git(yard, "-c", "user.name=m", "-c", "user.email=m@x", "commit", "-qm", "x")


def calls_a_folder_like_a_file(yard: Yard) -> None:
    (yard.specs / "theirs/x.yaml").mkdir(parents=True)


@pytest.mark.parametrize(
    ("breaks", "holds_box"),
    [
        (breaks_a_file, True),
        (breaks_a_file_of_nobody, False),
        (plants_a_submodule, True),
        (calls_a_folder_like_a_file, True),
    ],
)
def test_what_cannot_be_read_holds_what_may_stand_there(
    yard: Yard, breaks: Callable[[Yard], None], holds_box: bool
) -> None:
    """A release of what may not stand in somebody's folder waits for nothing in that folder."""
    (yard.folder / "gpuaas.yaml").write_text(RULES)
    yard.commit()
    yard.remove(TRAIN, BOX)
    breaks(yard)
    yard.apply()
    assert yard.recorded(TRAIN_REF) is None
    assert bool(yard.recorded("allocation/nlp/box")) is holds_box
    assert {place.partition("@")[0] for place in yard.claims} == {
        SOLO_REF,
        *(("allocation/nlp/box",) if holds_box else ()),
    }


def test_without_rules_anything_may_stand_in_a_file_that_cannot_be_read(yard: Yard) -> None:
    yard.remove(TRAIN)
    breaks_a_file(yard)
    assert refusals(yard)[TRAIN_REF] == "resource_broken"


def test_a_plan_that_was_saved_beside_a_duplicate_is_the_plan_of_what_is_there(yard: Yard) -> None:
    """It was made as the first that looked at these files, and is applied as the second."""
    elsewhere(yard, changed(DANA, emails=["other@corp.example"]))
    yard.write(changed(BOX, protect=True))
    yard.commit()
    saved = str(yard.folder / "x.plan")
    yard.plan("--save", saved)
    applied = yard.apply(saved)
    assert "plan_stale" not in {one["code"] for one in applied.document["problems"]}
    assert yard.recorded("allocation/nlp/box").normal["spec"]["protect"] is True
