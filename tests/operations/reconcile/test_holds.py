"""What waits for somebody while nobody is asked: doctor tells of it, as long as it is so."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from reconciler.model.problem import ProblemError
from reconciler.model.symptom import Diagnosis, Sort
from reconciler.operations.fleet import os_login, utc_now
from reconciler.operations.reconcile import holds
from reconciler.operations.reconcile.loop import LoopOptions, reconcile_once
from reconciler.operations.reconcile.service.signals import LoopSignals
from reconciler.operations.reconcile.source.accept import accept_history
from reconciler.operations.status.doctor import examine
from reconciler.store.cache import SqliteCache
from tests.harness.yard import Yard, copy_of, laid
from tests.operations.reconcile.test_signatures import git, key
from tests.planner import fleet as paper

pytestmark = pytest.mark.walk

HOUR = timedelta(hours=1)
A, B, C, D = (f"allocation/vision/{name}" for name in "abcd")


def made(name: str, **fields: Any) -> dict[str, Any]:
    return paper.allocation(name, expiresAt=paper.LASTING, **fields)


@dataclass
class Watched:
    """A fleet with a loop of single rounds, and hours that pass as a test likes."""

    yard: Yard
    now: datetime

    def round(self, hours: float = 0.02) -> None:
        self.now += timedelta(hours=hours)
        fleet = self.yard.fleet(self.now)
        reconcile_once(LoopOptions(open=lambda: fleet), LoopSignals())

    @property
    def found(self) -> dict[str, Diagnosis]:
        """What doctor says of all this, by code."""
        told = examine(self.yard.fleet(self.now))
        codes = {*holds.CHANGES, *holds.SOURCE, *holds.EMPTY, holds.OVER}
        found = [one for one in told if one.code in codes]
        return {one.code: one for one in found}

    @property
    def sorts(self) -> dict[str, Sort]:
        return {code: one.sort for code, one in self.found.items()}

    def remove(self, *names: str, by: str = "ana") -> None:
        files = [self.yard.file(made(name)) for name in names]
        for file in files:
            file.unlink()
        self.yard._commit(by, *map(str, files))


@pytest.fixture(scope="module")
def settled(tmp_path_factory: pytest.TempPathFactory) -> Yard:
    """Four allocations applied; whoever runs this is Olga. Not to be changed."""
    olga = paper.user("olga", "laptop", "desk", osLogins=[os_login()])
    folder = tmp_path_factory.mktemp("settled")
    yard = laid(folder, {"gpu01": 2, "gpu02": 2}, *map(made, "abcd"), olga)
    assert yard.apply().code == 0
    return yard


@pytest.fixture
def watched(settled: Yard, tmp_path: Path) -> Watched:
    """A copy of it after a first round. Nothing that destroys goes alone."""
    found = Watched(yard=copy_of(settled, tmp_path / "fleet"), now=utc_now())
    found.round()
    assert found.found == {}
    return found


def allow(yard: Yard, **guard: int) -> None:
    more = {"guard": guard} if guard else {}
    yard.write(
        paper.policy(automation={"allow": "destroys"}, grant={"mayBeOpenEnded": True}, **more)
    )
    yard.commit()


def test_a_whole_project_is_an_alarm_until_it_is_back(watched: Watched) -> None:
    allow(watched.yard)
    watched.round()
    watched.remove(*"abcd")
    watched.round()
    first = watched.found["project_guard"]
    assert (first.sort, first.about) == (Sort.ALARM, A)
    assert first.text.endswith(f"held, {A} and 3 more")
    assert first.command == "gpuaas approvals"
    said = watched.yard.gpuaas("doctor")
    assert said.code == 3
    watched.round(3)
    assert watched.found["project_guard"].since == first.since, "since when it is so"
    git(watched.yard.folder, "revert", "--no-edit", "HEAD")
    assert watched.sorts, "nobody has looked since"
    watched.round()
    assert watched.found == {}


def test_too_many_and_a_folder_are_alarms(watched: Watched) -> None:
    allow(watched.yard, maxRemovals=1, maxRemovalPercent=0)
    watched.round()
    watched.remove("a", "b")
    watched.round()
    assert watched.sorts == {"removals_guard": Sort.ALARM}
    git(watched.yard.folder, "revert", "--no-edit", "HEAD")
    watched.round()
    assert watched.found == {}
    allow(watched.yard)
    team = watched.yard.specs / "team"
    team.mkdir()
    for name in "cd":
        file = watched.yard.file(made(name))
        file.rename(team / file.name)
    watched.yard.commit()
    watched.round()
    shutil.rmtree(team)
    watched.yard._commit("ana", "specs")
    watched.round()
    assert watched.sorts == {"folder_guard": Sort.ALARM}
    assert watched.found["folder_guard"].text.endswith(f"held, {C} and 1 more")


def test_an_apply_that_agrees_to_all_raises_the_alarm_too(watched: Watched) -> None:
    """By the plan that is remembered, and once."""
    yard = watched.yard
    yard.write(paper.policy(guard={"maxRemovals": 1, "maxRemovalPercent": 0}))
    yard.commit()
    assert yard.apply().code == 0
    watched.remove("a", "b")
    assert yard.apply().code == 5
    assert [one.code for one in examine(yard.fleet()) if one.sort is Sort.ALARM] == [
        "removals_guard"
    ]


def test_what_the_policy_holds_is_told_after_a_day(watched: Watched) -> None:
    watched.remove("a")
    watched.round()
    assert watched.found == {}
    watched.round(23)
    assert watched.found == {}
    watched.round(2)
    assert watched.sorts == {"held_by_policy": Sort.STUCK}
    assert watched.found["held_by_policy"].about == A


def test_what_was_approved_is_no_alarm_until_that_ran_out(watched: Watched) -> None:
    allow(watched.yard)
    watched.round()
    watched.remove(*"abcd")
    watched.round()
    yard = watched.yard
    listed = yard.gpuaas("approvals").document["result"]
    assert yard.gpuaas("approve", listed["sets"][0]["id"], "--reason", "meant").code == 0
    assert watched.found == {}, "the next round does it"
    # It does not, for no round comes before its end.
    watched.now += 25 * HOUR
    assert watched.sorts["project_guard"] is Sort.ALARM
    over = [one for one in examine(yard.fleet(watched.now)) if one.code == "approval_over"]
    assert [(one.sort, one.about) for one in over] == [(Sort.STUCK, ref) for ref in (A, B, C, D)]


def test_an_approval_that_ran_out_is_told(watched: Watched) -> None:
    watched.remove("a")
    watched.round()
    (one,) = watched.yard.gpuaas("approvals").document["result"]["held"]
    assert watched.yard.gpuaas("approve", one["id"], "--reason", "meant", "--for", "1h").code == 0
    assert watched.found == {}
    watched.round(2)
    assert watched.sorts == {"approval_over": Sort.STUCK}
    told = watched.found["approval_over"]
    assert (told.about, "approved by" in told.text) == (A, True)
    watched.yard.write(made("a"))
    watched.yard.commit()
    watched.round()
    assert watched.found == {}, "nobody wants it any more"


def test_what_somebody_did_by_hand_is_over(watched: Watched) -> None:
    allow(watched.yard)
    watched.round()
    watched.remove(*"abcd")
    watched.round()
    assert watched.sorts == {"project_guard": Sort.ALARM}
    assert watched.yard.apply_at().done
    assert watched.found == {}, "without another round"


def test_a_list_of_what_is_held_brings_it_up_to_date(watched: Watched) -> None:
    allow(watched.yard)
    watched.round()
    watched.remove(*"abcd")
    watched.round()
    git(watched.yard.folder, "revert", "--no-edit", "HEAD")
    assert watched.yard.gpuaas("approvals").code == 0
    assert watched.found == {}


def test_an_empty_source_is_an_alarm(watched: Watched) -> None:
    shutil.rmtree(watched.yard.specs)
    watched.yard.specs.mkdir()
    (watched.yard.specs / "README").write_text("moved away")
    watched.yard._commit("ana", "specs")
    watched.round()
    assert watched.sorts == {"spec_root_empty": Sort.ALARM}
    git(watched.yard.folder, "revert", "--no-edit", "HEAD")
    watched.round()
    assert watched.found == {}


def test_a_rewritten_history_is_an_alarm_while_git_is_away_too(watched: Watched) -> None:
    yard = watched.yard
    first = git(yard.folder, "rev-parse", "HEAD")
    yard.write(paper.project("other"))
    yard.commit()
    watched.round()
    git(yard.folder, "reset", "-q", "--hard", first)
    (yard.specs / "user/ana.yaml").open("a").write("# another line\n")
    yard.commit()
    watched.round()
    assert watched.sorts == {"history_rewritten": Sort.ALARM}
    head = git(yard.folder, "rev-parse", "HEAD")
    assert head[:7] in watched.found["history_rewritten"].text
    since = watched.found["history_rewritten"].since
    (yard.folder / ".git").rename(yard.folder / ".away")
    with pytest.raises(ProblemError):
        watched.round()
    assert watched.found["history_rewritten"].since == since, "unknown is not over"
    (yard.folder / ".away").rename(yard.folder / ".git")
    accept_history(yard.fleet(watched.now), head, "cleaned up")
    watched.round()
    assert watched.found == {}


def test_a_signature_that_is_missing_is_an_alarm(watched: Watched, tmp_path: Path) -> None:
    yard, trusted = watched.yard, key(tmp_path, "olga")
    signers = tmp_path / "signers"
    signers.write_text(f"olga@corp.example {trusted.with_suffix('.pub').read_text()}")
    settings = yard.folder / "gpuaas.yaml"
    settings.write_text(f"{settings.read_text()}loop: {{source: {{allowedSigners: {signers}}}}}\n")
    yard.write(paper.policy(source={"requireSigned": True}, grant={"mayBeOpenEnded": True}))
    yard.commit()
    watched.round()
    (yard.specs / "user/ana.yaml").open("a").write("# another line\n")
    yard.commit()
    watched.round()
    assert watched.sorts == {"commit_unsigned": Sort.ALARM}
    accept_history(yard.fleet(watched.now), git(yard.folder, "rev-parse", "HEAD"), "read it")
    watched.round()
    assert watched.found == {}


def test_what_stays_as_it_is_is_not_written_again(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    put = SqliteCache.put_many

    def noted(self: SqliteCache, space: str, rows: Mapping[str, str]) -> None:
        written.append(space)
        put(self, space, rows)

    monkeypatch.setattr(SqliteCache, "put_many", noted)
    watched.remove("a")
    watched.round()
    assert written.count(holds.SPACE) == 1
    for _ in range(3):
        watched.round(1)
    assert written.count(holds.SPACE) == 1


def test_what_was_kept_and_is_damaged_is_nothing(watched: Watched) -> None:
    fleet = watched.yard.fleet()
    for text in ("", "no json", "[1]", '[{"about": "x"}]', "{}"):
        with fleet.cache() as cache:
            cache.put_many(holds.SPACE, {holds.KEY: text})
        assert watched.found == {}
