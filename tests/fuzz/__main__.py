"""`make fuzz`: each target in a process of its own, for FUZZ_SECONDS each, led by coverage.

What was found lies in build/fuzz/TARGET; with its fix it moves to tests/fuzz/regressions/TARGET.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import NoReturn

from tests.fuzz.targets import TARGETS, load, regressions

ROOT = Path(__file__).parents[2]
PLACE = ROOT / "build" / "fuzz"
SECONDS = 600
LONGEST, SLOWEST, MEMORY_MIB = 8192, 20, 2048
"""Of one input, in bytes and seconds, and of the process."""


def main(names: list[str]) -> int:
    """The number of targets in which something was found."""
    failed = []
    for name in names or list(TARGETS):
        seconds = os.environ.get("FUZZ_SECONDS", str(SECONDS))
        print(f"fuzzing {name} for {seconds} s", flush=True)
        done = subprocess.run([sys.executable, "-m", "tests.fuzz", "--only", name], cwd=ROOT)
        found = sorted(path.name for path in (PLACE / name / "found").iterdir())
        if done.returncode or found:
            failed.append(name)
            print(f"{name}: look into {PLACE / name / 'found'}: {', '.join(found)}", flush=True)
        else:
            print(f"{name}: nothing found", flush=True)
    return len(failed)


def fuzz(name: str) -> NoReturn:
    """One target, in this process; it ends with it."""
    import atheris

    with atheris.instrument_imports(include=list(TARGETS[name])):
        target = load(name)
    place = PLACE / name
    shutil.rmtree(place / "found", ignore_errors=True)
    for folder in ("corpus", "found"):
        (place / folder).mkdir(parents=True, exist_ok=True)
    for seed in (*target.seeds(), *(content for _, content in regressions(name))):
        (place / "corpus" / sha256(seed).hexdigest()[:20]).write_bytes(seed)
    (place / "words").write_text("".join(map(_quoted, target.words())), encoding="ascii")
    options = {
        "max_total_time": os.environ.get("FUZZ_SECONDS", str(SECONDS)),
        "max_len": str(LONGEST),
        "timeout": str(SLOWEST),
        "rss_limit_mb": str(MEMORY_MIB),
        "dict": str(place / "words"),
        "artifact_prefix": f"{place / 'found'}/",
        "print_final_stats": "1",
    }
    words = [sys.argv[0], *(f"-{key}={value}" for key, value in options.items())]
    atheris.Setup([*words, str(place / "corpus")], target.look)
    atheris.Fuzz()
    raise AssertionError("it ends the process")


def _quoted(word: bytes) -> str:
    return '"' + "".join(f"\\x{byte:02x}" for byte in word) + '"\n'


if __name__ == "__main__":
    if sys.argv[1:2] == ["--only"]:
        fuzz(sys.argv[2])
    sys.exit(main(sys.argv[1:]))
