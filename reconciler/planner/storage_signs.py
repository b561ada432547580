"""Signs of storage: what nobody who is there has, and a wipe that has not come to its end."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.model.volume import VolumeState
from reconciler.planner.chart import Chart, Seen


def left_attached(chart: Chart) -> Iterator[Seen]:
    """By an allocation that is neither recorded nor holds anything: no plan will detach it."""
    world = chart.world
    there = {one.id for one in world.recorded.values() if one.id}
    there |= {claim.allocation_id for claim in world.claims}
    for one in world.attachments:
        if one.allocation_id not in there:
            short = f"{one.storage.project}/{one.storage.name}"
            text = f"{one.storage} may still be attached to {one.ref} on {one.node}, which is gone"
            command = f"gpuaas storage fence {short} --from {one.allocation_id} --reason TEXT"
            yield Seen(about=str(one.storage), text=text, since=one.since, command=command)


def wipes_unfinished(chart: Chart) -> Iterator[Seen]:
    if chart.run is not None and chart.run.living:
        return
    for ref, volume in sorted(chart.world.volumes.items()):
        if volume.state is VolumeState.WIPING:
            text = f"{ref}: the wipe of its data was begun and not finished"
            yield Seen(about=str(ref), text=text, since=volume.since, command="gpuaas apply")
