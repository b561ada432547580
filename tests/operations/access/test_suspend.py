"""Suspensions on real folders: at once, whatever git says just now, and never more than a pause."""

from __future__ import annotations

import pytest

from tests.harness.applied_fleet import SOLO, TRAIN
from tests.harness.crash import kill
from tests.harness.yard import Said, Yard
from tests.journeys.access.test_key_files import SOLO_REF, TRAIN_REF
from tests.planner import fleet as paper

pytestmark = pytest.mark.walk

HIS = ["allocation/nlp/box", SOLO_REF, TRAIN_REF]
BO = ("suspend", "user/bo", "--reason", "lost a laptop", "--for", "24h")


def users(yard: Yard, ref: str) -> set[str]:
    return {key.partition("/")[0] for key in yard.keys(ref)}


def one(said: Said) -> str:
    (code,) = said.problems
    return str(code)


def test_a_person_is_shut_out_now_and_let_in_again(yard: Yard) -> None:
    """Rule 10: with a broken file in the tree, beside changes that nobody has applied."""
    before = {ref: yard.keys(ref) for ref in (SOLO_REF, TRAIN_REF)}
    broken = yard.specs / "broken.yaml"
    broken.write_text("kind: [\n")
    yard.write({**TRAIN, "spec": {**TRAIN["spec"], "access": ["ana"]}}, paper.allocation("more"))
    done = yard.gpuaas(*BO)
    assert (done.code, done.problems) == (0, [])
    result = done.document["result"]
    assert result["done"] == HIS and result["until"]
    assert "bo" not in users(yard, SOLO_REF) | users(yard, TRAIN_REF)
    assert users(yard, TRAIN_REF) == {"ana", "cem"}, "what git wants meanwhile is not applied"
    assert yard.recorded("allocation/vision/more") is None
    states = {
        (row["allocation"], row["state"])
        for row in yard.gpuaas("grant", "list", "--user", "bo").document["result"]["rows"]
    }
    assert (TRAIN_REF, "suspended") in states and (SOLO_REF, "suspended") in states
    assert "lost a laptop" in yard.gpuaas("status").document["result"]["suspended"][0]["reason"]
    ((actor, reason),) = yard.rows("SELECT actor, reason FROM event WHERE type = 'suspended'")
    assert actor and reason == "lost a laptop"

    broken.unlink()
    yard.write(TRAIN)
    yard.remove(paper.allocation("more"))
    (shown,) = yard.gpuaas("plan").document["result"]["suspended"]
    assert (shown["scope"], shown["reason"]) == ("user/bo", "lost a laptop")
    quiet = yard.plan("--detailed-exitcode")
    assert (quiet.code, quiet.actions) == (0, {}), "and no plan lets him in again"
    back = yard.gpuaas("resume", "user/bo", "--reason", "found it")
    assert (back.code, back.document["result"]["done"]) == (0, HIS)
    assert {ref: yard.keys(ref) for ref in before} == before
    assert yard.plan("--detailed-exitcode").actions == {}


def test_a_project_is_shut_out_and_goes_on(yard: Yard) -> None:
    """Rule 10, PLC-17: nobody gets in, nothing is taken, and nothing new is placed for it."""
    held = yard.claims
    assert yard.gpuaas("suspend", "project/vision", "--reason", "unpaid").code == 0
    assert users(yard, SOLO_REF) == users(yard, TRAIN_REF) == set()
    assert yard.claims == held
    yard.write(paper.allocation("more"))
    assert yard.plan().blocked == {"allocation/vision/more": "sku_unavailable"}
    assert yard.gpuaas("resume", "project/vision", "--reason", "paid").code == 0
    assert "bo" in users(yard, SOLO_REF)


def test_what_was_let_go_of_is_not_taken_back_by_a_word(yard: Yard) -> None:
    """Rule 10: it takes away only; of what git names no more nobody does anything."""
    yard.remove(TRAIN)
    yard.commit()
    assert yard.gpuaas("forget", TRAIN_REF, "--reason", "moves elsewhere").code == 0
    before = yard.keys(TRAIN_REF)
    done = yard.gpuaas(*BO)
    assert (done.code, done.document["result"]["done"]) == (0, [HIS[0], SOLO_REF])
    assert yard.keys(TRAIN_REF) == before and yard.recorded(TRAIN_REF).forgotten


def test_a_host_that_is_away_is_told_by_the_next_apply(yard: Yard) -> None:
    """F-GRT-02: the word stands, its failure is told, and what is open is an alarm."""
    with yard.away("gpu02"):
        away = yard.gpuaas(*BO)
        assert (away.code, one(away)) == (1, "host_unreachable")
        assert "bo" not in users(yard, TRAIN_REF)
        needs = yard.gpuaas("status").document["result"]["needsYou"]
        assert any("revocation of bo on gpu02" in need["text"] for need in needs)
    assert "bo" in users(yard, SOLO_REF)
    assert yard.apply("--auto-approve").code == 0
    assert "bo" not in users(yard, SOLO_REF)


def test_what_is_killed_is_finished_by_the_next_word_or_apply(yard: Yard) -> None:
    """F-STA-01: at each stop it is on the books or not; and what is on the books reaches hosts."""
    kill(yard, BO, "suspend.before")
    assert "bo" in users(yard, SOLO_REF) and yard.world.suspensions == ()
    kill(yard, BO, "suspend.after")
    assert "bo" in users(yard, SOLO_REF) and len(yard.world.suspensions) == 1
    assert yard.apply("--auto-approve").code == 0
    assert "bo" not in users(yard, SOLO_REF)
    again = ("resume", "user/bo", "--reason", "over")
    kill(yard, again, "resume.before")
    assert len(yard.world.suspensions) == 1
    kill(yard, again, "resume.after")
    assert yard.world.suspensions == () and one(yard.gpuaas(*again)) == "not_found"
    assert yard.apply("--auto-approve").code == 0
    assert "bo" in users(yard, SOLO_REF)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("user/nobody", "--reason", "x"), "not_found"),
        (("allocation/vision/train", "--reason", "x"), "not_found"),
        (("user/bo", "--reason", " "), "usage"),
        (("user/bo", "--reason", "x", "--until", "2020-01-01T00:00:00Z"), "usage"),
        (("user/bo", "--reason", "x", "--for", "1y"), "usage"),
        (("user/bo",), "usage"),
    ],
)
def test_what_makes_no_sense_is_refused(yard: Yard, words: tuple[str, ...], code: str) -> None:
    said = yard.gpuaas("suspend", *words)
    assert one(said) == code and yard.world.suspensions == ()
    assert SOLO["spec"]["protect"]


def test_who_misspells_a_part_of_the_loop_is_led_to_no_suspension_of_people(yard: Yard) -> None:
    for word, near in (
        ("loop/project/visoin", "loop/project/vision"),
        ("loop/allocation/vision/sollo", "loop/allocation/vision/solo"),
        ("project/visoin", "project/vision"),
    ):
        said = yard.gpuaas("suspend", word, "--reason", "an audit")
        assert one(said) == "not_found"
        assert f"`{near}`" in said.messages
