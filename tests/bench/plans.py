"""`plan` where nothing, or one file in a hundred, has changed: beside git and Terraform."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from tests.bench import prepared, terraform
from tests.bench.measuring import (
    Row,
    Run,
    at_least,
    at_most,
    memory,
    run,
    scaled,
    seconds,
    taking_turns,
)

STATUS = ["git", "status", "--porcelain"]
LARGEST = 100000
AHEAD_OF_TERRAFORM = {1000: 15, 10000: 50}


def main(work: Path, scale: float) -> None:
    peers = {}
    for size in (1000, 10000, LARGEST):
        count = scaled(size, scale, least=100)
        if size in AHEAD_OF_TERRAFORM:
            peers[size] = terraform.plan(work, count)
        folder = prepared.mixed(work, count)
        unchanged = measure(folder, size, count)
        if size in AHEAD_OF_TERRAFORM:
            beside_terraform(unchanged, peers[size], count, AHEAD_OF_TERRAFORM[size])
        elif peers[1000] is not None:
            ratio = unchanged.seconds / peers[1000].seconds
            what = f"{count} unchanged, as Terraform's {scaled(1000, scale, least=100)}"
            tell(what, unchanged, f"terraform {seconds(peers[1000].seconds)}", **at_most(ratio, 1))
        if size == 10000 and peers[1000] is not None:
            ratio = unchanged.peak_mib / peers[1000].peak_mib
            what = f"{count} unchanged, memory beside Terraform's for a tenth"
            tell(what, unchanged, f"terraform {memory(peers[1000])}", **at_most(ratio, 1))
        if count != scaled(10000, scale, least=100):
            shutil.rmtree(folder)


def measure(folder: Path, size: int, count: int) -> Run:
    """The rows of one fleet; the run where nothing had changed.

    The budgets beside git are for the largest fleet: in small ones both only start up.
    """
    prepared.forget_cache(folder)
    cold = run(prepared.PLAN, folder)
    tell(f"{count} cold", cold, "")
    unchanged, git = taking_turns(
        3, lambda: run(prepared.PLAN, folder), lambda: run(STATUS, folder)
    )
    budgets = size == LARGEST
    ratio = unchanged.seconds / git.seconds
    tell(f"{count} unchanged", unchanged, status(git), **(at_most(ratio, 2.5) if budgets else {}))
    touch(folder)
    touched = run(prepared.PLAN, folder)
    touch(folder)
    git = run(STATUS, folder)
    ratio = touched.seconds / git.seconds
    what = f"{count} all touched, none changed"
    tell(what, touched, status(git), **(at_most(ratio, 7) if budgets else {}))
    change(folder)
    changed = run(prepared.PLAN, folder)
    more = changed.seconds - unchanged.seconds
    Row(
        topic="plan",
        what=f"{count}, 1 % changed",
        ours=f"{seconds(changed.seconds)}, {memory(changed)}",
        ratio=f"{more:+.2f} s",
        reach="<= +2 s",
        met=more <= 2,
    ).tell()
    return unchanged


def beside_terraform(unchanged: Run, peer: Run | None, count: int, reach: float) -> None:
    if peer is None:
        return
    tell(
        f"{count} unchanged",
        unchanged,
        f"terraform {seconds(peer.seconds)}, {memory(peer)}",
        **at_least(peer.seconds / unchanged.seconds, reach),
    )


def tell(what: str, ours: Run, beside: str, **verdict: object) -> None:
    shown = f"{seconds(ours.seconds)}, {memory(ours)}"
    Row(topic="plan", what=what, ours=shown, beside=beside, **verdict).tell()  # type: ignore[arg-type]


def status(git: Run) -> str:
    return f"git status {seconds(git.seconds)}"


def touch(folder: Path) -> None:
    """New times, old content: git and gpuaas both have to read again."""
    for path in spec_files(folder):
        os.utime(path)


def change(folder: Path) -> None:
    """Another display name for one person in each hundred documents."""
    every = spec_files(folder)
    people = [path for path in every if "people" in path.parts]
    for path in people[:: max(1, len(people) * 100 // len(every))]:
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace("Person", "Somebody"), encoding="utf-8")


def spec_files(folder: Path) -> list[Path]:
    return sorted((folder / "specs").rglob("*.yaml"))


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
