"""Approving: who may, what it covers, and that nothing happens by it."""

from __future__ import annotations

import subprocess
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.kinds.approval import HOST, approved_names
from reconciler.model.problem import ProblemError
from reconciler.model.state.world import Suspension
from reconciler.operations.fleet import utc_now
from reconciler.operations.journal import writing
from reconciler.operations.node.approve import ApprovalScope, ApprovedNode, approve
from reconciler.operations.specs import read_desired
from reconciler.store.tables import suspensions
from tests.harness.yard import Yard, laid, node
from tests.planner import fleet as paper

FILE = "specs/node/gpu01.yaml"


@pytest.fixture(autouse=True)
def olga(monkeypatch: pytest.MonkeyPatch) -> None:
    """The operator who sits here, by the address she commits with."""
    be("olga", monkeypatch)


def be(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", name)
        monkeypatch.setenv(f"GIT_{role}_EMAIL", f"{name}@corp.example")


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    """A node of two slots that nobody has approved, and an allocation that wants one of them."""
    yard = laid(tmp_path / "fleet", {}, paper.allocation("train", "slice-1"))
    yard.write(node("gpu01", 2, covers=()))
    yard.lay_nodes()
    yard.commit()
    return yard


def text(yard: Yard) -> str:
    return (yard.folder / FILE).read_text(encoding="utf-8")


def change(yard: Yard, **slot: Any) -> None:
    """Something about slot s1, as an editor would leave it."""
    document = yaml.safe_load(text(yard))
    document["spec"]["slots"][1].update(slot)
    yard.write(document)


def in_force(yard: Yard) -> frozenset[str]:
    (found,) = read_desired(yard.fleet()).of("node")
    return approved_names(found.spec)


def say(yard: Yard, **wish: Any) -> ApprovedNode:
    return approve(yard.fleet(), ApprovalScope(node="gpu01", **wish))


def refusal(yard: Yard, **wish: Any) -> tuple[str, str]:
    """The code and everything said of it; the file is as it was."""
    before = text(yard)
    with pytest.raises(ProblemError) as refused:
        say(yard, **wish)
    assert text(yard) == before
    (problem,) = refused.value.problems
    return problem.code, f"{problem.message} | {problem.hint}"


def test_slots_are_given_out_by_a_persons_word_and_not_by_what_is_seen(yard: Yard) -> None:
    """INV-09, INV-07, INV-08: the host shows its cards, and still only the approval counts."""
    blocked = yard.plan("--refresh")
    assert blocked.blocked["allocation/vision/train"] == "sku_unavailable"
    hosts, serial = yard.hosts(), yard.world.serial
    found = say(yard)
    assert found.approval.covers == (HOST, "s0", "s1")
    assert found.approval.by == "olga"
    assert text(yard).splitlines()[found.line - 1].strip() == "- by: olga"
    assert in_force(yard) == {HOST, "s0", "s1"}
    assert (yard.hosts(), yard.world.serial) == (hosts, serial), "nothing happened by it"
    assert yard.plan().actions["allocation/vision/train"] == "create"


def test_an_approval_falls_with_what_it_covers_and_is_given_anew(yard: Yard) -> None:
    """INV-09: offline, by validate; what was last applied or observed has no part in it."""
    say(yard, host_only=True)
    say(yard, slots=("s0",))
    say(yard, slots=("s1",))
    assert not yard.gpuaas("validate").document["problems"]
    change(yard, memoryGiB=32)
    validated = yard.gpuaas("validate")
    assert validated.code == 0
    assert "approval_stale" in validated.problems
    assert in_force(yard) == {HOST, "s0"}
    assert say(yard).approval.covers == ("s1",)
    assert not yard.gpuaas("validate").document["problems"]


def test_what_is_left_is_told(yard: Yard) -> None:
    assert say(yard, slots=("s1",)).pending == (HOST, "s0")
    assert say(yard, host_only=True).pending == ("s0",)
    assert say(yard).approval.covers == ("s0",)
    code, words = refusal(yard)
    assert code == "already_approved"
    assert "gpuaas node show gpu01" in words
    assert refusal(yard, slots=("s0",))[0] == "already_approved"
    assert refusal(yard, host_only=True)[0] == "already_approved"


def test_only_what_is_there_is_approved(yard: Yard) -> None:
    assert refusal(yard, slots=("s0", "s7")) == (
        "not_found",
        "gpu01 has no slot s7 | slots: s0, s1",
    )
    assert refusal(yard, slots=("host",))[0] == "not_found"
    with pytest.raises(ProblemError) as refused:
        approve(yard.fleet(), ApprovalScope(node="gpu10"))
    assert refused.value.problems[0].hint == "did you mean `gpu01`?"


def test_only_operators_approve(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    be("ana", monkeypatch)
    code, words = refusal(yard)
    assert code == "operator_only"
    assert "ana@corp.example" in words
    assert "operators (gpuaas.yaml): olga" in words
    be("nobody", monkeypatch)
    code, words = refusal(yard)
    assert code == "person_unknown"
    assert "osLogins" in words


def test_a_login_is_a_person_too_and_two_people_are_none(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    login = yard.fleet().actor.name
    be("nobody", monkeypatch)
    yard.write(paper.user("olga", "laptop", osLogins=[login]))
    assert say(yard).approval.by == "olga"
    be("ana", monkeypatch)
    change(yard, memoryGiB=32)
    code, words = refusal(yard)
    assert code == "person_unknown"
    assert "is both ana and olga" in words


def test_a_suspended_operator_approves_nothing(yard: Yard) -> None:
    yard.write(paper.user("olga", "laptop", state="suspended"))
    assert refusal(yard) == ("operator_only", "olga is suspended | another operator may do it")


def test_nor_does_one_who_is_suspended_by_a_word(yard: Yard) -> None:
    """Rule 10: what was taken away without a file is taken away."""
    olga = Suspension(scope="user/olga", reason="lost key", actor="dana", since="")
    with writing(yard.fleet(), "suspend") as journal:
        journal.enter("suspend", suspensions.begin, olga)
    assert refusal(yard) == ("operator_only", "olga is suspended | another operator may do it")
    with writing(yard.fleet(), "resume") as journal:
        journal.enter("resume", suspensions.end, olga, "found")
    say(yard)


def test_an_older_word_does_not_outlast_a_newer_one(yard: Yard) -> None:
    """An approval from a time to come would go on counting: it is refused, not written beside."""
    say(yard)
    change(yard, memoryGiB=32)
    tomorrow = (utc_now() + timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    document = yaml.safe_load(text(yard))
    document["spec"]["approvals"][0]["at"] = tomorrow
    yard.write(document)
    code, words = refusal(yard)
    assert code == "approval_unsound"
    assert tomorrow in words


def test_what_the_host_shows_otherwise_is_said_and_does_not_decide(yard: Yard) -> None:
    """Rule 7: it is a person's word over identity; placement waits until both agree."""
    change(yard, numa=1)
    yard.plan("--refresh")
    found = say(yard)
    (warned,) = found.problems
    assert warned.code == "approval_contradicted"
    assert "s1" in warned.message
    assert "NUMA 0, approved 1" in warned.message
    assert not warned.is_error
    assert in_force(yard) == {HOST, "s0", "s1"}


def test_no_state_is_needed(yard: Yard) -> None:
    (yard.folder / "state/gpuaas.db").unlink()
    assert say(yard).problems == ()


def test_other_files_may_be_broken_but_not_this_one(yard: Yard) -> None:
    broken = yard.specs / "broken.yaml"
    broken.write_text("kind: [\n")
    say(yard, host_only=True)
    broken.unlink()
    change(yard, cpus="0-3,0-4x")
    code, _ = refusal(yard)
    assert code == "value_pattern"


def test_a_commit_holds_this_file_alone(yard: Yard) -> None:
    (yard.folder / "specs/user/ana.yaml").open("a").write("# mine\n")
    found = say(yard, commit=True)

    def git(*words: str) -> list[str]:
        return subprocess.check_output(["git", "-C", yard.folder, *words], text=True).splitlines()

    shown = git("show", "--format=%H %an %s", "--name-only", "HEAD")
    assert shown == [f"{found.commit} olga Approve gpu01: host, s0, s1", "", FILE]
    assert git("status", "--porcelain", "specs") == [" M specs/user/ana.yaml"]
