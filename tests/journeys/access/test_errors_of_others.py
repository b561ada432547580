"""What an error of somebody else, or of one's own, keeps open: nothing that any reading takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.harness.applied_fleet import BO, CEM, DANA, GRANTS, SOLO, TRAIN
from tests.harness.yard import Said, Yard, project
from tests.journeys.access.test_key_files import SOLO_REF, TRAIN_REF, changed, pairs
from tests.planner import fleet as paper

pytestmark = pytest.mark.walk

Deed = Callable[[Yard], None]
RULES = """
operators: [olga]
ownership:
  - {path: "user/*", kinds: [User]}
  - {path: "theirs/*", kinds: [Grant, Allocation], projects: [nlp]}
  - {path: "project/vision.yaml", kinds: [Project]}
  - {path: "project/nlp.yaml", kinds: [Project]}
  - {path: "allocation/vision/*", projects: [vision]}
  - {path: "allocation/nlp/*", projects: [nlp]}
  - {path: "grant/vision/*", projects: [vision]}
"""
RULES += "".join(
    f"  - {{path: '{kind.lower()}/*', kinds: [{kind}]}}\n"
    for kind in ("Policy", "NodeFamily", "Sku", "Node")
)


def elsewhere(yard: Yard, *documents: Mapping[str, Any], name: str = "theirs/copy.yaml") -> Path:
    """The same documents once more, in a file of somebody else."""
    path = yard.specs / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("---\n".join(yaml.safe_dump(dict(one)) for one in documents))
    return path


def without_first_key(user: Mapping[str, Any]) -> dict[str, Any]:
    return changed(user, keys=user["spec"]["keys"][1:])


def beside(yard: Yard, document: Mapping[str, Any], text: str) -> None:
    """The document, with something beside it that is an error."""
    yard.file(document).write_text(yaml.safe_dump(dict(document)) + text)


def suspends(yard: Yard) -> None:
    elsewhere(yard, BO)
    yard.write(changed(BO, state="suspended"))


def deletes(yard: Yard) -> None:
    elsewhere(yard, changed(BO, emails=[]))
    yard.remove(BO)


def drops_a_member(yard: Yard) -> None:
    elsewhere(yard, project("vision", "ana", "bo", "cem", "dana"))
    yard.write(project("vision", "ana", "cem", "dana"))


def ends_a_grant(yard: Yard) -> None:
    grant = next(one for one in GRANTS if one["spec"]["user"] == "bo")
    elsewhere(yard, grant)
    yard.write(changed(grant, expiresAt="2026-01-01T00:00:00Z"))


def removes_a_grant(yard: Yard) -> None:
    grant = next(one for one in GRANTS if one["spec"]["user"] == "bo")
    elsewhere(yard, changed(grant, colour="red"))
    yard.remove(grant)


def gives_a_grant_to_another(yard: Yard) -> None:
    grant = next(one for one in GRANTS if one["spec"]["user"] == "bo")
    elsewhere(yard, changed(grant, user="ana"))


def loses_a_key_that_is_shared(yard: Yard) -> None:
    cem = changed(CEM)
    cem["spec"]["keys"].append({"id": "theirs", "publicKey": BO["spec"]["keys"][1]["publicKey"]})
    yard.write(cem, without_first_key(BO))


def suspends_beside_a_mistake(yard: Yard) -> None:
    yard.write(changed(BO, state="suspended", colour="red"))


def suspends_beside_a_tab(yard: Yard) -> None:
    beside(yard, changed(BO, state="suspended"), "\t- x: [\n")


def suspends_in_a_second_word(yard: Yard) -> None:
    beside(yard, BO, "  state: active\n  state: suspended\n")


def loses_a_key_beside_a_mistake(yard: Yard) -> None:
    yard.write(changed(without_first_key(BO), colour="red"))


def leaves_access(yard: Yard) -> None:
    yard.write(changed(TRAIN, access=["ana", "cem"], colour="red"))


NOT_BO = [*pairs("ana"), *pairs("cem")]
NO_KEY = [*pairs("ana"), "bo/desk", *pairs("cem")]
ALL = pairs("ana", "bo", "cem")
DEEDS: tuple[tuple[Deed, list[str], list[str]], ...] = (
    (suspends, NOT_BO, pairs("ana", "cem", "dana")),
    (deletes, NOT_BO, pairs("ana", "cem", "dana")),
    (drops_a_member, NOT_BO, pairs("ana", "cem", "dana")),
    (ends_a_grant, ALL, pairs("ana", "cem", "dana")),
    (removes_a_grant, ALL, pairs("ana", "cem", "dana")),
    (gives_a_grant_to_another, ALL, pairs("ana", "cem", "dana")),
    (loses_a_key_that_is_shared, NO_KEY, [*pairs("ana"), "bo/desk", *pairs("cem", "dana")]),
    (suspends_beside_a_mistake, NOT_BO, pairs("ana", "cem", "dana")),
    (suspends_beside_a_tab, NOT_BO, pairs("ana", "cem", "dana")),
    (suspends_in_a_second_word, NOT_BO, pairs("ana", "cem", "dana")),
    (loses_a_key_beside_a_mistake, NO_KEY, [*pairs("ana"), "bo/desk", *pairs("cem", "dana")]),
    (leaves_access, NOT_BO, pairs("ana", "bo", "cem", "dana")),
)


@pytest.mark.parametrize(
    ("deed", "train", "solo"), DEEDS, ids=lambda one: getattr(one, "__name__", "")
)
def test_an_error_keeps_nobody_in(
    yard: Yard, deed: Deed, train: list[str], solo: list[str]
) -> None:
    """Rule 9: what is taken away by any reading goes, and nothing else of it is done."""
    deed(yard)
    yard.commit()
    planned = yard.plan()
    assert any("revokes" in step for step in _steps(planned.plan)), planned.actions
    done = yard.apply()
    assert done.code == 1, "the errors are errors still"
    assert yard.keys(TRAIN_REF) == train
    assert yard.keys(SOLO_REF) == solo
    again = yard.apply()
    assert not list(_steps(again.plan)), "and that is that"
    assert (yard.keys(TRAIN_REF), yard.keys(SOLO_REF)) == (train, solo)


@pytest.mark.parametrize("deed", [suspends, loses_a_key_beside_a_mistake, drops_a_member])
def test_a_later_error_brings_nobody_back(yard: Yard, deed: Deed) -> None:
    """What was taken away is recorded: a file that nobody can read any more gives it to nobody."""
    deed(yard)
    yard.commit()
    yard.apply()
    left = yard.keys(TRAIN_REF)
    for one in (BO, project("vision", "ana")):
        yard.file(one).write_text("\t- [\n")
    yard.commit()
    yard.apply()
    assert yard.keys(TRAIN_REF) == left


@pytest.mark.parametrize("deed", [suspends, drops_a_member, ends_a_grant])
def test_a_document_in_order_counts_again(yard: Yard, deed: Deed) -> None:
    """And what it gives is given."""
    deed(yard)
    yard.commit()
    yard.apply()
    (yard.specs / "theirs/copy.yaml").unlink()
    yard.write(BO, project("vision", "ana", "bo", "cem", "dana"), *GRANTS)
    yard.commit()
    done = yard.apply()
    assert done.code == 0, done.document["problems"]
    assert yard.keys(TRAIN_REF) == ALL
    assert yard.keys(SOLO_REF) == pairs("ana", "bo", "cem", "dana")


@pytest.mark.parametrize(
    "document",
    [BO, project("vision", "ana"), GRANTS[0], changed(BO, emails=[]), changed(SOLO, sku="nothing")],
    ids=["user", "project", "grant", "unsound", "allocation"],
)
def test_a_document_out_of_place_is_none(yard: Yard, document: Mapping[str, Any]) -> None:
    """It freezes nobody, lets nobody in, and is nobody's reading."""
    (yard.folder / "gpuaas.yaml").write_text(RULES)
    yard.commit()
    assert yard.plan("--detailed-exitcode").code == 0
    elsewhere(yard, document)
    yard.commit()
    told = yard.plan()
    assert "document_outside_ownership" in told.problems
    assert told.actions == {}
    yard.write(changed(BO, state="suspended"))
    yard.commit()
    done = yard.apply()
    assert yard.keys(TRAIN_REF) == NOT_BO, done.document


def test_a_document_out_of_place_refers_to_nothing(yard: Yard) -> None:
    """What others name must stand where it may."""
    (yard.folder / "gpuaas.yaml").write_text(RULES)
    yard.commit()
    elsewhere(yard, paper.user("eve", "laptop"))
    yard.write(project("vision", "ana", "bo", "cem", "dana", "eve"))
    said = yard.gpuaas("validate")
    dangling = [one for one in said.document["problems"] if one["code"] == "dangling_reference"]
    assert len(dangling) == 1 and "theirs/copy.yaml" in dangling[0]["hint"]


def test_a_rule_that_comes_later_releases_nothing(yard: Yard) -> None:
    """What was applied from where it may not stand any more stays as it is."""
    rules = RULES.replace("allocation/vision", "allocation/elsewhere")
    (yard.folder / "gpuaas.yaml").write_text(rules)
    yard.commit()
    told = yard.plan()
    assert set(told.actions.values()) == {"frozen"}
    assert SOLO_REF in told.actions and TRAIN_REF in told.actions
    yard.apply()
    assert yard.keys(SOLO_REF) == pairs("ana", "bo", "cem", "dana")


def test_a_path_without_a_rule_takes_nothing(yard: Yard) -> None:
    """Once there are rules."""
    (yard.folder / "gpuaas.yaml").write_text(RULES)
    yard.commit()
    elsewhere(yard, paper.user("eve", "laptop"), name="free.yaml")
    told = yard.gpuaas("validate")
    assert told.problems == ["document_outside_ownership"]
    assert "no rule" in told.messages


def expired(user: Mapping[str, Any]) -> dict[str, Any]:
    keys = [{**key, "expiresAt": "2026-01-01T00:00:00Z"} for key in user["spec"]["keys"]]
    return changed(user, keys=keys)


CROWDS: Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "keys": lambda one: changed(one, keys=[]),
    "states": lambda one: changed(one, state="suspended"),
    "ends": expired,
}


def guarded(yard: Yard) -> None:
    guard = {"maxRemovals": 1, "maxRemovalPercent": 10}
    yard.write(paper.policy(guard=guard, grant={"mayBeOpenEnded": True}))
    yard.commit()
    yard.apply()


def held_of(told: Said) -> list[str]:
    codes = ((one["ref"], (one.get("problem") or {}).get("code")) for one in told.plan["changes"])
    return sorted(ref for ref, code in codes if code == "revocations_guard")


@pytest.mark.parametrize("crowd", CROWDS)
def test_an_error_of_many_shuts_out_no_crowd(yard: Yard, crowd: str) -> None:
    """A copy of everybody without keys is held by the guard like a merge that went wrong."""
    guarded(yard)
    elsewhere(yard, *map(CROWDS[crowd], (BO, CEM, DANA)))
    yard.commit()
    assert held_of(yard.apply()) == ["user/bo", "user/cem", "user/dana"]
    assert yard.keys(TRAIN_REF) == ALL


def test_many_other_names_at_once_are_a_crowd(yard: Yard) -> None:
    """Whoever gives everybody another name has their keys open nothing."""
    guarded(yard)
    for one in (BO, CEM, DANA):
        name = one["metadata"]["name"]
        yard.file(one).unlink()
        yard.write({**one, "metadata": {"name": f"{name}-x", "formerName": name}})
    yard.commit()
    assert len(held_of(yard.apply())) == 3
    assert yard.keys(TRAIN_REF) == ALL


def test_the_guard_shields_nobody_elses_loss(yard: Yard) -> None:
    """A document that alone is too much is held by itself."""
    guarded(yard)
    yard.write(changed(TRAIN, access=[]))
    yard.remove(CEM)
    yard.commit()
    done = yard.apply()
    assert held_of(done) == [TRAIN_REF], done.document["problems"]
    assert yard.keys(SOLO_REF) == pairs("ana", "bo", "dana")


def _steps(plan: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [step for wave in plan["waves"] for step in wave["steps"]]


@pytest.mark.parametrize("planted", ["copy", "misplaced", "broken"])
def test_where_somebody_once_stood_nobody_has_a_say(yard: Yard, planted: str) -> None:
    """A document that moves is known by its new file, though nothing else of it is another."""
    old = yard.specs / "theirs/cem.yaml"
    old.parent.mkdir()
    yard.file(CEM).rename(old)
    yard.commit()
    assert yard.apply().actions == {}
    old.rename(yard.file(CEM))
    yard.commit()
    assert yard.apply().actions == {}
    if planted == "misplaced":
        (yard.folder / "gpuaas.yaml").write_text(RULES)
    yard.write(project("vision", "ana", "bo", "dana"))
    yard.remove(*(one for one in GRANTS if one["spec"]["user"] == "cem"), CEM)
    yard.write(changed(TRAIN, access=["ana", "bo"]))
    old.write_text("\t- [" if planted == "broken" else yaml.safe_dump(changed(CEM, emails=[])))
    yard.commit()
    yard.apply()
    assert yard.recorded("user/cem") is None
    assert "cem/laptop" not in yard.keys(SOLO_REF) + yard.keys(TRAIN_REF)


def test_a_move_is_written_down_once(yard: Yard) -> None:
    """And is no change that anybody is shown or asked about."""
    place = yard.specs / "people/bo.yaml"
    place.parent.mkdir()
    yard.file(BO).rename(place)
    yard.commit()
    assert yard.plan("--detailed-exitcode").code == 0
    assert yard.apply().actions == {}
    assert yard.recorded("user/bo").file == "specs/people/bo.yaml"
    before = yard.rows("SELECT count(*) FROM event")
    yard.apply()
    assert yard.rows("SELECT count(*) FROM event") == before


@pytest.mark.parametrize("deed", ["grant ended", "member dropped", "grant ended in error"])
def test_what_is_named_takes_along_whatever_shuts_somebody_out_of_it(yard: Yard, deed: str) -> None:
    """With --only a change of access is no other change that waits."""
    grant = next(one for one in GRANTS if one["spec"]["user"] == "cem")
    ended = changed(grant, expiresAt="2026-01-01T00:00:00Z")
    yard.write(
        {
            "grant ended": ended,
            "grant ended in error": changed(ended, colour="red"),
            "member dropped": project("vision", "ana", "bo", "dana"),
        }[deed]
    )
    yard.write(changed(SOLO, protect=False))
    yard.commit()
    yard.apply("--only", SOLO_REF)
    assert yard.keys(SOLO_REF) == pairs("ana", "bo", "dana")
