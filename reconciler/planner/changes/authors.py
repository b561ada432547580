"""Authors of changes: the commit behind each difference, asked only for what is shown."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from reconciler.kinds.contract import Context
from reconciler.model.plan.plan import Action
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Origin
from reconciler.planner.core.difference import Difference
from reconciler.planner.core.request import PlanRequest


def origins_of(request: PlanRequest, differences: Iterable[Difference]) -> Mapping[Ref, Origin]:
    """By which commit each is, or was taken away; nobody asks that of what stays as it is."""
    asked = [d for d in differences if d.file and d.action is not Action.FROZEN]
    leaving = (d for d in asked if d.resource is None and d.ref not in request.desired.resources)
    gone = {
        d.ref: (d.recorded.commit, d.recorded.applied_at) if d.recorded else ("", "")
        for d in leaving
    }
    files = {d.ref: d.file for d in asked}
    for one in asked:
        if one.former is not None and one.recorded is not None and one.recorded.file:
            files[one.former] = one.recorded.file
            gone[one.former] = (one.recorded.commit, one.recorded.applied_at)
    return origins_in(request, files, gone)


def origins_in(
    request: PlanRequest, files: Mapping[Ref, str], gone: Collection[Ref]
) -> Mapping[Ref, Origin]:
    """What no commit has is by who asks now, as far as anybody can tell."""
    nobody = Origin(author=request.actor)
    found = request.origins(files, gone) if files else {}
    return {ref: one if one.commit or one.doubt else nobody for ref, one in found.items()}


def with_origins(request: PlanRequest, context: Context, files: Mapping[Ref, str]) -> Context:
    """The same, knowing also who wrote what stands in these files."""
    unknown = {ref: file for ref, file in files.items() if file and ref not in context.origins}
    if not unknown:
        return context
    return replace(context, origins={**context.origins, **origins_in(request, unknown, ())})
