"""Why something is as it is: what each link of the chain says, and when it has nothing to say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from reconciler.model.host.capacity import ClaimState
from reconciler.model.host.evidence import Check, CheckResult
from reconciler.model.moment import format_moment
from reconciler.model.plan.lifecycle import Phase
from reconciler.model.plan.plan import Action, Cause, Change
from reconciler.model.problem import Problem
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Origin
from reconciler.model.state.event import Event, EventType
from reconciler.model.state.install import Install, InstallState
from reconciler.model.state.volume import Attachment, Volume, VolumeState
from reconciler.model.state.world import Override, Recorded, Suspension
from reconciler.operations.links.case import Link, SpecPlace, WhyCase
from reconciler.operations.node.show import InForce, in_force
from reconciler.operations.views import AccessRow
from reconciler.operations.why.links import LINKS, links_of
from tests.planner import fleet as paper

TRAIN = Ref("allocation", "vision", "train")
DESIRED = paper.desired([*paper.base_fleet(nodes=1), paper.allocation("train")])
NODE = DESIRED.resources[Ref("node", "", "gpu01")]
IN_2_DAYS = format_moment(paper.NOW + timedelta(days=2))
HERE = SpecPlace(file="specs/train.yaml", line=3, origin=Origin(commit="3f9c2e1", author="ana"))


def event(type_: EventType, reason: str = "", run: str = "run-000001") -> Event:
    return Event(type=type_, actor="olga", ref=str(TRAIN), commit="3f9c2e1aa", reason=reason,
                 run=run, at="2026-11-01T00:00:00Z", sequence=7)  # fmt: skip


def recorded(**changes: Any) -> Recorded:
    place = {"id": "train-id", "login": "train-k7q2", "node": "gpu01", "slots": ("s0",)}
    resource = DESIRED.resources[TRAIN]
    given = {"ref": TRAIN, "normal": resource.normal, "digest": resource.digest, **place}
    return Recorded(**{**given, **changes})


def case(**changes: Any) -> WhyCase:
    """An allocation that stands as it is wanted."""
    world = paper.world(DESIRED, claims=(paper.claim("train", "gpu01", "s0"),))
    world = replace(world, **changes.pop("world", {}))
    access = AccessRow(allocation=str(TRAIN), user="ana", cause=str(TRAIN), state="active",
                       keys=("laptop SHA256:x",))  # fmt: skip
    given: dict[str, Any] = {
        "ref": TRAIN,
        "now": paper.NOW,
        "world": world,
        "desired": DESIRED,
        "resource": DESIRED.resources[TRAIN],
        "recorded": recorded(),
        "events": (event(EventType.CLAIMED, "tightest fit of 9"), event(EventType.RECORDED)),
        "health": "healthy",
        "node": NODE,
        "approvals": tuple(in_force(NODE.spec)),
        "checks": (Check(name="boot", result=CheckResult.PASS, value="b"),),
        "access": (access,),
        "places": {TRAIN: HERE},
    }
    return WhyCase(**given | changes)


def told(of: WhyCase, about: str) -> list[str]:
    return [one.text for one in links_of(of) if one.about == about]


ADMIN = paper.resource(paper.node("gpu01", admin={"state": "draining", "reason": "new fans"}))
BLOCKED = paper.claim(
    "train", "gpu01", "s0", state=ClaimState.CLEANUP_BLOCKED, problem="processes fail: 8812"
)
VOUCHED = Override(
    claim="c1", ref="allocation/vision/old", node="gpu01", slot="s0", actor="olga",
    reason="wiped", at="2026-11-01T00:00:00Z",
)  # fmt: skip
SUSPENDED = Suspension(
    scope="node/gpu01", reason="PSU smoke", actor="olga", since="2026-12-01T00:00:00Z"
)

DATA = Ref("storage", "vision", "data")
VOLUME = Volume(
    id="abcdefghij", ref=DATA, class_name="local", backend={"directory": {"path": "/srv"}},
    node="gpu01", size_gib=20, state=VolumeState.MADE, since="2026-12-01T00:00:00Z",
)  # fmt: skip
ATTACHED = Attachment(
    allocation_id="train-id", volume=VOLUME.id, ref=TRAIN, storage=DATA, node="gpu01",
    mode="rw", access="single_writer", mount_path="/data/data",
)  # fmt: skip
STORED = {"volumes": {DATA: VOLUME}, "attachments": (ATTACHED,)}

HELLO = Ref("bundle", "", "hello")
RUNS = paper.resource(paper.allocation("train", runtimes=[{"bundle": "hello", "version": "1.0"}]))
RUNNING = recorded(normal=RUNS.normal)
STAGED = {
    "installs": (
        Install(
            node="gpu01", bundle="hello", version="1.0", lock_digest="sha256:a",
            state=InstallState.STAGED, digest="sha256:b", since="2026-12-01T00:00:00Z",
        ),
    )
}  # fmt: skip

SAYS: Mapping[str, tuple[WhyCase, str]] = {
    "is": (case(), "active on gpu01/s0 as train-k7q2, healthy"),
    "wanted": (case(), "by its document"),
    "applied": (case(), "2026-11-01T00:00:00Z by olga in run-000001, of commit 3f9c2e1"),
    "placed": (case(), "2026-11-01T00:00:00Z: tightest fit of 9"),
    "allowed": (
        case(),
        "project vision of tenant corp may have slice-1, and holds 1 of 64 GPUs",
    ),
    "approved": (case(), "host, s0 of gpu01 by olga on 2026-01-01T00:00:00Z"),
    "evidence": (case(), "standin, 0 s old, probe "),
    "ready": (case(), "gpu01 passes all 1 checks"),
    "vouched": (
        case(world={"overrides": (VOUCHED,)}),
        'gpu01/s0 was freed of allocation/vision/old by olga on 2026-11-01T00:00:00Z: "wiped"',
    ),
    "admin": (case(node=ADMIN), 'gpu01 is draining "new fans"'),
    "suspended": (
        case(world={"suspensions": (SUSPENDED,)}),
        'node/gpu01 by olga since 2026-12-01T00:00:00Z "PSU smoke"',
    ),
    "let in": (case(), "ana (laptop)"),
    "has": (
        case(world=STORED),
        "storage/vision/data rw at /data/data, 20 GiB on gpu01",
    ),
    "data": (
        case(ref=DATA, world=STORED),
        "made since 2026-12-01T00:00:00Z: volume abcdefghij, 20 GiB on gpu01",
    ),
    "attached": (
        case(ref=DATA, world=STORED),
        "allocation/vision/train rw at /data/data on gpu01",
    ),
    "runs": (
        case(recorded=RUNNING, world=STAGED),
        "hello@1.0: staged since 2026-12-01T00:00:00Z on gpu01",
    ),
    "stands": (
        case(ref=HELLO, world={**STAGED, "recorded": {TRAIN: RUNNING}}),
        "nodes 1 staged; used by allocation/vision/train",
    ),
    "ends": (
        case(recorded=recorded(expires_at=IN_2_DAYS)),
        f"{IN_2_DAYS}, as its project's or the policy's default says",
    ),
    "blocked": (case(world={"claims": (BLOCKED,)}), "gpu01/s0: processes fail: 8812"),
    "next": (case(), "nothing: it is as it is wanted"),
}
TOLD_AT_REST = {
    *("is", "wanted", "applied", "placed", "allowed", "approved", "evidence", "ready"),
    *("let in", "next"),
}
SILENT_AT_REST = SAYS.keys() - TOLD_AT_REST


def test_every_link_has_its_case() -> None:
    assert list(SAYS) == [about for about, _ in LINKS]


@pytest.mark.parametrize("about", SAYS)
def test_a_link_says_its_fact(about: str) -> None:
    """VIS-06: commit, author, place, rule, approver and evidence, each by a row of the table."""
    of, text = SAYS[about]
    (one, *_) = told(of, about)
    assert one.startswith(text)
    assert bool(told(case(), about)) is (about not in SILENT_AT_REST)


def link(of: WhyCase, about: str) -> Link:
    return next(one for one in links_of(of) if one.about == about)


def test_what_a_document_says_is_told_with_its_place() -> None:
    assert link(case(), "wanted").place == HERE


GONE = case(resource=None, recorded=None, events=(event(EventType.FORGOTTEN),), node=None)


@pytest.mark.parametrize(
    ("of", "about", "text"),
    [
        (GONE, "is", "gone since 2026-11-01T00:00:00Z"),
        (GONE, "applied", "2026-11-01T00:00:00Z by olga in run-000001, of commit 3f9c2e1"),
        (GONE, "next", "nothing"),
        (case(recorded=None, events=()), "is", "not applied yet"),
        (
            case(recorded=None, events=(), world={"waiting": {TRAIN: "2026-12-01T09:00:00Z"}}),
            "is",
            "waiting for room since 2026-12-01T09:00:00Z",
        ),
        (
            case(resource=None, desired=replace(DESIRED, frozen=frozenset({TRAIN}))),
            "wanted",
            "its document has errors: it stays as it is",
        ),
        (
            case(
                resource=None,
                change=Change(
                    ref=TRAIN, action=Action.RELEASE, facts={"why": "file removed: in 3f9c2e1"}
                ),
            ),
            "wanted",
            "file removed: in 3f9c2e1",
        ),
        (case(approvals=(InForce(covers=("s0",), fallen=True),)), "approved",
         "s0 of gpu01 by nobody, as it has changed since"),
        (case(world={"observations": {}}), "evidence", "none: never observed"),
        (
            case(checks=(Check(name="driver", result=CheckResult.FAIL, value="580, family: 570"),)),
            "ready",
            "gpu01 driver fail: 580, family: 570",
        ),
        (
            case(recorded=recorded(phase=Phase.QUARANTINED, undo_until=IN_2_DAYS)),
            "ends",
            f"a git revert restores it until {IN_2_DAYS}, then it is wiped",
        ),
        (
            case(
                change=Change(
                    ref=TRAIN, action=Action.RELEASE, summary="1 GPU", cause=Cause.EXPIRED
                )
            ),
            "next",
            "release · 1 GPU · because it is expired",
        ),
    ],
)  # fmt: skip
def test_what_stands_otherwise_is_told_so(of: WhyCase, about: str, text: str) -> None:
    assert told(of, about) == [text]


def test_what_is_not_done_leads_to_its_runbook() -> None:
    problem = Problem(code="protected", message="it is protected")
    one = link(case(change=Change(ref=TRAIN, action=Action.BLOCKED, problem=problem)), "next")
    assert (one.text, one.command) == (
        "not done: protected: it is protected",
        "gpuaas runbook protected",
    )
