"""How long gpuaas takes to say something, beside Python and click alone."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.bench import prepared
from tests.bench.measuring import GPUAAS, Row, at_most, run, scaled, seconds, taking_turns

CLICK = "import click; click.command()(lambda: None)([], standalone_mode=False)"


def main(work: Path, scale: float) -> None:
    count = scaled(10000, scale, least=100)
    folder = prepared.mixed(work, count)
    prepared.commit(folder)
    python, floor, version, status = taking_turns(
        7,
        lambda: run([sys.executable, "-c", "pass"], folder),
        lambda: run([sys.executable, "-c", CLICK], folder),
        lambda: run([GPUAAS, "--version"], folder),
        lambda: run([GPUAAS, "status"], folder),
    )
    (folder / "specs" / "note.txt").touch()
    (edited,) = taking_turns(3, lambda: run([GPUAAS, "status"], folder))
    beside = f"python {seconds(python.seconds)}, + click {seconds(floor.seconds)}"
    for what, measured, reach in (
        ("gpuaas --version", version, 1.3),
        (f"gpuaas status, {count} specs", status, 3),
        (f"gpuaas status, {count} specs, not as committed", edited, 3),
    ):
        Row(
            topic="start-up",
            what=what,
            ours=seconds(measured.seconds),
            beside=beside,
            **at_most(measured.seconds / floor.seconds, reach),
        ).tell()


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
