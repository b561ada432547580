"""What people read of storage: who has it, whom to ask, and what a word would mean."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from reconciler.cli.text import TextLine
from reconciler.cli.views import storage as view
from reconciler.model.problem import Problem
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Origin
from reconciler.model.state.reopening import Former, Heir, Reopening
from reconciler.operations.storage.fence import Fenced, Severed
from reconciler.operations.storage.reopen import Reopened
from reconciler.operations.storage.storage import StorageHolder, StorageRow, StorageShown

TRAIN = StorageHolder(
    allocation="allocation/vision/train",
    allocation_id="k7q2m3xdp4",
    node="gpu17",
    mode="rw",
    mount_path="/data/data",
    since="2026-11-27T09:14:00Z",
    phase="active",
)
ROW = StorageRow(
    ref="storage/vision/data",
    state="made",
    class_name="fast",
    backend="loop",
    access="single_writer",
    size_gib=20,
    used_mib=512,
    node="gpu17",
    holders=(TRAIN,),
    volume="abcdefghij",
    since="2026-11-20T09:14:00Z",
    price_per_month="2.00",
    currency="EUR",
)
KEPT = replace(ROW, state="kept", holders=(), owner="ana")
STRANGER = StorageRow(ref="", state="unknown", node="gpu18", volume="strangerid")
SEVERED = Severed(
    storage=ROW.ref, volume=ROW.volume, holder=TRAIN, silent="gpu17 does not answer since noon"
)


def text(lines: Iterable[TextLine]) -> str:
    return "\n".join("".join(span.text for span in line.spans).rstrip() for line in lines)


def test_a_list() -> None:
    """STO-08: who has it stands in its line; of a fleet's volume, that every node reaches it."""
    shown = text(view.rows([ROW, replace(ROW, ref="storage/nlp/set", node="", holders=())]))
    assert shown.splitlines()[0].split() == view.TITLES.split()
    assert "vision/data  made   fast    20  512 MiB  gpu17" in shown
    assert "vision/train rw" in shown
    assert "every node of its class" in shown
    assert text(view.rows([])) == "no storage"


@pytest.mark.parametrize(
    ("found", "says", "does_not"),
    [
        ((KEPT,), "takes it back", "state rebuild"),
        ((STRANGER,), "state rebuild", "takes it back"),
        ((), "no data is kept", "takes it back"),
    ],
)
def test_orphans(found: tuple[StorageRow, ...], says: str, does_not: str) -> None:
    """F-STO-03: whose it is, since when, and what can be done about it."""
    shown = text(view.orphans(found))
    assert says in shown and does_not not in shown
    for row in found:
        assert row.volume in shown and row.node in shown and row.owner in shown


def test_one_in_full() -> None:
    """STO-09 VIS-01: by whom it was written, what it costs, who has it and who had it."""
    past = {
        "ref": "allocation/vision/old",
        "allocation_id": "oldoldoldo",
        "node": "gpu16",
        "mode": "rw",
        "since": "t1",
        "ended": "t2",
        "ended_by": "fence",
        "fenced_by": "olga",
        "fenced_why": "its host has burnt",
    }
    shown = text(
        view.lines(
            StorageShown(
                row=ROW,
                file="specs/data.yaml",
                line=1,
                origin=Origin(commit="3f9c2e1aa", author="ana"),
                past=(past,),
            )
        )
    )
    for said in (
        "storage/vision/data   made since 2026-11-20T09:14:00Z",
        "specs/data.yaml:1 in 3f9c2e1 by ana",
        "fast · loop · single_writer",
        "20 GiB, 512 MiB used",
        "volume abcdefghij on gpu17",
        "2.00 EUR a month",
        "k7q2m3xdp4",
        "/data/data",
        "fence of olga",
        "its host has burnt",
    ):
        assert said in shown
    assert "gpuaas storage reopen vision/data --from ID --to ALLOCATION" in shown
    assert "nobody" in text(view.lines(StorageShown(row=KEPT)))
    assert "reopen" not in text(view.lines(StorageShown(row=KEPT, past=(past,))))


def test_a_word() -> None:
    """F-STO-04: what somebody swears to stands before the question, and what is left after it."""
    asked = text(view.severed(SEVERED))
    assert "k7q2m3xdp4" in asked and "does not answer since noon" in asked and "damaged" in asked
    said = Fenced(severed=SEVERED, actor="olga", reason="burnt")
    assert "by the word of olga: burnt" in text(view.fenced(said))
    assert "nobody has it now" in text(view.fenced(said))
    still = text(view.fenced(replace(said, left=(replace(TRAIN, mode="ro"),))))
    assert "still attached to vision/train ro" in still


REOPENING = Reopening(
    storage=Ref("storage", "vision", "data"),
    volume=ROW.volume,
    node="gpu17",
    old=Former(
        allocation_id="oldoldoldo",
        ref="allocation/vision/old",
        until="t2",
        lives=False,
        uid=20_001,
        people=("", "bo"),
    ),
    new=Heir(
        people=("bo",),
        allocation_id="k7q2m3xdp4",
        ref=Ref("allocation", "vision", "train"),
        login="train-k7q2",
        uid=20_002,
        owner="ana",
    ),
    to_others=True,
)


def test_whose_files_are_opened_to_whom() -> None:
    """F-REAL-11: before the question, with people whom nobody knows; and what was left after it."""
    asked = text(view.reopening(REOPENING))
    for said in ("oldoldoldo, uid 20001, until t2", "k7q2m3xdp4, uid 20002", "on gpu17"):
        assert said in asked
    assert "owned by people whom nobody has written down, bo, and is by ana" in asked
    assert "closed ones too, to all who may log in there: bo" in asked
    done = Reopened(reopening=REOPENING, actor="olga", reason="hers", changed=12, whole=True)
    assert text(view.reopened(done)) == (
        "12 files of oldoldoldo in vision/data are that of vision/train, by the word of olga: hers"
    )
    problem = Problem(code="reopen_unfinished", message="cut short", hint="again")
    cut = text(view.reopened(replace(done, left="1 a device: x", problems=(problem,))))
    assert "left as they were: 1 a device: x" in cut and "cut short" in cut
