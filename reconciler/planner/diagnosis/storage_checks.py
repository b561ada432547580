"""Checks of storage: attachments of absent holders, and wipes that have not ended."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.model.state.volume import VolumeState
from reconciler.planner.diagnosis.context import Chart, Seen
from reconciler.planner.storage.references import called_now


def left_attached(chart: Chart) -> Iterator[Seen]:
    """Attachments of an allocation that is neither recorded nor holds anything: no plan detaches
    them.
    """
    world, names = chart.world, called_now(chart.world)
    there = {one.id for one in world.recorded.values() if one.id}
    there |= {claim.allocation_id for claim in world.claims}
    for one in world.attachments:
        if one.allocation_id not in there:
            ref = names.get(one.volume, one.storage)
            text = f"{ref} may still be attached to {one.ref} on {one.node}, which is gone"
            command = f"gpuaas storage fence {ref.project}/{ref.name} --from {one.allocation_id}"
            command += " --reason TEXT"
            yield Seen(about=str(ref), text=text, since=one.since, command=command)


def wipes_unfinished(chart: Chart) -> Iterator[Seen]:
    if chart.run is not None and chart.run.living:
        return
    for ref, volume in sorted(chart.world.volumes.items()):
        if volume.state is VolumeState.WIPING:
            text = f"{ref}: the wipe of its data was begun and not finished"
            yield Seen(about=str(ref), text=text, since=volume.since, command="gpuaas apply")
