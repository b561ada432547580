"""A lost state made again from git and hosts: what is believed, what is doubted, and no more."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from reconciler.model.canonical import canonical
from reconciler.operations.plan.plan import signer
from reconciler.stops import STOP_AT
from tests.harness.applied_fleet import BOX, GRANTS, SOLO
from tests.harness.yard import Said, Yard, card
from tests.planner import fleet as paper

pytestmark = pytest.mark.walk

TRAIN_REF, SOLO_REF, BOX_REF = (
    "allocation/vision/train",
    "allocation/vision/solo",
    "allocation/nlp/box",
)
NODES = {TRAIN_REF: "gpu01", SOLO_REF: "gpu02", BOX_REF: "gpu03"}
FILES = ("gpuaas.db", "gpuaas.db-wal", "gpuaas.db-shm")
WHY = ("--reason", "the disk of the control machine died")


def lose(yard: Yard) -> None:
    """The database alone: folders of runs, cache and lock lie there still."""
    for name in FILES:
        (yard.folder / "state" / name).unlink(missing_ok=True)


def rebuild(yard: Yard, *words: str) -> Said:
    return yard.gpuaas("state", "rebuild", "--yes", *words)


def verdicts(said: Said) -> dict[str, tuple[str, str]]:
    """Place → verdict and why, of everything that was found."""
    found = said.document["result"]["found"]
    return {f"{one['node']}/{one['id']}": (one["verdict"], one["why"]) for one in found}


def doubts(yard: Yard) -> dict[str, str]:
    return {f"{one.node} {one.kind}": one.reason for one in yard.world.doubts}


def place(yard: Yard, ref: str) -> str:
    one = yard.recorded(ref)
    return f"{one.node}/{one.id}"


def descriptor(yard: Yard, where: str) -> Path:
    node, id = where.split("/")
    return yard.root(node) / f"etc/gpuaas/allocations/{id}.json"


def rewrite(yard: Yard, where: str, *, sign: bool = False, **changes: Any) -> None:
    """Other values in a descriptor; with `sign`, by somebody who has the key of this machine."""
    file = descriptor(yard, where)
    told = {**json.loads(file.read_text()), **changes}
    if sign:
        signed = {key: value for key, value in told.items() if key != "hmac"}
        told["hmac"] = signer(yard.fleet())(canonical(signed))
    file.write_text(json.dumps(told))


def recorded(yard: Yard) -> set[tuple[Any, ...]]:
    """All that is recorded, but for when it was applied."""
    columns = (
        'ref, digest, basis, file, "commit", phase, protect, id, login, node, slots, shape, normal,'
        " facts"
    )
    return set(yard.rows(f"SELECT {columns} FROM resource"))


def test_a_lost_state_comes_back_as_it_was(yard: Yard) -> None:
    """Rule 21, F-STA-02: plan refuses and says how; afterwards all is recorded as it was before,
    nothing is to be done, and no host was touched.
    """
    hosts, before, claims = yard.hosts(), recorded(yard), yard.claims
    state_id = yard.world.state_id
    lose(yard)
    refused = yard.plan()
    assert (refused.code, refused.problems) == (1, ["state_missing"])
    assert "gpuaas state rebuild" in refused.messages

    done = rebuild(yard)
    assert done.code == 0, done.document["problems"]
    assert done.document["result"]["stateId"] == state_id == yard.world.state_id
    assert {verdict for verdict, _ in verdicts(done).values()} == {"as_applied"}
    assert (recorded(yard), yard.claims, yard.hosts()) == (before, claims, hosts)
    plan = yard.plan("--detailed-exitcode")
    assert (plan.code, plan.actions) == (0, {})
    assert yard.gpuaas("state", "check").code == 0
    assert doubts(yard) == {}

    types = [row[0] for row in yard.rows("SELECT type FROM event ORDER BY sequence LIMIT 2")]
    assert types == ["state_created", "state_rebuilt"]
    told = yard.rows("SELECT DISTINCT ref, reason FROM event WHERE type = 'claimed'")
    assert dict(told) == {r: f"rebuilt from the descriptor on {n}" for r, n in NODES.items()}
    measured = yard.rows("SELECT ref, after FROM event WHERE type = 'doubt_ended'")
    assert {ref for ref, _ in measured} == {"node/gpu01", "node/gpu02", "node/gpu03"}
    assert all(json.loads(after)["checks"] for _, after in measured)
    assert len(yard.rows("SELECT * FROM usage_record WHERE price_per_gpu_hour <> ''")) == 3


def test_what_is_rebuilt_is_released_and_given_anew(yard: Yard) -> None:
    """Rules 15 and 21: with proof as ever, and nobody gets a number, id or login a second time."""
    id, login = yard.recorded(BOX_REF).id, yard.recorded(BOX_REF).login
    lose(yard)
    assert rebuild(yard).code == 0
    yard.remove(BOX)
    assert yard.apply().code == 0
    assert yard.rows("SELECT passed FROM proof WHERE allocation_id = ?", id) == [(1,)]
    assert not [ref for ref in yard.claims if ref.startswith(BOX_REF)]
    yard.write(BOX)
    yard.commit()
    assert yard.apply().code == 0
    again = yard.recorded(BOX_REF)
    assert again.id != id and again.login != login
    counters = yard.world.counters
    assert (counters.last_uid, counters.last_gid) == (20999, 20999)
    assert yard.plan("--detailed-exitcode").code == 0


def test_nothing_is_written_before_somebody_agrees(yard: Yard) -> None:
    """What was found is shown first; without a terminal and a yes there is still no state."""
    lose(yard)
    asked = yard.gpuaas("state", "rebuild")
    assert (asked.code, asked.problems) == (5, ["nobody_to_ask"])
    assert "vision/train" in asked.told and "as applied" in asked.told
    assert not (yard.folder / "state/gpuaas.db").exists()
    assert yard.plan().problems == ["state_missing"]


def test_nothing_is_rebuilt_over_a_state_or_from_half_of_git(yard: Yard) -> None:
    """F-STA-03, F-REC-02: a state that is there is none that is lost; a broken file may say all."""
    there = rebuild(yard)
    assert (there.code, there.problems) == (1, ["state_exists"])
    lose(yard)
    broken = yard.specs / "allocation/vision/train.yaml"
    text = broken.read_text()
    broken.write_text("a: [")
    assert (rebuild(yard).code, rebuild(yard).problems) == (1, ["yaml_syntax"])
    broken.write_text(text)
    assert rebuild(yard, "--without", "gpu01").problems == ["usage"], "a word needs its reason"
    assert rebuild(yard, "--without", "gpu09", *WHY).problems == ["not_found"]
    assert not (yard.folder / "state/gpuaas.db").exists()


def test_what_lies_beside_a_lost_state_is_kept_and_not_read(yard: Yard) -> None:
    """F-STA-03: the log of the lost database would be taken for that of the new one."""
    (yard.folder / "state/gpuaas.db").unlink()
    log = yard.folder / "state/gpuaas.db-wal"
    log.write_bytes(b"of another life")
    assert rebuild(yard).code == 0
    assert yard.plan("--detailed-exitcode").code == 0
    kept = yard.folder / "state/gpuaas.db.lost-1-wal"
    assert kept.read_bytes() == b"of another life"


def test_hosts_without_an_allocation_make_no_state(before: Yard, tmp_path: Path) -> None:
    """F-STA-02: an empty state is asked for by its own name, whatever was found or not."""
    yard = Yard(shutil.copytree(before.folder, tmp_path / "y", symlinks=True))
    lose(yard)
    refused = rebuild(yard)
    assert (refused.code, refused.problems) == (1, ["nothing_to_rebuild"])
    assert "state init --new" in refused.messages


class TestWhatIsNotBelieved:
    """Rules 3 and 21: it is told with why, holds its host, and is taken in by somebody's word."""

    def test_a_forged_descriptor(self, yard: Yard) -> None:
        """Its host takes nobody, nothing is made that it may be, and adopted it is put right."""
        where = place(yard, SOLO_REF)
        rewrite(yard, where, owner="cem")
        hosts = yard.hosts()
        lose(yard)
        done = rebuild(yard)
        assert (done.code, set(done.problems)) == (3, {"descriptor_unverified", "node_in_doubt"})
        assert verdicts(done)[where] == ("unverified", "its signature is not ours")
        assert len(yard.claims) == 3 and yard.recorded(SOLO_REF) is None
        plan = yard.plan()
        assert (plan.code, plan.blocked) == (3, {SOLO_REF: "allocation_may_exist"})
        assert "gpu02" in plan.change(SOLO_REF)["problem"]["message"]
        assert yard.apply().code == 3, "and no look of an apply makes it true"
        assert yard.hosts() == hosts

        assert rebuild(yard, "--node", "gpu02", "--adopt", where).problems == ["usage"]
        adopted = rebuild(yard, "--node", "gpu02", "--adopt", where, *WHY)
        assert (adopted.code, verdicts(adopted)[where][0]) == (0, "differs")
        (reason,) = yard.rows(
            "SELECT DISTINCT reason FROM event WHERE type = 'claimed' AND ref = ?", SOLO_REF
        )
        assert "its signature is not ours" in reason[0] and WHY[1] in reason[0]
        assert (doubts(yard), yard.hosts()) == ({}, hosts)
        mended = yard.apply()
        assert (mended.code, mended.actions) == (0, {SOLO_REF: "change"})
        assert json.loads(descriptor(yard, where).read_text())["owner"] == "ana"
        assert yard.plan("--detailed-exitcode").code == 0

    def test_without_the_key_nothing_is(self, yard: Yard) -> None:
        """All three are told; their state has to be named, and each has to be adopted."""
        state_id = yard.world.state_id
        places = [place(yard, ref) for ref in NODES]
        (yard.folder / ".gpuaas/descriptor.key").unlink()
        lose(yard)
        unclear = rebuild(yard)
        assert (unclear.code, unclear.problems) == (1, ["state_id_unclear"])
        assert f"{state_id} (unsigned" in unclear.messages
        named = rebuild(yard, "--state-id", state_id, *WHY)
        assert set(verdicts(named).values()) == {("unverified", "there is no key to check it with")}
        assert (yard.claims, yard.plan().blocked) == (
            {},
            dict.fromkeys(NODES, "allocation_may_exist"),
        )
        words = [word for where in places for word in ("--adopt", where)]
        nodes = [word for node in NODES.values() for word in ("--node", node)]
        adopted = rebuild(yard, *nodes, *words, *WHY)
        assert {verdict for verdict, _ in verdicts(adopted).values()} == {"differs"}
        assert yard.plan().problems == ["descriptor_key_missing"]
        assert yard.gpuaas("init").code == 0
        done = yard.apply()
        assert (done.code, set(done.actions.values())) == (0, {"change"})
        assert yard.plan("--detailed-exitcode").code == 0

    @pytest.mark.parametrize(
        ("how", "why"),
        [
            ("no JSON", "unreadable"),
            ("a file of another name", "its file is that of"),
            ("of another host", "it was made for node gpu01"),
            ("a slot of no spec", "slot s9 is not in the spec"),
            ("an account on a folder", "it was not made for isolation directory"),
            ("another version", "of no version that is known"),
        ],
    )
    def test_what_nobody_can_take_in(self, yard: Yard, how: str, why: str) -> None:
        """Signed or not, and whoever says so."""
        where = place(yard, SOLO_REF)
        file = descriptor(yard, where)
        if how == "no JSON":
            file.write_text("{")
        elif how == "a file of another name":
            file.rename(file.with_name("a" * 10 + ".json"))
            where = "gpu02/" + "a" * 10
        elif how == "of another host":
            rewrite(yard, where, sign=True, node="gpu01")
        elif how == "a slot of no spec":
            slots = [{"name": "s9", "uuid": "GPU-x", "pciAddress": "0000:00:00.0"}]
            rewrite(yard, where, sign=True, slots=slots)
        elif how == "an account on a folder":
            rewrite(yard, where, sign=True, uid=20001, gid=20001)
        else:
            rewrite(yard, where, sign=True, version=9)
        lose(yard)
        done = rebuild(yard, "--adopt", where, *WHY)
        assert done.problems == ["descriptor_unverified"]
        assert why in done.messages and not (yard.folder / "state/gpuaas.db").exists()
        done = rebuild(yard)
        assert done.code == 3 and why in verdicts(done)[where][1]
        assert SOLO_REF not in {ref.partition("@")[0] for ref in yard.claims}
        assert yard.plan().blocked == {SOLO_REF: "allocation_may_exist"}

    def test_two_that_claim_the_same_place(self, yard: Yard) -> None:
        """Both are signed, so neither is believed; an adopted one is, and then the other is not."""
        where = place(yard, SOLO_REF)
        other = f"gpu02/{'b' * 10}"
        shutil.copy(descriptor(yard, where), descriptor(yard, other))
        twin = {"id": "b" * 10, "ref": "allocation/vision/twin", "name": "twin"}
        rewrite(yard, other, sign=True, login="twin-bbbb", **twin)
        lose(yard)
        done = rebuild(yard)
        assert verdicts(done)[where] == ("unverified", f"{other} has the same slot s0")
        assert verdicts(done)[other] == ("unverified", f"{where} has the same slot s0")
        assert rebuild(
            yard, "--node", "gpu02", "--adopt", where, "--adopt", other, *WHY
        ).problems == ["descriptor_unverified"]
        adopted = rebuild(yard, "--node", "gpu02", "--adopt", where, *WHY)
        assert [verdicts(adopted)[one][0] for one in (where, other)] == ["as_applied", "unverified"]
        assert yard.claims[f"{SOLO_REF}@gpu02/s0"] == "held"
        assert list(doubts(yard)) == ["gpu02 unproved", "gpu02 unseen"]

    def test_a_descriptor_of_another_state(self, yard: Yard) -> None:
        """Two ids that this machine has signed: people say which; the other one is a stranger."""
        state_id, where = yard.world.state_id, place(yard, SOLO_REF)
        rewrite(yard, where, sign=True, stateId="0123456789abcdef")
        lose(yard)
        unclear = rebuild(yard)
        assert unclear.problems == ["state_id_unclear"]
        assert state_id in unclear.messages and "0123456789abcdef" in unclear.messages
        done = rebuild(yard, "--state-id", state_id, *WHY)
        assert verdicts(done)[where] == ("unverified", "it is of state 0123456789abcdef")
        assert yard.world.state_id == state_id
        explained = yard.gpuaas("explain", SOLO_REF).document["result"]["candidates"]
        assert {one["node"]: one["rule"] for one in explained}["gpu02"] == "foreign_descriptors"


class TestWhatDiffers:
    """It is recorded as its host shows it; the next plan says what would change, and asks."""

    def test_what_git_no_longer_wants(self, yard: Yard) -> None:
        """A release that destroys: nothing of it happens by the rebuild, and it needs consent."""
        id = yard.recorded(BOX_REF).id
        yard.remove(BOX)
        lose(yard)
        done = rebuild(yard)
        assert (done.code, verdicts(done)[f"gpu03/{id}"][0]) == (0, "unwanted")
        assert yard.claims[f"{BOX_REF}@gpu03/*"] == "held"
        plan = yard.plan()
        assert plan.actions == {BOX_REF: "release"}
        assert plan.change(BOX_REF)["risk"] == "destroys"
        assert yard.apply("--auto-approve=safe").code == 5
        # Nobody knows any more what was applied before it was removed: that takes a word.
        done = yard.apply("--uncommitted-removals")
        assert (done.code, yard.plan().actions) == (0, {})
        assert yard.rows("SELECT passed FROM proof WHERE allocation_id = ?", id) == [(1,)]

    def test_what_git_wants_otherwise(self, yard: Yard) -> None:
        """An owner is a change, a SKU or a pin a replacement, a name after a rename its files."""
        yard.remove(BOX, SOLO, *GRANTS)
        yard.write(
            paper.allocation("train", "slice-2", node="gpu01", owner="bo", access=["ana", "bo"]),
            paper.allocation("alone", node="gpu02", protect=True, formerName="solo"),
            paper.allocation("box", "slice-1", "nlp", node="gpu03", owner="bo"),
        )
        yard.commit()
        lose(yard)
        done = rebuild(yard)
        assert {verdict for verdict, _ in verdicts(done).values()} == {"differs"}
        assert yard.plan().actions == {
            TRAIN_REF: "change",
            "allocation/vision/alone": "change",
            BOX_REF: "blocked",
        }
        assert yard.plan().blocked == {BOX_REF: "release_first"}
        assert yard.plan().change(TRAIN_REF)["fields"][0]["path"] == "spec.owner"

    def test_what_was_half_released(self, yard: Yard) -> None:
        """Its descriptor is the last to go: what git still wants of it is made whole."""
        one = yard.recorded(SOLO_REF)
        shutil.rmtree(yard.root("gpu02") / "home" / one.login)
        (yard.root("gpu02") / f"etc/gpuaas/ssh/{one.login}").unlink()
        lose(yard)
        done = rebuild(yard)
        assert (done.code, verdicts(done)[f"gpu02/{one.id}"][0]) == (0, "differs")
        plan = yard.plan()
        assert plan.actions == {SOLO_REF: "change"}
        assert yard.apply().code == 0
        assert (yard.root("gpu02") / "home" / one.login).is_dir()
        assert yard.plan("--detailed-exitcode").code == 0

    def test_what_a_plan_would_refuse_is_not_in_force(self, yard: Yard) -> None:
        """GRT: a grant that was never given does not come into force by a rebuild."""
        yard.write(paper.grant("dana-on-box", "box", "ana", "nlp", expiresAt="none"))
        yard.commit("ana")
        refused = yard.plan().blocked
        assert refused == {"grant/nlp/dana-on-box": "role_cannot_grant"}
        lose(yard)
        assert rebuild(yard).code == 0
        assert yard.plan().blocked == refused
        assert yard.plan().actions.keys() == refused.keys()


class TestWhatIsNotSeen:
    def test_a_node_that_does_not_answer(self, yard: Yard) -> None:
        """F-STA-02, F-REC-03: it may hold anything, so nothing is made that it may hold."""
        lose(yard)
        with yard.away("gpu01"):
            refused = rebuild(yard)
            assert (refused.code, refused.problems) == (1, ["rebuild_incomplete"])
            assert "gpu01" in refused.messages and "--without" in refused.messages
            done = rebuild(yard, "--without", "gpu01", *WHY)
            assert (done.code, done.problems) == (3, ["node_in_doubt"])
            plan = yard.plan()
            assert (plan.code, plan.blocked) == (3, {TRAIN_REF: "allocation_may_exist"})
            assert yard.plan().plan["figures"]["silent"]["gpu01"]
            yard.write(paper.allocation("more"))
            assert yard.apply().blocked["allocation/vision/more"] == "allocation_may_exist"
            yard.remove(paper.allocation("more"))
        hosts = yard.hosts()
        assert yard.apply().blocked == {TRAIN_REF: "allocation_may_exist"}, "seen, not taken in"
        taken = rebuild(yard, "--node", "gpu01")
        assert (taken.code, len(verdicts(taken))) == (0, 1)
        assert (doubts(yard), yard.hosts()) == ({}, hosts)
        plan = yard.plan("--detailed-exitcode")
        assert (plan.code, plan.actions) == (0, {})

    def test_a_node_that_never_comes_back(self, yard: Yard) -> None:
        """Rule 10: somebody's word, with a reason; and it is given to nobody before it is clean."""
        lose(yard)
        with yard.away("gpu01"):
            assert rebuild(yard, "--without", "gpu01", *WHY).code == 3
            assert yard.gpuaas("state", "rebuild", "--gone", "gpu01").problems == ["usage"]
            wrong = yard.gpuaas("state", "rebuild", "--gone", "gpu02", *WHY)
            assert wrong.problems == ["not_found"]
            assert yard.gpuaas("state", "rebuild", "--gone", "gpu01", *WHY).code == 0
            assert yard.plan().blocked == {TRAIN_REF: "sku_unavailable"}, "it is pinned there"
            (said,) = yard.rows(
                "SELECT reason FROM event WHERE type = 'doubt_ended' AND reason <> ''"
            )
            assert WHY[1] in said[0]
        assert list(doubts(yard)) == ["gpu01 unproved"]
        assert yard.apply().blocked == {TRAIN_REF: "sku_unavailable"}
        assert "paths" in doubts(yard)["gpu01 unproved"]

    def test_what_is_free_is_given_out_once_it_was_seen_to_be_clean(self, yard: Yard) -> None:
        """F-PLC-04, F-PLC-05: a slot that waited for its proof was forgotten with the state."""
        left = yard.root("gpu02") / "home/gone-abcd"
        left.mkdir()
        (yard.root("gpu02") / "home/olga").mkdir()
        lose(yard)
        done = rebuild(yard)
        assert (done.code, done.problems) == (3, ["node_in_doubt"])
        assert doubts(yard) == {"gpu02 unproved": "paths /home/gone-abcd"}
        assert yard.plan().actions == {}, "what is there is none of its business"
        yard.write(paper.allocation("next", node="gpu02"))
        yard.commit()
        blocked = yard.apply()
        assert (blocked.code, blocked.blocked) == (3, {"allocation/vision/next": "sku_unavailable"})
        explained = yard.gpuaas("explain", "allocation/vision/next").document["result"]
        rules = {one["node"]: (one["rule"], one["detail"]) for one in explained["candidates"]}
        assert rules["gpu02"] == ("node_in_doubt", "paths /home/gone-abcd")
        assert "in doubt" in str(yard.gpuaas("status").document["result"]["needsYou"])

        left.rmdir()
        assert yard.apply().code == 0, "every look of an apply tries again"
        assert yard.claims["allocation/vision/next@gpu02/s1"] == "held"
        assert doubts(yard) == {}

    def test_a_card_in_use_is_not_free(self, yard: Yard) -> None:
        """F-PLC-04: somebody computes on it whom the lost state may have known."""
        apps = yard.root("gpu02") / "etc/gpuaas-standin/apps.csv"
        quiet = apps.read_text()
        apps.write_text(f"{quiet}{card('gpu02', 1)}, 4711, python\n")
        lose(yard)
        assert rebuild(yard).code == 3
        assert doubts(yard) == {"gpu02 unproved": "card of s1 processes 4711"}
        apps.write_text(quiet)
        assert yard.plan("--refresh").code == 0
        assert doubts(yard) == {}


REBUILD = """
import sys
from reconciler.cli.main import run
sys.exit(run(["-C", sys.argv[1], "state", "rebuild", "--yes"]))
"""


@pytest.mark.parametrize(
    ("stop", "made"),
    [
        ("look.during", False),
        ("create.before", False),
        ("rebuild.before", False),
        ("rebuild.after", False),
        ("rebuilt.before", False),
        ("rebuilt.after", True),
    ],
)
def test_it_is_whole_or_not_at_all(
    yard: Yard, monkeypatch: pytest.MonkeyPatch, stop: str, made: bool
) -> None:
    """F-STA-05, F-STA-07: killed anywhere, there is the state or none, and then a new try."""
    hosts, before = yard.hosts(), recorded(yard)
    lose(yard)
    monkeypatch.setenv(STOP_AT, stop)
    killed = yard.python(REBUILD)
    killed.communicate(timeout=60)
    assert killed.returncode == -signal.SIGKILL
    monkeypatch.delenv(STOP_AT)
    assert (yard.folder / "state/gpuaas.db").exists() is made
    if not made:
        assert yard.plan().problems == ["state_missing"]
        assert rebuild(yard).code == 0
    assert (recorded(yard), yard.hosts()) == (before, hosts)
    assert yard.gpuaas("state", "check").code == 0
    assert yard.plan("--detailed-exitcode").code == 0
    assert not list((yard.folder / "state").glob("rebuilding/*"))


@pytest.mark.parametrize("stop", ["judge_doubts.before", "judge_doubts.after"])
def test_a_doubt_ends_once(yard: Yard, monkeypatch: pytest.MonkeyPatch, stop: str) -> None:
    """F-STA-07: killed while its end is written, the next apply looks again, or need not."""
    left = yard.root("gpu02") / "home/gone-abcd"
    left.mkdir()
    lose(yard)
    assert rebuild(yard).code == 3
    left.rmdir()
    monkeypatch.setenv(STOP_AT, stop)
    killed = yard.python(REBUILD.replace('"state", "rebuild", "--yes"', '"apply"'))
    killed.communicate(timeout=60)
    assert killed.returncode == -signal.SIGKILL
    monkeypatch.delenv(STOP_AT)
    assert (doubts(yard) == {}) is (stop == "judge_doubts.after")
    assert yard.apply().code == 0
    assert doubts(yard) == {}
    ended = "SELECT count(*) FROM event WHERE type = 'doubt_ended' AND ref = 'node/gpu02'"
    assert yard.rows(ended + " AND json_extract(after, '$.kind') = 'unproved'") == [(1,)]
    assert yard.gpuaas("state", "check").code == 0
