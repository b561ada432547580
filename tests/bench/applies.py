"""What ten thousand applies of a small change leave: bytes on disk, memory, and time for each.

Every apply is the whole of one but for the hosts, which are imagined: specs read, planned twice, a
snapshot, the walk with all its transactions, what is published. A person comes and goes in one
allocation of a hundred specs.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

from reconciler.model.plan.plan import Plan
from reconciler.operations.apply.application import ApplyOptions
from reconciler.operations.apply.apply import apply
from reconciler.operations.fleet import Fleet
from reconciler.operations.open import open_fleet
from reconciler.operations.signals import Interrupts
from reconciler.operations.specs import read_desired
from reconciler.store.backup.maintenance import check
from tests import fleets
from tests.bench import prepared
from tests.bench.measuring import Row, scaled, seconds
from tests.simulated_hosts import FaultlessHosts, in_place_of_real_hosts

COUNT, PARTS = 10_000, 4
TOGGLED = "specs/projects/team-0/run-0.yaml"


def main(work: Path, scale: float) -> None:
    folder = prepared.mixed(work, 100)
    fleet = open_fleet(folder)
    count, began = scaled(COUNT, scale, least=200), 0
    with in_place_of_real_hosts(FaultlessHosts(read_desired(fleet))):
        for part in range(1, PARTS + 1):
            until = count * part // PARTS
            took = applies(fleet, range(began, until))
            Row(
                topic="applies",
                what=f"after {until} applies of a small change",
                ours=", ".join(told(fleet, took / (until - began))),
            ).tell()
            began = until
    if problems := check(fleet.database_file):
        raise SystemExit(str(problems[0]))


def applies(fleet: Fleet, numbers: range) -> float:
    """Seconds of so many applies, each of another content than the one before."""
    document = fleets.allocation("run-0", "p0-0", "gpus-2", "team-0")
    started = time.perf_counter()
    for number in numbers:
        access = ["p0-0", *(["p0-2"] if number % 2 == 0 else [])]
        changed = {**document, "spec": {**document["spec"], "access": access}}
        (fleet.folder / TOGGLED).write_text(fleets.to_yaml(changed), encoding="utf-8")
        done = apply(fleet, ApplyOptions(), agree, lambda progress: None, Interrupts())
        if done.problems or not done.run:
            raise SystemExit(f"apply {number}: {done.problems or done.plan.problems}")
    return time.perf_counter() - started


def agree(plan: Plan) -> bool:
    return True


def told(fleet: Fleet, each: float) -> Iterator[str]:
    yield f"{seconds(each)} each"
    yield f"database {size(fleet.database_file)}"
    for name in ("archive", "snapshots", "runs"):
        yield f"{name} {size(fleet.state / name)}"
    yield f"state in all {size(fleet.state)} in {len(list(fleet.state.rglob('*')))} files"
    yield f"memory {resident():.0f} MiB"


def size(path: Path) -> str:
    files = [path] if path.is_file() else path.rglob("*")
    return f"{sum(file.stat().st_size for file in files if file.is_file()) / 2**20:.1f} MiB"


def resident() -> float:
    """MiB of this process now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
