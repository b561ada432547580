"""`make demo`: the example fleet, from specs to folders that stand, without root.

Runs the commands a user would type and shows them. Its three nodes are folders below state/, and
their GPUs a stand-in that says so wherever it can.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from reconciler import shipped
from reconciler.operations.node.directory_host import lay
from reconciler.operations.open import open_fleet
from reconciler.operations.specs import read_desired

ROOT = Path(__file__).parents[1]
GPUAAS = Path(sys.executable).with_name("gpuaas")

NEXT = """
What you saw: specs became allocations, each with a login, its keys and GPUs that lie together.
What to try next, with .venv/bin on your PATH:

  gpuaas explain vision/train              why it was placed where it was
  gpuaas show vision/train                 what git wants, what was recorded, what the host says
  rm specs/projects/vision/notebook.yaml   then: gpuaas plan    (and git checkout to undo)
  gpuaas events                            who changed what, when and why
  ls state/hosts/gpu01/etc/gpuaas          what stands on a "host"
"""


COMMANDS = (
    ("validate",),
    ("plan", "--refresh"),
    ("apply", "--auto-approve"),
    ("status",),
    ("plan", "--detailed-exitcode"),
)


def main(folder: Path) -> None:
    """Walk the fleet in `folder`; done before, it only shows that there is nothing left to do."""
    show(folder, "init")
    lay_standins(folder)
    for words in COMMANDS:
        show(folder, *words)
    print(NEXT)


def show(folder: Path, *words: str) -> None:
    """Run a command as the user would; anything but success ends the demo."""
    print(f"\n$ gpuaas {' '.join(words)}", flush=True)
    code = subprocess.run([GPUAAS, *words], cwd=folder, check=False).returncode
    if code:
        sys.exit(f"\ngpuaas {words[0]} ended with {code}; nothing of the demo after it was run")


def lay_standins(folder: Path) -> None:
    """What a real fleet has in its racks."""
    for node in read_desired(open_fleet(folder)).of("node"):
        lay(folder / node.spec.root, node, shipped.templates())
        print(f"+ laid {node.spec.root}/, a stand-in of {len(node.spec.slots)} GPUs")


if __name__ == "__main__":
    main(ROOT)
