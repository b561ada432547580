"""Files of an ended allocation, given to another one by an operator's word, on hosts of folders.

The accounts are those that a host would have, written where its folder keeps them.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from reconciler.model.problem import ProblemError
from reconciler.model.state.reopening import ReopenRequest
from reconciler.operations.signals import Interrupts
from reconciler.operations.storage import reopen as storage_reopen
from reconciler.operations.storage import reopen_call
from tests.harness.crash import kill
from tests.harness.spoilt_files import unguarded
from tests.harness.yard import Said, Yard, copy_of, laid
from tests.operations.node.test_approve import be
from tests.operations.storage.test_storage import CLASS, DATA, VISION, having
from tests.planner import fleet as paper
from tests.privileges import giving_away, needs

pytestmark = [pytest.mark.walk, needs(giving_away)]

OLD_UID, UID, OTHER_UID = 21_001, 21_002, 21_003
TRAIN, NEXT = having("train"), having("next")
REF = "allocation/vision/next"


@pytest.fixture(scope="module")
def laid_out(tmp_path_factory: pytest.TempPathFactory) -> Yard:
    """A storage that one allocation had, and the next one has; not to be changed."""
    yard = laid(tmp_path_factory.mktemp("reopened"), {"gpu01": 2}, CLASS, VISION, DATA, TRAIN)
    assert yard.apply().code == 0
    yard.remove(TRAIN)
    assert yard.apply().code == 0
    yard.write(NEXT)
    yard.commit()
    assert yard.apply().code == 0
    return yard


@pytest.fixture
def bare(laid_out: Yard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Yard:
    """Without accounts, so that it can be applied."""
    be("olga", monkeypatch)
    return copy_of(laid_out, tmp_path)


@pytest.fixture
def yard(bare: Yard) -> Yard:
    give_uids(bare)
    return bare


@pytest.fixture
def file(bare: Yard) -> Path:
    """What was closed to all but its author; a colleague's lies beside it."""
    put(bare, "theirs", OTHER_UID)
    return put(bare, "secret", OLD_UID)


def give_uids(yard: Yard) -> None:
    """As if its host isolated by accounts."""
    with closing(sqlite3.connect(yard.folder / "state/gpuaas.db", isolation_level=None)) as state:
        for name, uid in (("train", OLD_UID), ("next", UID)):
            ref = f"allocation/vision/{name}"
            query = "SELECT allocation_id, login FROM login WHERE ref = ?"
            id, login = state.execute(query, (ref,)).fetchone()
            state.execute("INSERT INTO posix_id VALUES ('uid', ?, ?, 't', '')", (uid, id))
    etc = yard.root("gpu01") / "etc"
    line = f"{login}:x:{UID}:5000:gpuaas {id}:/home/{login}:/bin/bash\n"
    (etc / "passwd").write_text(f"root:x:0:0:root:/root:/bin/bash\n{line}")
    (etc / "shadow").write_text("")
    (etc / "group").write_text("root:x:0:\n")


def let_go(yard: Yard) -> int:
    """Nobody has the storage any more."""
    with unguarded(yard.folder, "attachment") as state:
        state.execute("UPDATE attachment SET ended = 't', step = 'x', run = 'y' WHERE ended = ''")
    return 0


def put(yard: Yard, name: str, uid: int) -> Path:
    (data,) = (yard.root("gpu01") / "srv/volumes").glob("*/data")
    path = data / name
    path.write_text("x")
    path.chmod(0o600)
    os.chown(path, uid, 5000)
    return path


def reopen(yard: Yard, *words: str, old: str = "vision/train", new: str = "vision/next") -> Said:
    given = ("--from", old, "--to", new, "--reason", "ana's own", "--yes")
    return yard.gpuaas("storage", "reopen", "vision/data", *given, *words)


def words_of(yard: Yard) -> list[str]:
    events = yard.gpuaas("events", "storage/vision/data").document["result"]
    return [one["type"] for one in events if one["type"].startswith("reopen")]


def id_of(yard: Yard, uid: int) -> str:
    ((id,),) = yard.rows(f"SELECT owner FROM posix_id WHERE number = {uid}")
    return str(id)


def test_what_somebody_wrote_is_theirs_again(yard: Yard, file: Path) -> None:
    """F-REAL-11: by a word that is kept with its reason; nobody else's file opens by it."""
    serial = yard.world.serial
    said = reopen(yard)
    assert said.code == 0, said.messages
    assert yard.world.serial == serial, "no plan is another one by it"
    found = said.document["result"]
    assert (found["changed"], found["left"], found["whole"]) == (1, "", True)
    assert (found["actor"], found["reopening"]["toOthers"]) == ("olga", False)
    assert found["reopening"]["old"]["people"] == ["ana"]
    assert (file.stat().st_uid, file.with_name("theirs").stat().st_uid) == (UID, OTHER_UID)
    assert file.stat().st_mode & 0o777 == 0o600
    assert words_of(yard) == ["reopening", "reopened"]
    (row,) = yard.rows("SELECT from_id, from_uid, to_id, to_uid, reason FROM reopening")
    assert row == (id_of(yard, OLD_UID), OLD_UID, id_of(yard, UID), UID, "ana's own")
    assert yard.gpuaas("state", "check").code == 0
    again = reopen(yard, old=id_of(yard, OLD_UID), new=id_of(yard, UID))
    assert (again.code, again.document["result"]["changed"]) == (0, 0)


def test_the_page_of_a_storage_says_how(yard: Yard) -> None:
    told = yard.gpuaas("timeline", "storage/vision/data")
    assert told.code == 0
    reopen(yard)
    operations = yard.gpuaas("timeline", "storage/vision/data").document["result"]["operations"]
    assert "reopen" in [one["name"] for one in operations]


class TestRefused:
    """F-REAL-11: no file is touched, and nothing is on the books."""

    def refused(self, yard: Yard, file: Path, code: str, *words: str, **named: str) -> Said:
        said = reopen(yard, *words, **named)
        assert (said.code, said.problems) == (1, [code]), said.messages
        assert file.stat().st_uid == OLD_UID and words_of(yard) == []
        return said

    def test_of_another_person(self, bare: Yard, file: Path) -> None:
        """Who gets it is another one's; an operator may say so all the same."""
        yard = bare
        yard.write({**NEXT, "spec": {**NEXT["spec"], "owner": "bo", "access": ["bo"]}})
        assert yard.apply().code == 0
        give_uids(yard)
        said = self.refused(yard, file, "reopen_refused")
        assert "owned by ana" in said.messages and "by bo" in said.messages
        assert "--to-others" in said.messages
        opened = reopen(yard, "--to-others")
        assert opened.code == 0 and opened.document["result"]["reopening"]["toOthers"] is True
        assert file.stat().st_uid == UID

    def test_of_more_than_one_person(self, yard: Yard, file: Path) -> None:
        """Who owned it before left files in there as well."""
        old = id_of(yard, OLD_UID)
        with closing(sqlite3.connect(yard.folder / "state/gpuaas.db")) as state, state:
            state.execute("INSERT INTO allocation_person VALUES (?, 'bo', 't')", (old,))
        assert "ana, bo" in self.refused(yard, file, "reopen_refused").messages

    def test_of_people_whom_nobody_knows(self, yard: Yard, file: Path) -> None:
        """Unknown is not nobody."""
        with unguarded(yard.folder, "allocation_person") as state:
            state.execute("DELETE FROM allocation_person")
        assert "--to-others" in self.refused(yard, file, "reopen_refused").messages

    def test_a_uid_that_nobody_knows(self, yard: Yard, file: Path) -> None:
        with unguarded(yard.folder, "posix_id") as state:
            state.execute("DELETE FROM posix_id WHERE number = ?", (OLD_UID,))
        self.refused(yard, file, "reopen_refused", "--to-others")

    def test_of_one_that_lives(self, yard: Yard, file: Path) -> None:
        """By a slot that is not freed, or by the storage that it may still have."""
        with unguarded(yard.folder, "claim") as state:
            state.execute(
                "UPDATE claim SET state = 'releasing', freed_at = NULL, proof = NULL,"
                " node = 'gpu02' WHERE ref = 'allocation/vision/train'"
            )
        assert "has not ended" in self.refused(yard, file, "reopen_refused").messages
        self.refused(yard, file, "reopen_refused", old="vision/next")

    def test_to_one_that_does_not_have_it(self, yard: Yard, file: Path) -> None:
        let_go(yard)
        self.refused(yard, file, "reopen_refused")

    def test_names_of_nothing(self, yard: Yard, file: Path) -> None:
        self.refused(yard, file, "not_found", old="vision/trian")
        self.refused(yard, file, "not_found", old="nlp/train")
        self.refused(yard, file, "reopen_refused", new="vision/nxt")
        blank = yard.gpuaas(
            *("storage", "reopen", "vision/data", "--from", "a", "--to", "b", "--reason", " ")
        )
        assert blank.problems == ["usage"]

    def test_without_a_yes(self, yard: Yard, file: Path) -> None:
        words = ("--from", "vision/train", "--to", "vision/next", "--reason", "x")
        said = yard.gpuaas("storage", "reopen", "vision/data", *words)
        assert said.problems == ["nobody_to_ask"] and words_of(yard) == []

    def test_by_nobody_but_an_operator(
        self, yard: Yard, file: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        be("bo", monkeypatch)
        assert reopen(yard).problems[0] in ("operator_only", "person_unknown")
        assert file.stat().st_uid == OLD_UID

    def test_what_changes_while_somebody_is_asked(self, yard: Yard, file: Path) -> None:
        wish = ReopenRequest(
            storage="vision/data", old="vision/train", new="vision/next", reason="x"
        )

        def ask(_: Any) -> bool:
            return let_go(yard) == 0

        with pytest.raises(ProblemError) as raised:
            storage_reopen.reopen(yard.fleet(), wish, ask, lambda _: None, Interrupts())
        assert [problem.code for problem in raised.value.problems] == ["reopen_refused"]
        assert words_of(yard) == []
        assert file.stat().st_uid == OLD_UID


class TestHosts:
    def test_one_that_does_not_answer_holds_up_nobody(self, yard: Yard, file: Path) -> None:
        """F-REAL-11: it is begun, and not done; it goes on when it is said again."""
        root = yard.root("gpu01")
        root.rename(root.with_name("gone"))
        said = reopen(yard)
        assert said.code == 1 and said.problems == ["host_unreachable"], said.messages
        assert words_of(yard) == ["reopening"]
        root.with_name("gone").rename(root)
        assert reopen(yard).code == 0 and file.stat().st_uid == UID

    def test_one_that_knows_better(self, yard: Yard, file: Path) -> None:
        """F-REAL-11: the old one's descriptor is there, whatever this state says."""
        descriptor = yard.root("gpu01") / f"etc/gpuaas/allocations/{id_of(yard, OLD_UID)}.json"
        descriptor.write_text("{}")
        assert reopen(yard).problems == ["storage_in_use"]
        assert file.stat().st_uid == OLD_UID

    @pytest.mark.parametrize("said", ["", "all", "all -1", "whole 3", "all 3\nmore 4", "9" * 30])
    def test_one_that_talks_nonsense(
        self, yard: Yard, said: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        answers(monkeypatch, said)
        assert reopen(yard).problems == ["reopen_unfinished"]
        assert words_of(yard) == ["reopening"]


def answers(monkeypatch: pytest.MonkeyPatch, *said: str) -> list[bool]:
    """A host that says this, call by call; whether somebody else could have had the lock."""
    left, calls = list(said), list[bool]()

    def call(works: Any, options: Any, on_progress: Any, stop: Any) -> Any:
        (step,) = works[0].steps
        calls.append(True)
        receipt = reopen_call.Receipt(
            step=step.id,
            node=step.node,
            verb=step.verb,
            ok=True,
            evidence={"reopened": left.pop(0), "left": "1 a device: x\x1b[31m"},
        )
        return (receipt,)

    monkeypatch.setattr(reopen_call, "run_wave", call)
    monkeypatch.setattr(storage_reopen, "REST_SECONDS", 0.0)
    return calls


def test_it_goes_on_until_all_is_looked_at(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    """F-REAL-11: one word, however many calls; each has had another look at who has what."""
    calls = answers(monkeypatch, "more 5", "more 9", "all 12")
    found = reopen(yard).document["result"]
    assert (found["changed"], found["left"], len(calls)) == (12, "1 a device: x [31m", 3)
    assert words_of(yard) == ["reopening", "reopened"]


def test_two_who_ask_for_the_same_hold_up_each_other_by_no_more_than_a_call(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-REAL-11: the host counts anew where the other one has come to the end."""
    calls = answers(monkeypatch, "more 5", "all 9", "all 0")
    others = []

    def rest(_: float) -> None:
        others.append(reopen(yard))

    monkeypatch.setattr(storage_reopen, "time", type("Clock", (), {"sleep": staticmethod(rest)}))
    found = reopen(yard).document["result"]
    assert (found["changed"], found["whole"], len(calls)) == (5, True, 3)
    assert [one.document["result"]["changed"] for one in others] == [9]


def test_the_lock_is_given_back_between_calls(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    """F-REAL-11 F-REAL-24: who has to write meanwhile does; what that has ended ends it."""
    answers(monkeypatch, "more 5", "all 9")
    wrote = []

    def rest(_: float) -> None:
        wrote.append(yard.gpuaas("suspend", "user/bo", "--reason", "x").code)
        let_go(yard)

    monkeypatch.setattr(storage_reopen, "time", type("Clock", (), {"sleep": staticmethod(rest)}))
    said = reopen(yard)
    assert wrote == [0]
    assert said.problems == ["reopen_refused", "reopen_unfinished"], said.messages
    assert said.document["result"]["changed"] == 5


def test_an_end_that_is_asked_for_comes_after_the_call(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-REAL-11: and says that it is not finished."""
    calls = answers(monkeypatch, "more 5", "all 9")
    interrupts = Interrupts()
    wish = ReopenRequest(storage="vision/data", old="vision/train", new="vision/next", reason="x")

    def on_progress(_: Any) -> None:
        interrupts._count = 1

    monkeypatch.setattr(storage_reopen, "REST_SECONDS", 0.0)
    found = storage_reopen.reopen(yard.fleet(), wish, lambda _: True, on_progress, interrupts)
    assert len(calls) == 2 and found.whole is True

    calls = answers(monkeypatch, "more 5", "all 9")
    interrupts._count = 1
    found = storage_reopen.reopen(yard.fleet(), wish, lambda _: True, on_progress, interrupts)
    assert (len(calls), found.interrupted, found.whole) == (1, True, False)
    assert [problem.code for problem in found.problems] == ["reopen_unfinished"]


@pytest.mark.parametrize(
    ("stop", "told"),
    [
        ("reopen.before", []),
        ("reopen.after", ["reopening"]),
        ("play.before", ["reopening"]),
        ("play.during", ["reopening"]),
        ("play.after", ["reopening"]),
        ("reopened.before", ["reopening"]),
        ("reopened.after", ["reopening", "reopened"]),
    ],
)
def test_a_kill_at_any_moment_is_made_good_by_saying_it_again(
    yard: Yard, file: Path, stop: str, told: list[str]
) -> None:
    """F-REAL-11 F-STA-01: nobody is left with a word that was not written down before."""
    word = ("storage", "reopen", "vision/data", "--from", "vision/train", "--to", "vision/next")
    kill(yard, (*word, "--reason", "ana's own", "--yes"), stop)
    assert words_of(yard) == told
    assert told or file.stat().st_uid == OLD_UID
    assert reopen(yard, "--lock-timeout=60s").code == 0
    assert file.stat().st_uid == UID
    assert yard.gpuaas("state", "check").code == 0


def test_whose_it_was_is_known_before_its_host_is_touched(bare: Yard) -> None:
    """F-REAL-11: whoever owned it for a moment may have written files in it."""
    yard = bare
    yard.write({**NEXT, "spec": {**NEXT["spec"], "owner": "bo", "access": ["bo"]}})
    kill(yard, ("apply", "--auto-approve=destroys"), "begin_wave.after")
    query = (
        "SELECT person FROM allocation_person JOIN resource ON id = allocation_id"
        f" WHERE ref = '{REF}' ORDER BY person"
    )
    assert yard.rows(query) == [("ana",), ("bo",)]


@pytest.mark.parametrize("by_grant", [False, True])
def test_where_others_may_log_in_they_are_named_and_agreed_to(bare: Yard, by_grant: bool) -> None:
    """F-REAL-11: all who log in to an allocation are one account there, so it opens to all."""
    if by_grant:
        bare.write(NEXT, paper.grant("bo-on-next", "next", "bo", expiresAt="none"))
    else:
        bare.write({**NEXT, "spec": {**NEXT["spec"], "access": ["bo"]}})
    bare.commit()
    assert bare.apply().code == 0
    give_uids(bare)
    secret = put(bare, "secret", OLD_UID)
    refused = reopen(bare)
    assert (refused.code, refused.problems) == (1, ["reopen_refused"])
    assert "open to ana, bo" in refused.messages and secret.stat().st_uid == OLD_UID
    assert reopen(bare, "--to-others").code == 0
    assert secret.stat().st_uid == UID
