"""Storage on paper: volumes, who has them, and the steps by which hosts are asked about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reconciler.model.canonical import digest
from reconciler.model.plan.plan import Order, Step
from reconciler.model.plan.work import StepOutcome, WaveIntent, WaveOutcome
from reconciler.model.state.volume import Attachment, Joining, VolumeIntent
from reconciler.model.state.world import Recorded
from reconciler.store.snapshot import read_world
from tests.harness.items import make_item
from tests.store.records import State, done, make_recorded, ref

DATA, VOLUME = ref("storage/vision/data"), "volumedata"
PRICES = [
    {"from": "2026-01-01T00:00:00Z", "perGiBMonth": "0.08", "currency": "EUR"},
    {"from": "2026-06-01T00:00:00Z", "perGiBMonth": "0.10", "currency": "EUR"},
    {"from": "2027-01-01T00:00:00Z", "perGiBMonth": "0.20", "currency": "EUR"},
]


def make_storage(**fields: Any) -> Recorded:
    normal = {"labels": {}, "spec": {"class": "fast", "sizeGiB": 10, "onDelete": "keep"}}
    return _plain("storage/vision/data", normal, **fields)


def make_project() -> Recorded:
    members = [{"user": "ana", "role": "owner"}, {"user": "bo", "role": "member"}]
    return _plain("project/vision", {"labels": {}, "spec": {"tenant": "corp", "members": members}})


def make_class() -> Recorded:
    return _plain("storage_class/fast", {"labels": {}, "spec": {"prices": PRICES}})


def _plain(name: str, normal: dict[str, Any], **fields: Any) -> Recorded:
    given: dict[str, Any] = {
        "ref": ref(name),
        "normal": normal,
        "digest": digest(normal),
        "shape": None,
        "facts": {},
        **dict.fromkeys(("id", "login", "node", "basis"), ""),
        "slots": (),
    }
    return make_recorded("a", **(given | fields))


def make_volume(id: str = VOLUME, **fields: Any) -> VolumeIntent:
    given: dict[str, Any] = {
        "id": id,
        "ref": DATA,
        "class_name": "fast",
        "backend": {"loop": {"path": "/srv/fast", "filesystem": "ext4"}},
        "node": "",
        "size_gib": 10,
    }
    return VolumeIntent(**(given | fields))


def make_attachment(name: str = "a", **fields: Any) -> Attachment:
    given: dict[str, Any] = {
        "allocation_id": f"id-{name}",
        "volume": VOLUME,
        "ref": ref(f"allocation/vision/{name}"),
        "storage": DATA,
        "node": "gpu01",
        "mode": "rw",
        "access": "single_writer",
        "mount_path": "/data",
    }
    return Attachment(**(given | fields))


def asking(verb: str, one: Attachment, size_gib: int = 10) -> Step:
    """`attach` or `detach` of one, as its host is asked for it."""
    volume = {"id": one.volume, "mountPath": one.mount_path}
    attached = {"mode": one.mode, "sizeGiB": size_gib} if verb == "attach" else {}
    return Step(
        id=f"{verb}-{one.allocation_id}-{one.mount_path}",
        verb=f"storage.{verb}",
        node=one.node,
        ref=one.ref,
        order=Order.PROVIDE if verb == "attach" else Order.RETIRE,
        item=make_item(f"storage.{verb}", id=one.allocation_id, volumes=[volume | attached]),
    )


def wiping() -> Step:
    return Step(
        id="wipe",
        verb="storage.wipe",
        node="gpu01",
        ref=DATA,
        order=Order.RETIRE,
        item=make_item("storage.wipe", volume=VOLUME),
    )


def recorded(state: State) -> str:
    """What has to be there for a price, an owner and a tenant; the run goes on."""
    run = state.run()
    state.journal.record(run, [make_project(), make_class(), make_storage()])
    return run


def begin(state: State, *attachments: Attachment, size_gib: int = 10) -> tuple[str, list[Step]]:
    """Hosts are about to be asked to attach these; the run, and the steps."""
    run = state.run()
    steps = [asking("attach", one, size_gib) for one in attachments]
    joining = Joining(volumes=(make_volume(size_gib=size_gib),), attachments=attachments)
    state.journal.begin_wave(run, WaveIntent(steps=tuple(steps), joining=joining))
    return run, steps


def attach(state: State, *attachments: Attachment, size_gib: int = 10) -> None:
    """The same, and their hosts have shown it."""
    run, steps = begin(state, *attachments, size_gib=size_gib)
    state.journal.finish_wave(run, done(*steps))


def detach(state: State, *attachments: Attachment, ok: bool = True) -> None:
    run = state.run()
    steps = [asking("detach", one) for one in attachments]
    state.journal.begin_wave(run, WaveIntent(steps=tuple(steps)))
    state.journal.finish_wave(run, ended(steps, ok=ok))


def ended(steps: Sequence[Step], *, ok: bool) -> WaveOutcome:
    return WaveOutcome(steps=tuple(StepOutcome(step=s, ok=ok, changed=ok) for s in steps))


def having(state: State) -> list[tuple[str, str, str]]:
    """(allocation id, mode, mount path) of each that has the volume, or may have it."""
    found = read_world(state.database).attachments
    return [(one.allocation_id, one.mode, one.mount_path) for one in found]
