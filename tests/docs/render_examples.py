"""`python -m tests.docs.render_examples` runs the commands that docs/status.md shows.

The example fleet is really applied, to folders; what its commands say then goes into the page.
Times, ages, commits and random names are new each time, so a test compares all but these.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

from reconciler.cli.main import run
from tests import demo

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "status.md"

SHOWN = re.compile(
    r"(<!-- shown: (gpuaas [^\n]+) -->\n(`{3,})text\n)(.*?)^(\3\n)", re.DOTALL | re.MULTILINE
)
NEW_EACH_TIME = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"), "TIME"),
    (re.compile(r"\b\d+ (s|min|h|d)\b"), "AGE"),
    (re.compile(r"\bsha256:[0-9a-f]+"), "DIGEST"),
    (re.compile(r"\b(allocations|scratch)/[a-z0-9]+"), r"\1/ID"),
    (re.compile(r"\b(?:[0-9a-f]{7,8}|[0-9a-f]{16})\b"), "HASH"),
    (re.compile(r"\b([a-z]+)-[a-z0-9]{4}\b"), r"\1-XXXX"),
    (re.compile(r"\bid [a-z0-9]{10}\b"), "id ID"),
    (re.compile(r"#\d+"), "#N"),
    (re.compile(r" +"), " "),
)

SWEEP = """apiVersion: gpuaas/v1
kind: Allocation
metadata: {name: sweep, project: vision}
spec: {sku: h100-1, owner: ana}
"""
EVAL = """apiVersion: gpuaas/v1
kind: Allocation
metadata: {name: eval, project: nlp}
spec: {sku: h100-4, owner: dana}
"""


def alike(text: str) -> str:
    """What of an output is the same whenever it is made."""
    for pattern, word in NEW_EACH_TIME:
        text = pattern.sub(word, text)
    return text


def render(page: str, folder: Path) -> str:
    """The page with what its commands say of the fleet in `folder`."""
    return SHOWN.sub(lambda m: f"{m[1]}$ {m[2]}\n{said(folder, m[2])}{m[5]}", page)


def live(folder: Path) -> None:
    """A short life of the example fleet: things come, one goes, one waits, a host is drained."""
    for name in ("gpuaas.yaml", "specs"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, folder / name)
    projects = folder / "specs" / "projects"
    said(folder, "gpuaas init")
    with redirect_stdout(io.StringIO()):
        demo.lay_standins(folder)
    commit(folder, "olga")
    said(folder, "gpuaas apply --auto-approve")
    (projects / "vision" / "notebook.yaml").unlink()
    commit(folder, "cem")
    said(folder, "gpuaas apply --auto-approve=destroys")
    (projects / "vision" / "sweep.yaml").write_text(SWEEP)
    commit(folder, "ana")
    said(folder, "gpuaas apply --auto-approve")
    node = folder / "specs" / "nodes" / "gpu03.yaml"
    admin = '  admin: {state: draining, reason: "new fans on Monday"}\n'
    node.write_text(node.read_text().replace("spec:\n", f"spec:\n{admin}", 1))
    commit(folder, "olga")
    (projects / "nlp" / "eval.yaml").write_text(EVAL)
    commit(folder, "dana")
    said(folder, "gpuaas apply --auto-approve")


def commit(folder: Path, author: str) -> None:
    who = {"NAME": author, "EMAIL": f"{author}@corp.example"}
    names = {f"GIT_{role}_{k}": v for role in ("AUTHOR", "COMMITTER") for k, v in who.items()}
    for words in (("init", "-q"), ("add", "specs", "gpuaas.yaml"), ("commit", "-qm", "why")):
        subprocess.run(["git", "-C", folder, *words], check=True, env={**os.environ, **names})


def said(folder: Path, line: str) -> str:
    """What a command says to a pipe; olga is who types it."""
    _, *words = line.split()
    with (
        patch.dict(os.environ, {"LOGNAME": "olga"}),
        redirect_stdout(io.StringIO()) as out,
        redirect_stderr(io.StringIO()) as told,
    ):
        code = run([*words, "-C", str(folder)])
    assert code in (0, 3), f"{line} ended with {code}: {out.getvalue()}{told.getvalue()}"
    return out.getvalue()


def shown_commands() -> Iterator[str]:
    yield from (found[2] for found in SHOWN.finditer(PAGE.read_text(encoding="utf-8")))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        live(Path(place))
        PAGE.write_text(render(PAGE.read_text(encoding="utf-8"), Path(place)), encoding="utf-8")
