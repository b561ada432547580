"""Bundles on paper: documents of them, and hosts that tell which versions they have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired
from reconciler.model.spec.requirements import Requirement, Requirements
from reconciler.model.state.install import Install, InstallState
from reconciler.model.state.world import World
from tests.planner.fleet import allocation, desired, document, observation, world

A, TORCH = Ref("allocation", "vision", "a"), Ref("bundle", "", "torch")
MADE, OTHER = "sha256:" + "1" * 64, "sha256:" + "2" * 64
HERE = "staged " + MADE
LOCK = Requirements(releases=(Requirement(name="a", version="1", hashes=("0" * 64,)),))
Document = dict[str, Any]


def torch(*versions: str, **changes: Any) -> Document:
    """`changes` are of each version."""
    listed = [
        {
            "version": version,
            "compatible": {"gpuVendor": "none"},
            "install": {
                "method": "venv",
                "python": "3.11",
                "lock": f"locks/torch-{version}.txt",
                "lockDigest": "sha256:" + "0" * 64,
            },
            **changes,
        }
        for version in versions
    ]
    spec = {"displayName": "Torch", "supportLevel": "supported", "versions": listed}
    return document("Bundle", "torch", spec)


def having(*versions: str, name: str = "a", **changes: Any) -> Document:
    runtimes = [{"bundle": "torch", "version": version} for version in versions]
    return allocation(name, runtimes=runtimes, **changes)


def wanting(documents: Iterable[Mapping[str, Any]]) -> Desired:
    """Every requirements file can be read."""
    of = desired(documents)
    found = {one.install.lock_digest: LOCK for b in of.of("bundle") for one in b.spec.versions}
    return replace(of, locks=found)


def showing(of: Desired, facts: Mapping[str, str] | None = None, **changes: Any) -> World:
    """Hosts that tell their runtimes: these, on gpu01."""
    seen = {}
    for one in of.of("node"):
        named = {"runtime *": "listed", "current *": "listed"}
        named |= (facts or {}) if one.ref.name == "gpu01" else {}
        seen[one.ref.name] = observation(one, platform=named)
    return world(of, **{"observations": seen, **changes})


def installed(*versions: str, state: InstallState = InstallState.STAGED) -> tuple[Install, ...]:
    return tuple(
        Install(
            node="gpu01",
            bundle="torch",
            version=version,
            lock_digest="sha256:" + "0" * 64,
            state=state,
            digest=MADE if state is InstallState.STAGED else "",
        )
        for version in versions
    )
