"""Bundling: what is recorded of a version on a node, what it shows, and whether both agree."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reconciler.kinds.bundle import Compatible
from reconciler.model.codec import decode
from reconciler.model.ref import Ref
from reconciler.model.state.install import Install, InstallState
from reconciler.model.state.world import Recorded, World
from reconciler.operations.bundle.bundle import (
    SUPPORT,
    BundleStanding,
    installs_of,
    run_by,
    runs_on,
    standing,
    users_of,
)
from reconciler.operations.links.bundle_links import facts_of
from tests.planner import fleet as paper

TRAIN, DIGEST = Ref("allocation", "vision", "train"), "sha256:aa"
RUNTIMES = [{"bundle": "hello", "version": "1.0"}, {"bundle": "jupyter", "version": "4.6.6"}]
DESIRED = paper.desired([*paper.base_fleet(nodes=1), paper.allocation("train", runtimes=RUNTIMES)])
PLACE = ("gpu01", "hello", "1.0")
STAGED = Install(
    node="gpu01", bundle="hello", version="1.0", lock_digest="sha256:l",
    state=InstallState.STAGED, digest=DIGEST, since="2026-12-01T00:00:00Z",
)  # fmt: skip
FAILED = replace(STAGED, state=InstallState.FAILED, digest="", problem="runtime_hash_wrong: torch")


def world(install: Install | None = STAGED, shown: str | None = "") -> World:
    """A node that shows this of the version; None where nobody has looked at bundles there."""
    one = DESIRED.resources[TRAIN]
    seen = paper.observation(DESIRED.resources[Ref("node", "", "gpu01")])
    named = {"current hello": "1.0", "runtime hello/1.0": shown or ""}
    assert seen.facts is not None
    facts = replace(seen.facts, platform=None if shown is None else named)
    return paper.world(
        DESIRED,
        observations={"gpu01": replace(seen, facts=facts)},
        recorded={
            TRAIN: Recorded(
                ref=TRAIN, normal=one.normal, digest=one.digest, id="train-id", node="gpu01",
                login="train-k7q2", slots=("s0",),
            )
        },
        installs=(install,) if install else (),
    )  # fmt: skip


def stands(install: Install | None, shown: str | None) -> BundleStanding:
    of = world(install, shown)
    return standing(PLACE, of, installs_of(of).get(PLACE), users_of(of))


@pytest.mark.parametrize(
    ("install", "shown", "agrees"),
    [
        (STAGED, f"staged {DIGEST}", True),
        (STAGED, "staged sha256:bb", False),
        (STAGED, "changed 2: lib/x.py", False),
        (STAGED, "", False),
        (STAGED, None, None),
        (FAILED, "failed runtime_hash_wrong: torch", True),
        (FAILED, "", True),
        (FAILED, f"staged {DIGEST}", False),
        (replace(STAGED, state=InstallState.STAGING, digest=""), "staging download", True),
        (replace(STAGED, state=InstallState.STAGING, digest=""), "", False),
        (None, f"staged {DIGEST}", None),
    ],
)
def test_evidence_stands_beside_what_is_recorded(
    install: Install | None, shown: str | None, agrees: bool | None
) -> None:
    """BND-28: what is staged is so by its digest; and not looked is not agreed."""
    found = stands(install, shown)
    assert (found.shown, found.agrees) == (shown, agrees)
    assert found.state == (install.state if install else "")
    assert found.used_by == (str(TRAIN),)
    assert found.is_current is (shown is not None)


@pytest.mark.parametrize(
    ("install", "shown", "told"),
    [
        (STAGED, f"staged {DIGEST}", "staged since 2026-12-01T00:00:00Z on gpu01"),
        (
            STAGED,
            "changed 1: bin/python",
            "staged since 2026-12-01T00:00:00Z on gpu01, but it shows changed 1: bin/python",
        ),
        (
            FAILED,
            "",
            "failed since 2026-12-01T00:00:00Z on gpu01: runtime_hash_wrong: torch",
        ),
        (None, "", "not asked for yet"),
    ],
)
def test_an_allocation_tells_what_it_runs(install: Install, shown: str, told: str) -> None:
    """BND-11, BND-17, BND-20, BND-26: version, since when, by evidence, and for what we answer."""
    found = facts_of(TRAIN, world(install, shown))
    assert found == {
        "runtimes": f"hello@1.0 ({told}), the default, jupyter@4.6.6 (not asked for yet)",
        "support": SUPPORT,
    }


def test_one_line_a_runtime() -> None:
    of = world()
    told = run_by(of.recorded[TRAIN], installs_of(of))
    assert told == ("hello@1.0 staged", "jupyter@4.6.6 wanted")


def test_who_has_no_runtime_is_told_nothing() -> None:
    """OBJ-04: an allocation is whole without any."""
    of = world()
    plain = replace(of.recorded[TRAIN], normal={"spec": {"sku": "gpus-1", "owner": "ana"}})
    assert facts_of(TRAIN, replace(of, recorded={TRAIN: plain})) == {}
    assert run_by(plain, {}) == ()


def test_a_bundle_tells_where_it_is_and_who_uses_it() -> None:
    found = facts_of(Ref("bundle", "", "hello"), world())
    assert found == {"nodes": "1 staged", "used by": str(TRAIN)}
    assert facts_of(Ref("bundle", "", "other"), world()) == {}


@pytest.mark.parametrize(
    ("compatible", "told"),
    [
        (None, ""),
        ({"gpuVendor": "none", "families": []}, "no GPU needed"),
        (
            {"gpuVendor": "nvidia", "driverMin": "580.65", "cuda": "13.0", "families": ["h100"]},
            "nvidia, driver 580.65 or later, CUDA 13.0, families h100",
        ),
    ],
)
def test_what_it_runs_on_in_words(compatible: dict[str, object] | None, told: str) -> None:
    assert runs_on(decode(Compatible, compatible) if compatible else None) == told
