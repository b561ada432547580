"""Allocation and its storage on a whole host: texts, places and facts, one with the host's own."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from playbooks.module_utils.gpuaas import mount_places, systemd_mounts, volumes
from reconciler.hosts.verbs import check_item
from reconciler.kinds.allocation import allocation as kind
from reconciler.kinds.allocation.storage import real_path
from reconciler.kinds.contract import Binding, Context
from reconciler.model.codec import encode
from reconciler.model.host.facts.attached_fact import attached_key as fact_of
from reconciler.model.plan.plan import Step
from reconciler.model.ref import Ref
from reconciler.model.state.volume import Attachment, Volume, VolumeState
from reconciler.model.state.world import Recorded
from tests.kinds.allocation.test_allocation import ID, LOGIN, TRAIN, binding, context
from tests.planner import fleet
from tests.planner.fleet import allocation, base_fleet, desired, storage

DATA, VOLUME = Ref("storage", "vision", "my-data"), "zyxwvutsrq"
BACKENDS: dict[str, Any] = {
    "directory": {"path": "/srv/volumes", "shared": False},
    "loop": {"path": "/srv/disks", "filesystem": "xfs"},
    "nfs": {"server": "nas1", "export": "/export/x", "options": ["hard", "nconnect=8"]},
}


def given(
    backend: str, uid: int = 20000, mode: str = "rw", path: str = "/data/my-data", **changes: Any
) -> tuple[Binding, Context]:
    """One storage of this backend, named by an allocation on an account node, or on a folder."""
    named = [{"name": "my-data", "mode": mode, "mountPath": path}]
    of = desired([*base_fleet(), storage("my-data"), allocation("train", storage=named)])
    known = {"class_name": "local", "backend": {backend: BACKENDS[backend]}, **changes}
    volume = Volume(id=VOLUME, ref=DATA, **known)
    one = replace(binding(of.resources[TRAIN]), uid=uid, gid=20001 if uid else 0)
    return one, context(of, volumes={DATA: volume})


def step_of(steps: tuple[Step, ...], verb: str) -> Step:
    (found,) = [step for step in steps if step.verb == verb]
    return found


def attaching(backend: str, **changes: Any) -> tuple[Step, dict[str, Any]]:
    step = step_of(kind.steps(*given(backend, **changes)), "storage.attach")
    (volume,) = encode(step.item)["volumes"]
    return step, volume


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("path", ["/data", "/data/my-data", "/mnt/a/b_c.d"])
def test_its_units_stand_where_the_host_expects_them(backend: str, path: str) -> None:
    """OBJ-03: three mounts at most, named by their places, and no boot waits for any."""
    step, told = attaching(backend, path=path)
    volume = volumes.volume_of(VOLUME, told["backend"])
    seat = mount_places.Seat(ID, LOGIN, "my-data", path)
    units = {file["path"]: file["content"] for file in told["files"]}
    assert tuple(units) == mount_places.all_units(volume, seat)
    for unit, place in zip(reversed(units), reversed((volume.source, *seat.places)), strict=False):
        text = units[unit]
        assert f"\nWhere={place}\n" in text
        assert volumes.unit_of(place) == unit
        options = re.search("^Options=(.*)$", text, re.MULTILINE)
        assert options is not None
        assert {"nodev", "nosuid", "nofail"} <= set(options[1].split(","))
        assert "\nWantedBy=multi-user.target\n" in text
        assert "Requires=" not in text
        shown = unit.replace("\\", "\\\\")
        assert step.expected[shown].startswith("file 0644 ")
        link = systemd_mounts.link_of(unit).replace("\\", "\\\\")
        assert step.expected[link] == f"link {shown}"
    assert f"\nWhat={volume.data}\n" in units[volumes.unit_of(seat.real)]
    assert f"\nWhat={seat.real}\n" in units[volumes.unit_of(seat.view)]
    assert step.expected[fact_of(ID, "my-data")] == f"{VOLUME} rw at {path}"
    assert real_path(ID, "my-data") == seat.real
    assert check_item("storage.attach", encode(step.item)) is None


@pytest.mark.parametrize(
    ("backend", "what"),
    [
        ("loop", "What=/srv/disks/zyxwvutsrq/disk.img\nType=xfs\nOptions=loop,"),
        ("nfs", "What=nas1:/export/x\nType=nfs\nOptions=nodev,nosuid,nofail,_netdev,hard,"),
    ],
)
def test_what_its_data_lies_on(backend: str, what: str) -> None:
    _, told = attaching(backend)
    assert what in told["files"][0]["content"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_read_only_is_so_at_both_places(backend: str) -> None:
    """STO-04: the mode is the mount's, whatever rights files have."""
    _, told = attaching(backend, mode="ro")
    assert [file["content"].count(",ro\n") for file in told["files"][-2:]] == [1, 1]
    _, told = attaching(backend)
    assert not any(",ro\n" in file["content"] for file in told["files"])


def test_a_folder_that_stands_for_a_host_mounts_nothing() -> None:
    step, told = attaching("directory", uid=None)
    assert told["files"] == []
    assert step.expected.keys() == {f"/etc/gpuaas/volumes/{VOLUME}.json", fact_of(ID, "my-data")}


def test_the_record_is_signed_and_says_whose_it_is() -> None:
    """Rule 21: a state that was lost is made from it, and believes no other."""
    step, told = attaching("directory")
    record = json.loads(told["record"])
    assert record["ref"] == str(DATA)
    assert (record["id"], record["gid"], record["sizeGiB"]) == (VOLUME, 20001, 1)
    assert len(record["hmac"]) == 64
    assert f"/etc/gpuaas/volumes/{VOLUME}.json" in step.expected


@pytest.mark.parametrize(
    ("state", "make"),
    [(VolumeState.PENDING, True), (VolumeState.MADE, False), (VolumeState.KEPT, False)],
)
def test_only_what_is_about_to_be_made_may_be_made(state: VolumeState, make: bool) -> None:
    """F-STO-01: the host is told so, and decides nothing by what it finds."""
    _, told = attaching("loop", state=state)
    assert told["make"] is make


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("last", [True, False])
def test_a_detach_takes_its_units_and_with_the_last_what_data_lies_on(
    backend: str, last: bool
) -> None:
    """STO-03: a neighbour's data is not taken from under them."""
    one, told = given(backend)
    bare = replace(one, resource=fleet.resource(allocation("train")))
    own = Attachment(
        allocation_id=ID,
        volume=VOLUME,
        ref=TRAIN,
        storage=DATA,
        node="gpu01",
        mode="rw",
        access="multi_writer",
        mount_path="/data/my-data",
    )
    beside = () if last else (replace(own, allocation_id="abcdefghik"),)
    told = replace(told, world=replace(told.world, attachments=(own, *beside)))
    step = step_of(kind.steps(bare, told), "storage.detach")
    (item,) = step.item.volumes
    volume = volumes.volume_of(VOLUME, item.backend)
    units = mount_places.all_units(volume, mount_places.Seat(ID, LOGIN, "my-data", "/data/my-data"))
    assert set(item.absent) == set(units if last else units[-2:])
    assert item.last is last
    assert set(step.expected.values()) == {None}
    assert fact_of(ID, "my-data") in step.expected
    assert check_item("storage.detach", encode(step.item)) is None


def test_taking_access_away_waits_for_no_busy_mount() -> None:
    """Rule 9: a host does nothing more for a ref after its first failure, so keys go first."""
    one, told = given("directory")
    own = Attachment(
        allocation_id=ID,
        volume="abcdefghij",
        ref=TRAIN,
        storage=DATA,
        node="gpu01",
        mode="rw",
        access="",
        mount_path="/mnt/x",
    )
    told = replace(told, world=replace(told.world, attachments=(own,)))
    before = fleet.resource(allocation("train"))
    recorded = Recorded(ref=TRAIN, normal=before.normal, digest=before.digest, id=ID)
    steps = [s.verb for s in kind.steps(replace(one, recorded=recorded), told)]
    assert steps.index("access.sync") < steps.index("storage.detach")


def test_the_host_takes_every_mount_path_that_the_schema_takes() -> None:
    schema = json.loads(Path("schemas/allocation.schema.json").read_text(encoding="utf-8"))
    entry = schema["properties"]["spec"]["properties"]["storage"]["items"]["properties"]
    assert entry["mountPath"]["pattern"] == f"^{mount_places.MOUNT_PATH.pattern}$"
