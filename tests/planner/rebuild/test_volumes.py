"""Data that hosts tell of: which of it is believed, and what a state without it makes of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from reconciler.kinds.allocation.storage import record_path
from reconciler.model.canonical import canonical
from reconciler.model.host.evidence import NodeFacts, Observation
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired
from reconciler.model.state.volume import Attachment, Volume, VolumeState
from reconciler.model.state.world import Doubt, DoubtKind, World
from reconciler.planner.rebuild.descriptors import FoundDescriptor
from reconciler.planner.rebuild.taints import judge_doubts
from reconciler.planner.rebuild.trust import Authority
from reconciler.planner.rebuild.volume_records import of_known_volumes, read_volumes, verify_volumes
from reconciler.planner.rebuild.volumes import Ground, Regained, regain
from tests.planner.descriptors import sign
from tests.planner.fleet import (
    STATE_ID,
    base_fleet,
    desired,
    project,
    storage,
    storage_class,
    world,
)

AT = "2026-11-28T12:00:00Z"
LOCAL = {"directory": {"path": "/srv/data", "shared": False}}
SHARED = {"directory": {"path": "/srv/all", "shared": True}}
ID, OTHER = "v" * 10, "w" * 10
A, B = "a" * 10, "b" * 10
DATA = Ref("storage", "vision", "data")


def fleet(*documents: Any) -> Desired:
    vision = project("vision", "ana", "bo", entitlements={"skus": [], "storageClasses": ["local"]})
    class_ = storage_class("local", directory={"path": "/srv/data"})
    return desired([*base_fleet(), class_, vision, *documents])


def text(id: str = ID, holders: Any = (), sign_it: bool = True, **changes: Any) -> str:
    """What a host tells of a volume, signed by us unless it is not to be."""
    values: dict[str, Any] = {
        "stateId": STATE_ID,
        "ref": str(DATA),
        "id": id,
        "class": "local",
        "backend": LOCAL,
        "sizeGiB": 2,
        "gid": 0,
        **changes,
    }
    mark = sign(canonical(values)) if sign_it else "forged"
    return json.dumps({"record": {**values, "hmac": mark}, "holders": holders})


def holder(allocation: str, mode: str = "rw", **changes: str) -> dict[str, str]:
    about = {"login": f"{allocation[0]}-{allocation[:4]}", "machine": "m1", "mount_path": "/data"}
    return {"allocation": allocation, "mode": mode, "access": "single_writer", **about, **changes}


def judged(
    told: Mapping[str, Mapping[str, str]],
    *adopt: str,
    of: Desired | None = None,
    known: World | None = None,
    allocations: tuple[FoundDescriptor, ...] = (),
) -> dict[str, str]:
    """Place → why it is not believed; '' for what is."""
    of = of or fleet(storage("data"))
    authority = Authority(state_id=STATE_ID, sign=sign, desired=of, world=known or world(of))
    found = verify_volumes(read_volumes(told, of), allocations, authority, adopt)
    return {one.place: "" if one.taken else one.why for one in found}


OURS = text()


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ({"gpu01": {ID: OURS}}, {f"gpu01/{ID}": ""}),
        ({"gpu01": {ID: "{}"}}, {f"gpu01/{ID}": "unreadable"}),
        ({"gpu01": {ID: text(more=1)}}, {f"gpu01/{ID}": "with other fields than a record has"}),
        ({"gpu01": {ID: text(sizeGiB=0)}}, {f"gpu01/{ID}": "sizeGiB is not what it may be"}),
        (
            {"gpu01": {OTHER: OURS}},
            {f"gpu01/{OTHER}": f"its file is that of {OTHER}, and it says {ID}"},
        ),
        ({"gpu01": {ID: text(sign_it=False)}}, {f"gpu01/{ID}": "its signature is not ours"}),
        ({"gpu01": {ID: text(stateId="other")}}, {f"gpu01/{ID}": "it is of state other"}),
        (
            {"gpu01": {ID: OURS, OTHER: text(OTHER)}},
            {
                f"gpu01/{ID}": f"gpu01/{OTHER} has the same storage {DATA}",
                f"gpu01/{OTHER}": f"gpu01/{ID} has the same storage {DATA}",
            },
        ),
        (
            {"gpu01": {ID: OURS}, "gpu02": {ID: OURS}},
            {
                f"gpu01/{ID}": f"gpu02/{ID} has the same data {ID}",
                f"gpu02/{ID}": f"gpu01/{ID} has the same data {ID}",
            },
        ),
        (
            {"gpu01": {ID: text(backend=SHARED)}, "gpu02": {ID: text(backend=SHARED, sizeGiB=3)}},
            {f"gpu01/{ID}": "", f"gpu02/{ID}": ""},
        ),
    ],
)
def test_what_is_believed(told: Mapping[str, Mapping[str, str]], why: Mapping[str, str]) -> None:
    """Rule 21, F-STO-03: signed by us, at one place, and of nothing else as well."""
    assert judged(told) == why


@pytest.mark.parametrize(
    "told",
    ['"\\ud800"', '"\\u001b[2J"', '{"\\n": 1}', "1e999", "1.5", "NaN", "[" * 950 + "]" * 950],
)
def test_what_cannot_be_signed_is_no_record(told: str) -> None:
    """One host would else end the rebuild of the whole state, by an error that does not name it."""
    there = text(backend={"nfs": {"server": "@"}}).replace('"@"', told)
    assert there.isprintable() and len(there) < 4096
    assert judged({"gpu01": {ID: there}, "gpu02": {OTHER: text(OTHER)}}) == {
        f"gpu01/{ID}": "unreadable",
        f"gpu02/{OTHER}": "",
    }


def test_a_word_is_believed_and_what_the_state_knows_is_not_given_up() -> None:
    """Rule 21: and of a volume that is known nothing has to be believed."""
    forged = {"gpu01": {ID: text(sign_it=False)}}
    assert judged(forged, f"gpu01/{ID}") == {f"gpu01/{ID}": ""}
    of = fleet(storage("data"))
    volume = Volume(id=OTHER, ref=DATA, class_name="local", backend=LOCAL, node="gpu01")
    known = world(of, volumes={DATA: volume})
    assert judged({"gpu01": {ID: OURS, OTHER: text(OTHER)}}, f"gpu01/{ID}", known=known) == {
        f"gpu01/{ID}": f"this state has the same storage {DATA}"
    }


@pytest.mark.parametrize(
    ("node", "backend", "signed", "key", "believed"),
    [
        ("gpu01", LOCAL, True, True, True),
        ("gpu02", LOCAL, True, True, False),
        ("gpu02", LOCAL, True, False, False),
        ("gpu01", LOCAL, False, True, False),
        ("gpu02", SHARED, True, True, True),
        ("gpu02", SHARED, False, True, False),
        ("gpu02", SHARED, False, False, True),
    ],
)
def test_no_host_says_who_has_what_lies_on_another(
    node: str, backend: dict[str, Any], signed: bool, key: bool, believed: bool
) -> None:
    """By a record of its own making it could bar everybody from data, and its wipe."""
    of = fleet(storage("data"))
    where = "" if backend is SHARED else "gpu01"
    volume = Volume(id=ID, ref=DATA, class_name="local", backend=backend, node=where)
    authority = Authority(
        state_id=STATE_ID,
        sign=sign if key else None,
        desired=of,
        world=world(of, volumes={DATA: volume}),
    )
    record = text(backend=backend, holders=[holder(A)], sign_it=signed)
    found = read_volumes({node: {ID: record, OTHER: text(OTHER)}}, of)
    told = of_known_volumes(found, authority)
    assert [one.place for one in told] == ([f"{node}/{ID}"] if believed else [])


def test_what_was_wiped_is_no_data() -> None:
    """F-STO-03: a host that has a word of it still tells nothing new, and is in no doubt for it."""
    of = fleet(storage("data"))
    gone = Volume(id=ID, ref=DATA, class_name="local", backend=SHARED, state=VolumeState.GONE)
    known = world(of, wiped={ID: gone})
    there = {"gpu01": {ID: text(backend=SHARED), OTHER: text(OTHER, backend=SHARED)}}
    assert judged(there, known=known) == {f"gpu01/{OTHER}": ""}
    seen = Observation(
        node="gpu01",
        at=AT,
        facts=NodeFacts(source="host", paths={record_path(ID): "file"}, descriptors={}),
    )
    doubt = Doubt(node="gpu01", kind=DoubtKind.UNSEEN, reason="", since=AT)
    for state, ended in ((known, 1), (world(of), 0)):
        assert len(judge_doubts(of, state, [doubt], {"gpu01": seen}).ended) == ended


def regained(
    told: Mapping[str, Mapping[str, str]],
    *documents: Any,
    known: Mapping[str, Any] | None = None,
    **shows: Mapping[str, str],
) -> Regained:
    """With allocation A on gpu01 and B on gpu02, both taken in; `shows` are facts by node."""
    of = fleet(*(documents or (storage("data"),)))
    facts = {node: NodeFacts(source="host", platform=named) for node, named in shows.items()}
    places = {
        A: (Ref("allocation", "vision", "a"), "gpu01"),
        B: (Ref("allocation", "vision", "b"), "gpu02"),
    }
    ground = Ground(desired=of, world=world(of, **(known or {})), places=places, facts=facts, at=AT)
    return regain([one for one in read_volumes(told, of) if one.record], ground)


def having(attachments: tuple[Attachment, ...]) -> dict[str, str]:
    return {one.allocation_id: f"{one.mode} {one.mount_path} {one.node}" for one in attachments}


def test_data_comes_back_as_it_was() -> None:
    """F-STO-03 F-STO-04: of its size, on its node, with the number of its files."""
    found = regained({"gpu01": {ID: text(gid=20007, holders=[holder(A)])}})
    (volume,) = found.volumes
    assert (volume.id, volume.node, volume.size_gib) == (ID, "gpu01", 2)
    assert (volume.state, volume.backend) == (VolumeState.MADE, LOCAL)
    assert having(found.attachments) == {A: "rw /data gpu01"}
    assert found.gids == {"vision": 20007}
    assert found.recorded[DATA].normal["spec"]["sizeGiB"] == 2, "what git wants more is a change"


def test_data_that_git_no_longer_names_is_kept() -> None:
    """F-STO-03: and while somebody has it, it is a storage that is in use."""
    (kept,) = regained({"gpu01": {ID: OURS}}, storage("other")).volumes
    assert kept.state is VolumeState.KEPT
    used = regained({"gpu01": {ID: text(holders=[holder(A)])}}, storage("other"))
    assert used.volumes[0].state is VolumeState.MADE
    assert used.recorded[DATA].normal["spec"]["accessMode"] == "single_writer"


def test_a_renamed_storage_has_its_data() -> None:
    """F-STO-03: hosts say the name that they were told, and by that whoever has it has it there."""
    (volume,) = regained({"gpu01": {ID: OURS}}, storage("sets", formerName="data")).volumes
    assert (volume.ref.name, volume.state) == ("sets", VolumeState.MADE)
    shown = {f"attached {A}/data": f"{ID} rw at /data"}
    for holders in ([holder(A)], None):
        told = {"gpu01": {ID: text(holders=holders)}}
        found = regained(told, storage("sets", formerName="data"), gpu01=shown)
        assert [(one.storage, one.volume) for one in found.attachments] == [(DATA, ID)]
    other = text(backend=SHARED, ref="storage/vision/old", holders=[holder(A)])
    both = {"gpu01": {ID: text(backend=SHARED)}, "gpu02": {ID: other}}
    (one,) = regained(both, storage("sets", formerName="data"), gpu01=shown).attachments
    assert one.storage == DATA


def test_who_has_it_and_was_not_seen_has_it_still() -> None:
    """F-STO-04: unknown is not absent; its login says its name, its machine where it is."""
    told = {"gpu01": {ID: text(backend=SHARED, holders=[holder("c" * 10, machine="m9")])}}
    (one,) = regained(told).attachments
    assert (str(one.ref), one.node) == ("allocation/vision/c", "m9")


def test_who_was_cut_off_stays_so() -> None:
    """F-STO-04: it is mounted there still, and what stands beside the data does not have it."""
    shown = {f"attached {A}/data": f"{ID} rw at /data"}
    there = {"gpu02": {ID: text(backend=SHARED, holders=[holder(B)])}}
    found = regained(there, gpu01=shown)
    assert having(found.attachments) == {B: "rw /data gpu02"}
    assert having(found.severed) == {A: "rw /data gpu01"}
    assert found.volumes[0].fenced == (A,)
    nobody_knows = regained({"gpu02": {ID: text(backend=SHARED, holders=None)}}, gpu01=shown)
    assert having(nobody_knows.attachments) == {A: "rw /data gpu01"}
    assert nobody_knows.severed == ()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, True),
        ({"state": VolumeState.KEPT}, False),
        ({"state": VolumeState.WIPING}, False),
        ({"fenced": (A,)}, False),
    ],
)
@pytest.mark.parametrize("severed", [True, False])
def test_what_nobody_can_have_by_the_state_is_not_written(
    changes: dict[str, Any], told: bool, severed: bool
) -> None:
    """F-STO-04 F-STA-09: else the state refuses it, and nothing else is taken in with it."""
    values = {"state": VolumeState.MADE, "node": "gpu01", **changes}
    volume = Volume(id=ID, ref=DATA, class_name="local", backend=LOCAL, **values)
    there = {"gpu01": {ID: text(holders=[] if severed else [holder(A)])}}
    shown = {f"attached {A}/data": f"{ID} rw at /data"}
    found = regained(there, known={"volumes": {DATA: volume}}, gpu01=shown)
    written = found.severed if severed else found.attachments
    assert having(written) == ({A: "rw /data gpu01"} if told else {})


def test_of_rivals_whom_nobody_can_tell_apart_one_is_written() -> None:
    """F-STO-04: who has it cannot be read, and both show it: the next plan says what is wrong.

    Whoever was cut off was so together with all others who were.
    """
    shown = {f"attached {A}/data": f"{ID} rw at /data"}
    other = {f"attached {B}/data": f"{ID} rw at /data"}
    there = {"gpu01": {ID: text(backend=SHARED, holders=None)}}
    assert list(having(regained(there, gpu01=shown, gpu02=other).attachments)) == [A]
    nobody = {"gpu01": {ID: text(backend=SHARED)}}
    assert list(having(regained(nobody, gpu01=shown, gpu02=other).severed)) == [A, B]


def test_what_the_state_knows_is_not_taken_from_anybody() -> None:
    """F-STO-04: who comes later, and may not have it beside them, is the next plan's matter."""
    known = Attachment(
        allocation_id="c" * 10,
        volume=ID,
        ref=Ref("allocation", "vision", "c"),
        storage=DATA,
        node="gpu02",
        mode="rw",
        access="single_writer",
        mount_path="/data",
    )
    volume = Volume(id=ID, ref=DATA, class_name="local", backend=SHARED)
    there = {"gpu01": {ID: text(backend=SHARED, holders=[holder(A)])}}
    world_of = {"volumes": {DATA: volume}, "attachments": (known,)}
    found = regained(there, known=world_of)
    assert (found.volumes, found.attachments) == ((), ())
