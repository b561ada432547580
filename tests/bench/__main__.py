"""`make bench`: every measurement, one table. Writes nothing unless told where.

    python -m tests.bench [TOPIC…] [--write docs/performance.md]

BENCH_SCALE=0.01 measures on fleets of a hundredth of the size. Each topic is a process of its own
and tells its rows as JSON lines; one that fails is shown, and makes the exit code 1.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.bench.measuring import Row

TOPICS = ("loading", "placing", "cluster", "plans", "startup", "hosts")
LONG = ("applies",)
"""Measured only where it is named: it takes half an hour."""

ROOT = Path(__file__).parents[2]
MARK = "<!-- what `make bench` printed -->"


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench")
    parser.add_argument("topics", nargs="*", metavar="TOPIC", help=", ".join(TOPICS + LONG))
    parser.add_argument("--write", type=Path, help="put the table into this page, after its mark")
    options = parser.parse_args()
    if unknown := set(options.topics) - set(TOPICS + LONG):
        parser.error(f"no such topic: {', '.join(sorted(unknown))}")
    scale = float(os.environ.get("BENCH_SCALE", "1"))
    work = Path(tempfile.mkdtemp(prefix="gpuaas-bench-"))
    started = time.monotonic()
    rows: list[Row] = []
    failed: list[str] = []
    try:
        for topic in options.topics or TOPICS:
            if not measure(topic, work, scale, rows):
                failed.append(topic)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    took = time.monotonic() - started
    print(f"\n{machine(scale)}; {took / 60:.1f} min\n\n{table(rows)}")
    if failed:
        print(f"\nfailed: {', '.join(failed)}", file=sys.stderr)
        return 1
    if options.write:
        write(options.write, rows, scale)
    return 0


def measure(topic: str, work: Path, scale: float, rows: list[Row]) -> bool:
    """Run one topic; its rows as they come, so that a long bench shows that it lives."""
    command = [sys.executable, "-m", f"tests.bench.{topic}", str(work), str(scale)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        told: dict[str, Any] = json.loads(line)
        row = Row(**told)
        rows.append(row)
        print("  ".join(part for part in cells(row) if part), flush=True)
    return process.wait() == 0


def cells(row: Row) -> tuple[str, ...]:
    verdict = {None: "", True: "yes", False: "**no**"}[row.met]
    return (row.topic, row.what, row.ours, row.beside, row.ratio, row.reach, verdict)


def table(rows: Sequence[Row]) -> str:
    head = ("topic", "what", "gpuaas", "beside it", "ratio", "reach", "reached")
    lines = [head, *map(cells, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    shown = [
        "| "
        + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        + " |"
        for line in lines
    ]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([shown[0], rule, *shown[1:]])


def machine(scale: float) -> str:
    cores = os.cpu_count()
    note = "" if scale == 1 else f", fleets scaled by {scale:g}"
    return f"{cores} cores, Python {platform.python_version()}, {platform.system()}{note}"


def write(page: Path, rows: Sequence[Row], scale: float) -> None:
    """What stands above the mark is written by people and stays."""
    text = page.read_text(encoding="utf-8") if page.exists() else MARK + "\n"
    if MARK not in text:
        raise SystemExit(f"{page} has no line {MARK!r}")
    kept = text[: text.index(MARK) + len(MARK)]
    page.write_text(f"{kept}\n\n{machine(scale)}.\n\n{table(rows)}\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
