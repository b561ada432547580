"""Durable data on folders that stand for hosts: what it outlives, and what it takes to lose it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from reconciler.model.ref import parse_ref
from reconciler.model.state.volume import VolumeState
from tests.harness.spoilt_files import unchangeable, unguarded
from tests.harness.yard import SIZES, Said, Yard, copy_of, laid
from tests.operations.state.test_rebuild import WHY, lose, rebuild
from tests.planner import fleet as paper

pytestmark = pytest.mark.walk

PLACE = "/srv/volumes"
TRAIN, EVAL, DATA = "allocation/vision/train", "allocation/vision/eval", "storage/vision/data"


def document(**changes: Any) -> dict[str, Any]:
    return paper.storage("data", "local", **{"protect": False, **changes})


def using(name: str, *storage: str, **changes: Any) -> dict[str, Any]:
    named = [{"name": one, "mountPath": f"/data/{one}", "mode": "rw"} for one in storage]
    return paper.allocation(name, **{"storage": named, **changes})


@pytest.fixture(scope="module")
def attached(tmp_path_factory: pytest.TempPathFactory) -> Yard:
    """One of two allocations has the storage, and has left something on it."""
    skus = [*(f"slice-{size}" for size in SIZES), "whole"]
    entitled = {"skus": skus, "storageClasses": ["local", "disk"]}
    yard = laid(
        tmp_path_factory.mktemp("durable"),
        {"gpu01": 2, "gpu02": 2},
        paper.project(
            "vision",
            "ana",
            "bo",
            entitlements=entitled,
            quota={"gpus": 8, "storageGiB": 10},
        ),
        paper.storage_class("local", directory={"path": PLACE}),
        paper.storage_class("disk", loop={"path": "/srv/disks"}),
        document(),
        using("train", "data", node="gpu01"),
        using("eval"),
    )
    done(yard.apply())
    (data(yard, TRAIN) / "log").write_text("one")
    return yard


@pytest.fixture
def yard(attached: Yard, tmp_path: Path) -> Yard:

    return copy_of(attached, tmp_path / "yard")


def done(said: Said, code: int = 0) -> Said:
    assert said.code == code, said.messages or said.blocked
    return said


def data(yard: Yard, ref: str, storage: str = "data") -> Path:
    """The storage as its tenant has it."""
    one = yard.recorded(ref)
    return yard.root(one.node) / "gpuaas" / one.id / storage


def held_by(yard: Yard) -> dict[str, list[str]]:
    """Who has each storage, as the books say."""
    found: dict[str, list[str]] = {str(ref): [] for ref in yard.world.volumes}
    for one in yard.world.attachments:
        found[str(one.storage)].append(str(one.ref))
    return found


def lies_at(yard: Yard) -> Path:
    """The volume's own folder on its host."""
    (one,) = yard.world.volumes.values()
    return yard.root(one.node) / PLACE.strip("/") / one.id


def put(yard: Yard, *documents: dict[str, Any], but: tuple[dict[str, Any], ...] = ()) -> Said:
    yard.write(*documents)
    yard.remove(*but)
    yard.commit()
    return yard.apply()


class TestWhatItOutlives:
    """F-STO-03: data goes with nobody and nothing but its own word."""

    def test_its_allocation_and_its_document(self, yard: Yard) -> None:
        """STO-01 STO-07 OBJ-03: both removed in one commit; a document of its name has it again."""
        refused = put(yard, but=(using("train"), document()))
        assert (refused.code, refused.blocked) == (3, {DATA: "storage_in_use"})
        assert TRAIN in refused.change(DATA)["problem"]["message"]
        assert done(yard.apply()).actions == {DATA: "forget"}
        kept = yard.world.volumes[parse_ref(DATA)]
        assert (kept.state, kept.owner) == (VolumeState.KEPT, "ana")
        assert done(yard.plan("--detailed-exitcode")).actions == {}

        back = done(put(yard, document(), using("eval", "data")))
        assert back.actions == {DATA: "adopt", EVAL: "change"}
        assert (data(yard, EVAL) / "log").read_text() == "one"
        assert yard.world.volumes[parse_ref(DATA)].id == kept.id

    def test_its_project(self, yard: Yard) -> None:
        """The whole folder is gone: the allocation ends, the data does not, nor does its number."""
        for one in ("allocation", "storage"):
            shutil.rmtree(yard.specs / one / "vision")
        (yard.specs / "project/vision.yaml").unlink()
        yard.commit()
        while yard.apply().document["result"]["done"]:
            pass
        assert (lies_at(yard) / "data/log").read_text() == "one"
        assert yard.world.volumes[parse_ref(DATA)].state is VolumeState.KEPT
        assert yard.plan().blocked == {"project/vision": "in_use"}

    def test_its_name(self, yard: Yard) -> None:
        """STO-03: under another name it is the same data, for whoever names it so."""
        renamed = {**document(), "metadata": {**document()["metadata"], "name": "sets"}}
        renamed["metadata"]["formerName"] = "data"
        first = put(yard, renamed, using("train", "sets", node="gpu01"), but=(document(),))
        assert first.code == 0, first.blocked
        assert (data(yard, TRAIN, "sets") / "log").read_text() == "one"
        assert not data(yard, TRAIN).is_symlink(), "its old place is gone"
        assert list(held_by(yard)) == ["storage/vision/sets"]


class TestDeleting:
    """F-STO-07: a step of its own, with a yes of its own, and never under anybody."""

    def test_takes_two_applies_and_a_yes(self, yard: Yard) -> None:
        """STO-07: first that it is to be wiped, then that it is gone; it lists who has it."""
        wiped = document(onDelete="wipe")
        first = put(yard, wiped, using("train", node="gpu01"), but=())
        assert (data(yard, TRAIN)).exists() is False, first.messages
        folder = lies_at(yard)
        yard.remove(wiped)
        yard.commit()
        held = yard.apply("--auto-approve=safe")
        assert (held.code, held.blocked) == (5, {DATA: "held_for_approval"})
        assert "all its data" in yard.plan().change(DATA)["facts"]["lost"]
        assert (folder / "data/log").exists()
        done(yard.apply())
        assert not folder.exists() and yard.world.volumes == {}

    def test_not_while_an_attach_fails(self, yard: Yard) -> None:
        """F-STO-07 F-STO-08: who may have it is told, until their host shows that they have not."""
        blocker = yard.root("gpu01") / "gpuaas" / yard.recorded(EVAL).id
        blocker.write_text("in the way")
        assert put(yard, using("train", node="gpu01"), using("eval", "data")).blocked == {
            EVAL: "writer_conflict"
        }
        assert yard.apply().code == 1 and held_by(yard) == {DATA: [EVAL]}
        refused = put(yard, using("eval"), but=(document(onDelete="wipe"),))
        assert refused.blocked == {DATA: "storage_in_use"}
        blocker.unlink()
        done(yard.apply(), 3)
        assert held_by(yard) == {DATA: []}, "and the next one lets the storage go"
        assert (lies_at(yard) / "data/log").read_text() == "one"


class TestWhoHasIt:
    def test_the_host_refuses_a_second_writer_too(self, yard: Yard) -> None:
        """F-STO-04: on one node, with a state that says of nobody that they have it."""
        with unguarded(yard.folder, "attachment") as state:
            state.execute("DELETE FROM attachment")
        second = put(yard, using("eval", "data"))
        assert (second.code, second.problems) == (1, ["volume_fenced"])
        assert yard.recorded(TRAIN).id in second.messages
        assert not data(yard, EVAL).exists()
        assert (data(yard, TRAIN) / "log").read_text() == "one"

    @pytest.mark.parametrize("tries", [2, pytest.param(20, marks=pytest.mark.slow)])
    def test_a_detach_that_never_ends(self, yard: Yard, tries: int) -> None:
        """F-STO-08 STO-10: each try says why, nobody else gets it, and the first that can, ends."""
        yard.write(using("train", node="gpu01"), using("eval", "data"))
        yard.commit()
        with unchangeable(data(yard, TRAIN).parent):
            for _ in range(tries):
                stuck = yard.apply()
                assert stuck.code == 1 and "not permitted" in stuck.messages
                assert stuck.blocked == {EVAL: "writer_conflict"}
                assert held_by(yard) == {DATA: [TRAIN]}
        done(yard.apply(), 3)
        assert held_by(yard) == {DATA: []}

    def test_nothing_joins_what_is_being_taken_down(self, yard: Yard) -> None:
        """F-PLC-07: a release that is stuck is finished first; nothing of it is on the host."""
        one, more = yard.recorded(EVAL), paper.storage("more", "local", protect=False)
        with unchangeable(yard.root("gpu01") / "home" / one.login):
            assert "cleanup_blocked" in put(yard, but=(using("eval"),)).problems
            asked = put(yard, more, using("eval", "more"))
            assert asked.actions == {EVAL: "release", "storage/vision/more": "create"}
            assert "waits for the end of this" in asked.change(EVAL)["facts"]["joins"]
            assert not (yard.root("gpu01") / "gpuaas" / one.id).exists()
            assert list(held_by(yard)) == [DATA]

    def test_a_folder_mounts_no_disk(self, yard: Yard) -> None:
        """F-STO-04: what a folder that stands for a host cannot do is refused before."""
        disk = paper.storage("scratch", "disk", protect=False)
        refused = put(yard, disk, using("eval", "scratch"), using("more", "scratch"))
        assert refused.blocked == {
            EVAL: "storage_backend_unfit",
            "allocation/vision/more": "sku_unavailable",
        }
        explained = yard.gpuaas("explain", "vision/more").document["result"]["candidates"]
        assert {one["rule"] for one in explained} == {"storage_backend_unfit"}


def test_what_hosts_show_otherwise(yard: Yard) -> None:
    """F-STO-05 F-STO-01: drift of the platform's, put right; data is never made anew."""
    folder, link = lies_at(yard), data(yard, TRAIN)
    record = yard.root("gpu01") / f"etc/gpuaas/volumes/{folder.name}.json"
    having = f"attached {yard.recorded(TRAIN).id}/data"
    (folder / "data/more").write_text("two")
    link.unlink()
    record.write_text("{}")
    yard.plan("--refresh")
    found = {one["key"]: one for one in yard.gpuaas("drift").document["result"]["found"]}
    assert {key: one["kind"] for key, one in found.items()} == {
        having: "platform",
        f"/etc/gpuaas/volumes/{folder.name}.json": "platform",
    }
    assert done(yard.apply()).actions == {TRAIN: "repair"}
    assert (link / "more").read_text() == "two"

    shutil.rmtree(folder / "holders")
    folder.rename(folder.with_name("away"))
    yard.plan("--refresh")
    failed = yard.apply()
    assert (failed.code, failed.problems) == (1, ["volume_missing"])
    assert not folder.exists(), "no empty one is put in its place"
    folder.with_name("away").rename(folder)
    done(yard.apply())
    assert (link / "more").read_text() == "two"


class TestALostState:
    """F-STA-02 rule 21: data comes back with what hosts tell of it, whoever has it or had it."""

    def test_it_comes_back_as_it_was(self, yard: Yard) -> None:
        """F-STO-03 F-STO-04: the same volume, had by the same one; and nothing is to be done."""
        before, hosts = books(yard), yard.hosts()
        lose(yard)
        (row,) = done(rebuild(yard)).document["result"]["volumes"]
        having = [yard.recorded(TRAIN).id]
        assert (row["ref"], row["state"], row["attached"]) == (DATA, "made", having)
        assert (books(yard), yard.hosts()) == (before, hosts)
        assert done(yard.plan("--detailed-exitcode")).actions == {}
        assert yard.gpuaas("state", "check").code == 0
        assert yard.rows("SELECT gib FROM storage_usage WHERE ended = ''") == [(1,)]
        yard.write(using("eval", "data"))
        assert yard.plan().blocked == {EVAL: "writer_conflict"}

    def test_data_that_nobody_has_is_kept(self, yard: Yard) -> None:
        """F-STO-03: with every allocation gone, and its document too, it is all that is found."""
        put(yard, but=(using("train"), using("eval"), document()))
        done(yard.apply())
        lose(yard)
        (row,) = done(rebuild(yard)).document["result"]["volumes"]
        assert (row["state"], row["attached"], yard.claims) == ("kept", [], {})
        done(put(yard, document(), using("train", "data", node="gpu01")))
        assert (data(yard, TRAIN) / "log").read_text() == "one"

    def test_data_on_a_node_that_is_silent(self, yard: Yard) -> None:
        """F-STO-01 F-STO-04: no second volume begins while the first may lie there."""
        words = ("--without", "gpu01", "--state-id", yard.world.state_id, *WHY)
        lose(yard)
        with yard.away("gpu01"):
            assert rebuild(yard, *words).code == 3
            yard.write(using("more", "data", node="gpu02"))
            assert yard.plan().blocked["allocation/vision/more"] == "allocation_may_exist"
        done(rebuild(yard, "--node", "gpu01"))
        assert held_by(yard) == {DATA: [TRAIN]}

    def test_a_record_that_nobody_signed(self, yard: Yard) -> None:
        """Rule 21: it is told, its node takes nobody and nothing is made; a word adopts it."""
        folder = lies_at(yard)
        record = yard.root("gpu01") / f"etc/gpuaas/volumes/{folder.name}.json"
        record.write_text(json.dumps({**json.loads(record.read_text()), "hmac": "x"}))
        lose(yard)
        doubted = rebuild(yard)
        codes = {"descriptor_unverified", "node_in_doubt"}
        assert (doubted.code, set(doubted.problems)) == (3, codes)
        assert "its signature is not ours" in doubted.messages
        yard.write(using("more", "data", node="gpu01"))
        assert yard.plan().code == 3 and yard.world.volumes == {}
        done(rebuild(yard, "--node", "gpu01", "--adopt", f"gpu01/{folder.name}", *WHY))
        assert held_by(yard) == {DATA: [TRAIN]}

    def test_a_copy_that_is_older_than_the_data(self, yard: Yard) -> None:
        """F-STA-02 F-STO-01: its node is in doubt until what it holds was taken in."""
        assert yard.gpuaas("state", "backup", str(yard.folder / "copy.db")).code == 0
        more = paper.storage("more", "local", protect=False)
        done(put(yard, more, using("eval", "more")))
        (data(yard, EVAL, "more") / "log").write_text("two")
        assert yard.gpuaas("state", "restore", str(yard.folder / "copy.db")).code == 0
        yard.apply()
        (told,) = {one.reason for one in yard.world.doubts if one.node == "gpu01"}
        assert told.startswith("data ")
        assert "storage/vision/more" not in held_by(yard)
        done(rebuild(yard, "--node", "gpu01"))
        assert held_by(yard) == {DATA: [TRAIN], "storage/vision/more": [EVAL]}
        done(yard.apply())
        assert (data(yard, EVAL, "more") / "log").read_text() == "two"


def books(yard: Yard) -> list[Any]:
    """What stands on them of data, but for since when."""
    return [
        yard.rows("SELECT id, storage, class, backend, node, size_gib, state FROM volume"),
        yard.rows(
            "SELECT allocation_id, volume, ref, storage, node, mode, access, mount_path"
            " FROM attachment WHERE ended = ''"
        ),
        yard.rows("SELECT ref, normal, digest FROM resource WHERE kind = 'storage'"),
    ]
