"""The specs of a fleet, read through the cache beside its state."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import replace

from reconciler import shipped
from reconciler.model.problem import ProblemError
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired, Origin
from reconciler.model.spec.resource import Resource
from reconciler.operations.fleet import Fleet
from reconciler.specs.desired import load_desired
from reconciler.specs.git import origins
from reconciler.specs.read.library import git_at_work, stamp_of_git

PATIENCE_SECONDS, ASK_SECONDS, TRIES = 5.0, 0.1, 3
"""A checkout or a stash is soon over, and whoever is in the middle of a merge is not waited for."""


def wanted_refs(fleet: Fleet) -> frozenset[Ref]:
    """What the specs name, those included that have errors."""
    desired = read_desired(fleet)
    return frozenset((*desired.resources, *desired.frozen))


def read_desired(fleet: Fleet) -> Desired:
    """Everything git wants as the files stand now, with what is wrong with them."""
    with fleet.cache() as cache:
        found = load_desired(fleet.specs, shipped.schemas(), cache)
    return replace(found, settings=fleet.settings) if fleet.tree else found


def read_at_rest(fleet: Fleet) -> Desired:
    """The same, while git is at work on none of it; raises ProblemError `git_under_way`."""
    for _ in range(TRIES):
        _wait_for_git(fleet)
        before = stamp_of_git(fleet.specs)
        desired = read_desired(fleet)
        if stamp_of_git(fleet.specs) == before:
            return desired
    _wait_for_git(fleet)
    return read_desired(fleet)


def _wait_for_git(fleet: Fleet) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while (found := git_at_work(fleet.specs)) is not None:
        if time.monotonic() > until:
            raise ProblemError((found,))
        time.sleep(ASK_SECONDS)


def read_origins(
    fleet: Fleet, files: Mapping[Ref, str], gone: Collection[Ref] = ()
) -> Mapping[Ref, Origin]:
    """By which commit each document is as it stands in its file, or is `gone` from there."""
    with fleet.cache() as cache:
        return origins.origins(fleet.specs, files, gone, cache)


def origin_of(fleet: Fleet, resource: Resource) -> Origin:
    return read_origins(fleet, {resource.ref: resource.file})[resource.ref]
