"""What somebody may take over by another name, and who may give: nothing that others take away."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

import pytest

from reconciler.model.moment import format_moment
from reconciler.operations.fleet import utc_now
from reconciler.planner import plan
from reconciler.planner.diff.name_changes import MOST_TURNS
from tests.harness.applied_fleet import BOX, CEM, GRANTS, SOLO, TRAIN
from tests.harness.yard import Yard, project
from tests.journeys.access.test_errors_of_others import RULES, elsewhere
from tests.journeys.access.test_key_files import SOLO_REF, TRAIN_REF, changed, pairs
from tests.planner import fleet as paper

pytestmark = pytest.mark.walk

GRANT_OF = {one["spec"]["user"]: one for one in GRANTS}
BOX_REF, MINE_REF = "allocation/nlp/box", "allocation/vision/mine"
BO_REF, AGAIN_REF = "grant/vision/bo-on-solo", "grant/vision/again"
LEASE = {"defaultHours": 24, "maxHours": 240}


def in_hours(hours: int) -> str:
    """A full hour."""
    moment = utc_now().replace(minute=0, second=0, microsecond=0)
    return format_moment(moment + timedelta(hours=hours))


def policy(**changes: Any) -> dict[str, Any]:
    guard = {"maxRemovals": 5, "maxRemovalPercent": 100}
    return paper.policy(
        **{"guard": guard, "grant": {"mayBeOpenEnded": True}, "lease": LEASE, **changes}
    )


def grant(name: str, allocation: str, user: str, former: str = "", **spec: Any) -> dict[str, Any]:
    made = paper.grant(name, allocation, user, **{"expiresAt": in_hours(5), **spec})
    if former:
        made["metadata"]["formerName"] = former
    return made


def takes_train(sku: str = "slice-2", **spec: Any) -> dict[str, Any]:
    """Of bo, in a file of their own, for what is ana's."""
    values = {"owner": "bo", "access": ["bo"], "expiresAt": paper.LASTING, **spec}
    return paper.allocation("mine", sku, node="gpu01", formerName="train", **values)


def placed(yard: Yard, document: Mapping[str, Any], author: str) -> None:
    elsewhere(yard, document)
    yard.commit(author)


@pytest.mark.parametrize("words", [(), ("--only", BO_REF), ("--only", SOLO_REF)], ids=str)
def test_a_rename_that_may_not_be_keeps_no_grant(yard: Yard, words: tuple[str, ...]) -> None:
    """Rule 9: what was removed is gone, by a line of its own, and whatever was asked for."""
    placed(yard, grant("again", "solo", "cem", former="bo-on-solo"), "cem")
    yard.remove(GRANT_OF["bo"])
    assert yard.plan(*words).actions[BO_REF] == "forget"
    done = yard.apply(*words)
    assert BO_REF not in done.blocked
    assert yard.recorded(BO_REF) is None
    assert yard.keys(SOLO_REF) == pairs("ana", "cem", "dana")
    assert yard.recorded(AGAIN_REF) is None
    if not words:
        assert done.blocked == {AGAIN_REF: "field_refused"}


def test_a_rename_that_may_not_be_keeps_no_allocation(yard: Yard) -> None:
    placed(yard, takes_train("slice-1", owner="ana", access=["ana"]), "bo")
    yard.remove(TRAIN)
    done = yard.apply()
    assert done.actions[TRAIN_REF] == "release"
    assert done.blocked == {MINE_REF: "rename_unsound"}
    assert yard.recorded(TRAIN_REF) is None and yard.recorded(MINE_REF) is None


def test_a_removal_by_a_rename_that_may_not_be_is_held_like_any(yard: Yard) -> None:
    """It destroys: the consent to what is safe is none to that, and what is protected stays."""
    placed(yard, takes_train("slice-1", owner="ana", access=["ana"]), "bo")
    yard.remove(TRAIN)
    claims = yard.claims
    done = yard.apply("--auto-approve=safe")
    assert done.blocked == {MINE_REF: "rename_unsound", TRAIN_REF: "held_for_approval"}
    yard.write(changed(TRAIN, protect=True))
    yard.commit()
    assert yard.apply().code == 3
    yard.remove(TRAIN)
    assert yard.apply().blocked == {MINE_REF: "rename_unsound", TRAIN_REF: "protected"}
    assert yard.claims == claims


def test_a_rename_that_may_not_be_keeps_no_lease(yard: Yard) -> None:
    """A new name with an end that may not be: the old one is over, and removed."""
    yard.write(policy(), changed(BOX, expiresAt=in_hours(2)))
    yard.commit()
    assert yard.apply().code == 0
    yard.remove(BOX)
    box = paper.allocation("new", "whole", "nlp", owner="bo", node="gpu03", formerName="box")
    yard.write(changed(box, expiresAt="2099-01-01T00:00:00Z"))
    yard.commit("bo")
    yard.apply_at(utc_now() + timedelta(days=60))
    assert yard.recorded(BOX_REF) is None
    assert not [claim for claim in yard.claims if claim.startswith("allocation/nlp")]


def test_an_owner_ends_a_grant_under_a_new_name(yard: Yard) -> None:
    """Refused for something else in it, it opens nothing all the same."""
    yard.remove(GRANT_OF["cem"])
    over = grant("over", "solo", "cem", former="cem-on-solo", expiresAt="2026-11-01T00:00:00Z")
    yard.write(changed(over, endSessions=False))
    yard.commit("ana")
    assert "not_yet_supported" in yard.apply().blocked.values()
    assert yard.keys(SOLO_REF) == pairs("ana", "bo", "dana")


def test_who_may_not_give_a_grant_gives_none_by_another_name(yard: Yard) -> None:
    """Cem is a member: the same user and the same allocation, and an end not theirs to say."""
    placed(yard, grant("again", "solo", "bo", former="bo-on-solo", expiresAt="none"), "cem")
    yard.remove(GRANT_OF["bo"])
    done = yard.apply()
    assert done.blocked == {AGAIN_REF: "role_cannot_grant"}
    assert yard.keys(SOLO_REF) == pairs("ana", "cem", "dana")


def test_nobody_renews_a_grant_of_their_own_by_another_name(yard: Yard) -> None:
    """Not one that is over either, which stays recorded for as long as its file does."""
    yard.write(changed(GRANT_OF["dana"], expiresAt="2026-11-01T00:00:00Z"))
    yard.commit()
    yard.apply()
    yard.file(GRANT_OF["dana"]).unlink()
    yard.write(grant("again", "solo", "dana", former="dana-on-solo", expiresAt="none"))
    yard.commit("dana")
    assert yard.apply().blocked == {AGAIN_REF: "role_cannot_grant"}
    assert yard.keys(SOLO_REF) == pairs("ana", "bo", "cem")


def test_an_owner_gives_a_grant_another_name(yard: Yard) -> None:
    """It goes on, and nobody is shut out meanwhile."""
    yard.file(GRANT_OF["bo"]).unlink()
    yard.write(grant("again", "solo", "bo", former="bo-on-solo", expiresAt="none"))
    yard.commit("ana")
    done = yard.apply()
    assert (done.code, done.actions) == (0, {AGAIN_REF: "rename"})
    assert yard.keys(SOLO_REF) == pairs("ana", "bo", "cem", "dana")


TOO_LONG: dict[str, Any] = {"expiresAt": "2099-01-01T00:00:00Z"}
UNSUPPORTED: dict[str, Any] = {"endSessions": False}


@pytest.mark.parametrize(
    ("more", "author", "code"),
    [
        (TOO_LONG, "olga", "grant_too_long"),
        (UNSUPPORTED, "olga", "not_yet_supported"),
        ({}, "dana", "role_cannot_grant"),
        ({"user": "dana"}, "olga", "field_refused"),
    ],
    ids=lambda one: str(one),
)
def test_a_refused_change_of_a_grant_keeps_no_key(
    yard: Yard, more: dict[str, Any], author: str, code: str
) -> None:
    """Rule 9: a key that is no longer named opens nothing, whatever else is wrong with the rest."""
    yard.write(changed(GRANT_OF["cem"], keys=["desk", "laptop"]))
    yard.commit()
    yard.apply()
    yard.write(changed(GRANT_OF["cem"], keys=["laptop"], **more))
    yard.commit(author)
    assert yard.apply().blocked == {"grant/vision/cem-on-solo": code}
    left = [] if "user" in more else ["cem/laptop"]
    assert yard.keys(SOLO_REF) == [*pairs("ana", "bo"), *left, *pairs("dana")]


def test_a_doubt_about_who_wrote_a_change_keeps_nobody_in(yard: Yard) -> None:
    """Bo is swapped for dana by somebody beyond the end of a shallow clone."""
    yard.write(changed(TRAIN, access=["ana", "cem", "dana"]))
    yard.commit("ana")
    yard.commit("olga")
    head = git(yard, "rev-parse", "HEAD")
    (yard.folder / ".git/shallow").write_text(head)
    done = yard.apply()
    assert done.blocked == {TRAIN_REF: "history_shallow"}
    assert yard.keys(TRAIN_REF) == pairs("ana", "cem")


def git(yard: Yard, *words: str) -> str:
    done = subprocess.run(["git", "-C", yard.folder, *words], check=True, capture_output=True)
    return done.stdout.decode()


def logins(yard: Yard) -> dict[str, str]:
    """By the names of allocations of vision."""
    recorded = yard.world.recorded.items()
    return {ref.name: one.login for ref, one in recorded if one.id and ref.project == "vision"}


def test_nobody_takes_over_what_others_remove(yard: Yard) -> None:
    """Ana's home is not bo's since bo asked for it first."""
    login = yard.recorded(TRAIN_REF).login
    home = yard.root("gpu01") / "home" / login
    (home / "secret.txt").write_text("of ana")
    placed(yard, takes_train(), "bo")
    yard.remove(TRAIN)
    done = yard.apply()
    assert done.blocked == {MINE_REF: "rename_unsound"}
    assert done.actions[TRAIN_REF] == "release"
    assert login not in logins(yard).values()
    assert not home.exists()


@pytest.mark.parametrize(
    ("author", "owner", "access", "code"),
    [
        ("bo", "ana", ["ana"], ""),
        ("bo", "ana", ["ana", "dana"], "role_cannot_grant"),
        ("dana", "ana", ["ana", "dana"], "role_cannot_grant"),
        ("ana", "bo", ["bo"], ""),
        ("olga", "bo", ["bo"], ""),
        ("zoe", "bo", ["bo"], ""),
        ("dana", "dana", ["dana"], "rename_unsound"),
    ],
)
def test_a_rename_keeps_what_it_is_about_with_its_owner(
    yard: Yard, author: str, owner: str, access: list[str], code: str
) -> None:
    """Or by a word of whoever may give; somebody whom no User names can be anybody."""
    login = yard.recorded(TRAIN_REF).login
    yard.file(TRAIN).unlink()
    placed(yard, takes_train(owner=owner, access=access), author)
    done = yard.apply()
    assert done.blocked == ({MINE_REF: code} if code else {})
    assert logins(yard).get("mine") == (None if code else login)
    assert "train" not in logins(yard)


def test_what_no_commit_removed_is_taken_over_by_nobody(yard: Yard) -> None:
    """Unless somebody names it."""
    before = logins(yard)
    placed(yard, takes_train(owner="ana", access=["ana"]), "ana")
    yard.file(TRAIN).unlink()
    done = yard.apply()
    assert done.blocked == {MINE_REF: "rename_unsound", TRAIN_REF: "removal_uncommitted"}
    assert logins(yard) == before
    done = yard.apply(f"--uncommitted-removals={TRAIN_REF}")
    assert done.actions == {MINE_REF: "rename"}
    assert logins(yard)["mine"] == before["train"]


def test_what_stands_out_of_place_is_taken_over_by_nobody(yard: Yard) -> None:
    """A rule that came later has left it where it was."""
    before = logins(yard)
    rules = RULES.replace('allocation/vision/*", projects: [vision]', 'away/*", projects: [vision]')
    rules = rules.replace("kinds: [Grant, Allocation], projects: [nlp]", "projects: [vision]")
    (yard.folder / "gpuaas.yaml").write_text(rules)
    yard.commit()
    placed(yard, takes_train(owner="ana", access=["ana"]), "bo")
    done = yard.apply()
    assert done.blocked[MINE_REF] == "rename_unsound"
    assert done.actions[TRAIN_REF] == "frozen"
    assert logins(yard) == before


def test_nobody_keeps_what_others_remove_by_claiming_its_name(yard: Yard) -> None:
    """By a document that is recorded already, and which stays what it is."""
    mine = paper.allocation("mine", "slice-1", owner="bo", access=["bo"], expiresAt=paper.LASTING)
    placed(yard, mine, "ana")
    assert yard.apply().code == 0
    placed(yard, {**mine, "metadata": {**mine["metadata"], "formerName": "train"}}, "bo")
    yard.remove(TRAIN)
    assert yard.apply().actions == {TRAIN_REF: "release"}
    assert set(logins(yard)) == {"mine", "solo"}


def test_an_owner_keeps_by_a_name_what_another_claims_as_well(yard: Yard) -> None:
    """Both are recorded: hers is a mistake that is told, and destroys nothing; their is nothing."""
    mine = paper.allocation("mine", "slice-1", owner="bo", access=["bo"], expiresAt=paper.LASTING)
    yard.write(mine)
    yard.commit("ana")
    assert yard.apply().code == 0
    for one, author in ((mine, "bo"), (SOLO, "ana")):
        yard.write({**one, "metadata": {**one["metadata"], "formerName": "train"}})
        yard.commit(author)
    yard.remove(TRAIN)
    assert yard.apply().blocked == {TRAIN_REF: "rename_unsound"}
    assert set(logins(yard)) == {"mine", "solo", "train"}


def test_a_crowd_of_claims_keeps_no_plan_waiting_and_nobody_from_a_rename(yard: Yard) -> None:
    """Whoever has no part in it is judged first, and all of them at once."""
    crowd = [takes_train() for _ in range(12)]
    for number, one in enumerate(crowd):
        one["metadata"]["name"] = f"a{number}"
    elsewhere(yard, *crowd)
    yard.commit("bo")
    login = yard.recorded(TRAIN_REF).login
    yard.file(TRAIN).unlink()
    own = {**TRAIN["metadata"], "name": "zebra", "formerName": "train"}
    yard.write({**TRAIN, "metadata": own})
    yard.commit("ana")
    with counting(plan, "_made") as made:
        said = yard.plan()
    assert len(made) <= 3
    assert said.actions["allocation/vision/zebra"] == "rename"
    yard.apply()
    assert logins(yard)["zebra"] == login


def test_a_crowd_of_claims_that_may_be_is_cut_short(yard: Yard) -> None:
    crowd = [takes_train("slice-1", owner="ana", access=["ana"]) for _ in range(12)]
    for number, one in enumerate(crowd):
        one["metadata"]["name"] = f"a{number}"
    elsewhere(yard, *crowd)
    yard.commit("ana")
    yard.remove(TRAIN)
    with counting(plan, "_made") as made:
        said = yard.plan()
    assert len(made) <= MOST_TURNS + 2
    assert len(said.blocked) == 12
    assert said.actions[TRAIN_REF] == "release"


@contextmanager
def counting(module: Any, name: str) -> Iterator[list[str]]:
    """One entry for each call."""
    calls: list[str] = []
    function = getattr(module, name)

    def counted(*words: Any, **named: Any) -> Any:
        calls.append(name)
        return function(*words, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, name, counted)
        yield calls


@pytest.mark.parametrize(("author", "code"), [("bo", "rename_unsound"), ("ana", "")])
def test_nobody_takes_over_data_that_others_remove(yard: Yard, author: str, code: str) -> None:
    vision = project("vision", "ana", "bo", "cem", "dana")
    vision["spec"]["entitlements"]["storageClasses"] = ["local"]
    vision["spec"]["quota"]["storageGiB"] = 50
    data = paper.storage("data", protect=False)
    yard.write(paper.storage_class("local", directory={"path": "/srv/data"}), vision, data)
    yard.commit()
    assert yard.apply().code == 0
    placed(yard, paper.storage("mine", formerName="data"), author)
    yard.remove(data)
    done = yard.plan()
    assert done.blocked == ({"storage/vision/mine": code} if code else {})


def test_who_removes_data_may_name_it_anew(yard: Yard) -> None:
    """A member as well: it is of the project, and goes from nobody's hands."""
    vision = project("vision", "ana", "bo", "cem", "dana")
    vision["spec"]["entitlements"]["storageClasses"] = ["local"]
    vision["spec"]["quota"]["storageGiB"] = 50
    data = paper.storage("data")
    yard.write(paper.storage_class("local", directory={"path": "/srv/data"}), vision, data)
    yard.commit()
    assert yard.apply().code == 0
    yard.file(data).unlink()
    placed(yard, paper.storage("sets", formerName="data"), "bo")
    assert yard.plan().actions == {"storage/vision/sets": "rename"}


GIVEN_REF = "grant/vision/given"


def spoils_his_own_document(yard: Yard) -> None:
    yard.write(changed(CEM, colour="red"))


def takes_out_his_address(yard: Yard) -> None:
    yard.write(changed(CEM, emails=["other@corp.example"]))


def hands_his_address_on(yard: Yard) -> None:
    yard.write(changed(CEM, emails=["other@corp.example"]))
    elsewhere(yard, paper.user("eve", "laptop", emails=["cem@corp.example"]))


def leaves_the_specs(yard: Yard) -> None:
    vision = project("vision", "ana", "bo", "dana")
    yard.write(vision, changed(TRAIN, access=["ana", "bo"]))
    yard.file(GRANT_OF["cem"]).unlink()
    yard.file(CEM).unlink()


@pytest.mark.parametrize(
    "deed",
    [spoils_his_own_document, takes_out_his_address, hands_his_address_on, leaves_the_specs],
)
def test_nobody_sheds_a_role(yard: Yard, deed: Callable[[Yard], None]) -> None:
    """Cem is a member, and is still when something about themselves is another."""
    deed(yard)
    yard.write(grant("given", "train", "dana"))
    yard.commit("cem")
    done = yard.apply()
    assert done.blocked[GIVEN_REF] == "role_cannot_grant", done.actions
    assert not [key for key in yard.keys(TRAIN_REF) if key.startswith("dana")]


def test_addresses_are_compared_without_case(yard: Yard) -> None:
    yard.write(grant("given", "train", "dana"))
    subprocess.run(["git", "-C", yard.folder, "add", "-A"], check=True)
    git(yard, "-c", "user.name=cem", "-c", "user.email=Cem@Corp.Example", "commit", "-qm", "x")
    assert yard.plan().blocked == {GIVEN_REF: "role_cannot_grant"}


def test_who_is_suspended_gives_nothing(yard: Yard) -> None:
    """By a document or by a word, and whatever their role is."""
    ana = paper.user("ana", "laptop", "desk")
    yard.write(changed(ana, state="suspended"))
    yard.commit()
    yard.apply()
    yard.write(grant("given", "train", "dana"))
    yard.commit("ana")
    assert yard.plan().blocked == {GIVEN_REF: "role_cannot_grant"}
    yard.write(ana)
    yard.commit("olga")
    assert yard.apply().code == 0
    yard.remove(grant("given", "train", "dana"))
    yard.apply()
    assert yard.gpuaas("suspend", "user/ana", "--reason", "x").code == 0
    yard.write(grant("again", "train", "dana"))
    yard.commit("ana")
    assert yard.plan().blocked[AGAIN_REF] == "role_cannot_grant"


@pytest.mark.parametrize("author", ["olga", "ana"])
@pytest.mark.parametrize("state", ["suspended", "active"])
def test_an_address_is_whose_it_was_recorded_to_be(yard: Yard, author: str, state: str) -> None:
    """Nobody takes a role from others by a claim to their address, nor gets it by that."""
    theirs = [f"{author}@corp.example"]
    placed(yard, paper.user("eve", "laptop", state=state, emails=theirs), "eve")
    yard.write(grant("given", "train", "dana"))
    yard.commit(author)
    assert GIVEN_REF not in yard.plan().blocked


def test_an_operator_is_one_though_somebody_copies_her_key(yard: Yard) -> None:
    eve = paper.user("eve", "laptop")
    eve["spec"]["keys"][0]["publicKey"] = paper.user("olga", "laptop")["spec"]["keys"][0][
        "publicKey"
    ]
    placed(yard, eve, "eve")
    yard.write(paper.allocation("pinned", "slice-1", node="gpu02", expiresAt=paper.LASTING))
    yard.commit("olga")
    assert "allocation/vision/pinned" not in yard.plan().blocked


def test_somebody_is_known_by_a_new_name(yard: Yard) -> None:
    """Ana is an owner still, in the commit that says so."""
    anna = paper.user("anna", "laptop", emails=["ana@corp.example"], osLogins=["ana"])
    anna["metadata"]["formerName"] = "ana"
    for one in (paper.user("ana"), TRAIN, BOX, *GRANTS):
        yard.file(one).unlink()
    yard.write(anna, project("vision", "anna", "bo", "cem", "dana"), project("nlp", "bo"))
    yard.write(changed(SOLO, owner="anna", access=["anna"]), grant("given", "solo", "dana"))
    yard.commit("ana")
    blocked = yard.plan().blocked
    assert GIVEN_REF not in blocked, blocked


def lease_of_box(yard: Yard, hours: int) -> datetime:
    """Given now, for so many hours; and two days later."""
    yard.write(policy(), changed(BOX, expiresAt=in_hours(hours)))
    yard.commit()
    assert yard.apply().code == 0
    return utc_now() + timedelta(hours=48)


def test_another_name_begins_no_lease(yard: Yard) -> None:
    """From its first begin on it may live for 240 hours, and not from the rename on."""
    later = lease_of_box(yard, 200)
    yard.remove(BOX)
    box = paper.allocation("new", "whole", "nlp", owner="bo", node="gpu03", formerName="box")
    yard.write(changed(box, expiresAt=in_hours(48 + 238)))
    yard.commit("bo")
    codes = {str(c.ref): c.problem.code for c in yard.apply_at(later).plan.changes if c.problem}
    assert codes["allocation/nlp/new"] == "lease_too_long"
    assert yard.recorded(BOX_REF) is None, "what may not go on under another name has gone"


def test_a_lease_goes_on_under_another_name(yard: Yard) -> None:
    later = lease_of_box(yard, 200)
    yard.remove(BOX)
    box = paper.allocation("new", "whole", "nlp", owner="bo", node="gpu03", formerName="box")
    yard.write(changed(box, expiresAt=in_hours(238)))
    yard.commit("bo")
    yard.apply_at(later)
    assert yard.recorded("allocation/nlp/new").expires_at == in_hours(238)


def test_another_place_begins_no_lease(yard: Yard) -> None:
    """Whoever is moved, and so gets a new allocation, goes on with the time of the former one."""
    solo = changed(SOLO, protect=False, expiresAt=in_hours(200))
    yard.remove(TRAIN)
    yard.write(policy(), solo)
    yard.commit()
    assert yard.apply().code == 0
    later = utc_now() + timedelta(hours=100)
    began = yard.recorded(SOLO_REF).id
    yard.write(changed(solo, node="gpu01"))
    yard.commit()
    yard.apply_at(later)
    assert yard.recorded(SOLO_REF).id != began
    yard.write(changed(solo, node="gpu01", expiresAt=in_hours(330)))
    yard.commit()
    said = yard.apply_at(later + timedelta(hours=1))
    codes = {str(c.ref): c.problem.code for c in said.plan.changes if c.problem}
    assert codes == {SOLO_REF: "lease_too_long"}
    yard.write(changed(solo, node="gpu02", expiresAt=in_hours(230)))
    yard.commit()
    yard.apply_at(later + timedelta(hours=2))
    (claim,) = [one for one in yard.world.claims if str(one.ref) == SOLO_REF]
    assert (claim.node, claim.begun < format_moment(later)) == ("gpu02", True), "nor a second move"


def test_what_was_released_begins_anew(yard: Yard) -> None:
    later = lease_of_box(yard, 200)
    yard.remove(BOX)
    yard.apply_at(later)
    yard.write(changed(BOX, expiresAt=in_hours(48 + 238)))
    yard.commit()
    yard.apply_at(later)
    assert yard.recorded(BOX_REF).expires_at == in_hours(48 + 238)
