"""A yard: one fleet of directory hosts in a folder of its own, and the commands of a user in it."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from reconciler import shipped
from reconciler.cli.exit_codes import Exit
from reconciler.cli.main import run
from reconciler.model.plan.plan import Plan, Risk
from reconciler.model.state.world import World
from reconciler.operations.apply.application import Applied, ApplyOptions
from reconciler.operations.apply.apply import apply
from reconciler.operations.fleet import Fleet
from reconciler.operations.node.directory_host import DRIVER, lay
from reconciler.operations.open import open_fleet
from reconciler.operations.signals import Interrupts
from reconciler.operations.specs import read_desired
from reconciler.store.snapshot import read_world
from tests.harness import own_process
from tests.planner import fleet as paper

ROOT = Path(__file__).parents[2]
SIZES = (1, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What one command answered: its exit code, its document, and what it told the person."""

    code: int
    document: Mapping[str, Any]
    told: str

    @property
    def problems(self) -> list[str]:
        return [problem["code"] for problem in self.document["problems"]]

    @property
    def messages(self) -> str:
        return "\n".join(f"{p['message']} | {p['hint']}" for p in self.document["problems"])

    @property
    def plan(self) -> Mapping[str, Any]:
        result: Mapping[str, Any] = self.document["result"]
        plan: Mapping[str, Any] = result.get("plan", result)
        return plan

    @property
    def actions(self) -> dict[str, str]:
        """Ref → action, for each line of the plan."""
        return {change["ref"]: change["action"] for change in self.plan["changes"]}

    @property
    def blocked(self) -> dict[str, str]:
        """Ref → code, for each line that will not be carried out."""
        changes = self.plan["changes"]
        return {c["ref"]: c["problem"]["code"] for c in changes if "problem" in c}

    def change(self, ref: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = next(c for c in self.plan["changes"] if c["ref"] == ref)
        return found


class Yard:
    """`write` and `remove` change git's side, `gpuaas` is the user's shell, the rest looks."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.specs = folder / "specs"

    def write(self, *documents: Mapping[str, Any]) -> None:
        """A file a document, named by its kind, project and name."""
        for one in documents:
            path = self.file(one)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(yaml.safe_dump(dict(one), sort_keys=False), encoding="utf-8")

    def remove(self, *documents: Mapping[str, Any]) -> None:
        """Committed as removed, and nothing beside them: nothing else is a removal."""
        files = [self.file(one) for one in documents]
        self._commit("olga", *map(str, files))
        for file in files:
            file.unlink()
        self._commit("olga", *map(str, files))

    def file(self, document: Mapping[str, Any]) -> Path:
        metadata = document["metadata"]
        parts = (document["kind"].lower(), metadata.get("project", ""), f"{metadata['name']}.yaml")
        return self.specs.joinpath(*filter(None, parts))

    def commit(self, author: str = "olga") -> None:
        """All that lies there, as the last change of `author`."""
        if not (self.folder / ".git").exists():
            subprocess.run(["git", "-C", self.folder, "init", "-q"], check=True)
        self._commit(author, "specs", "gpuaas.yaml")

    def _commit(self, author: str, *files: str) -> None:
        if not (self.folder / ".git").exists():
            return
        who = {"NAME": author, "EMAIL": f"{author}@corp.example"}
        names = {f"GIT_{role}_{k}": v for role in ("AUTHOR", "COMMITTER") for k, v in who.items()}
        commit = ("commit", "--allow-empty", "-qm", "x", "--", *files)
        for words in (("add", "-A", "--", *files), commit):
            subprocess.run(
                ["git", "-C", self.folder, *words], check=True, env={**os.environ, **names}
            )

    def gpuaas(self, *words: str) -> Said:
        """One command with `-o json`, in this process.

        A signal that comes meanwhile is meant for the tests, though the command takes it for its
        own: they end by it.
        """
        out, told = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(told):
            code = run(["-C", str(self.folder), *words, "-o", "json"])
        if code == Exit.INTERRUPTED:
            raise KeyboardInterrupt
        return Said(code=code, document=json.loads(out.getvalue()), told=told.getvalue())

    def plan(self, *words: str) -> Said:
        return self.gpuaas("plan", *words)

    def apply(self, *words: str) -> Said:
        """Every risk is agreed to beforehand, unless `words` say how much."""
        agreed = any(word.startswith("--auto-approve") for word in words)
        return self.gpuaas("apply", *words, *(() if agreed else ("--auto-approve=destroys",)))

    def fleet(self, now: datetime | None = None) -> Fleet:
        """The fleet as operations see it, at a moment of one's choice."""
        opened = open_fleet(self.folder)
        return replace(opened, now=lambda: now) if now else opened

    def apply_at(
        self, now: datetime | None = None, ask: Callable[[Plan], bool] = lambda plan: True
    ) -> Applied:
        """An apply of a person who is asked; every risk is agreed to if they agree."""
        return apply(self.fleet(now), ApplyOptions(), ask, lambda progress: None, Interrupts())

    def approved_at(self, now: datetime, approve: Risk = Risk.DESTROYS) -> Applied:
        options = ApplyOptions(approve=approve)
        return apply(
            self.fleet(now), options, lambda plan: True, lambda progress: None, Interrupts()
        )

    def python(self, script: str, *words: str) -> subprocess.Popen[str]:
        """A process of its own; `script` is Python and finds the folder in `sys.argv[1]`."""
        return subprocess.Popen(
            [sys.executable, "-c", own_process.script(script), str(self.folder), *words],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    @property
    def world(self) -> World:
        with self.fleet().reading() as database:
            return read_world(database)

    @property
    def claims(self) -> dict[str, str]:
        """`ref@node/slot` → state, of every live claim."""
        return {f"{c.ref}@{c.node}/{c.slot or '*'}": c.state.value for c in self.world.claims}

    def recorded(self, ref: str) -> Any:
        return {str(known): one for known, one in self.world.recorded.items()}.get(ref)

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Straight from the database file."""
        connection = sqlite3.connect(f"file:{self.folder}/state/gpuaas.db?mode=ro", uri=True)
        try:
            return connection.execute(query, values).fetchall()
        finally:
            connection.close()

    @property
    def runs(self) -> list[str]:
        """One folder for each time that Ansible was started."""
        return sorted(os.listdir(self.folder / "state/runs"))

    def root(self, node: str) -> Path:
        return self.folder / "nodes" / node

    def keys(self, ref: str) -> list[str]:
        """Who may log in to a recorded allocation, as its host says: `user/key`."""
        one = self.recorded(ref)
        lines = (self.root(one.node) / f"etc/gpuaas/ssh/{one.login}").read_text().splitlines()
        return [line.rpartition(" ")[2] for line in lines if not line.startswith("#")]

    def hosts(self) -> str:
        """A digest of everything on every host: names, modes, times, targets and content."""
        seen = hashlib.sha256()
        for path in sorted((self.folder / "nodes").rglob("*")):
            status = path.lstat()
            about = f"{path.relative_to(self.folder)} {status.st_mode} {status.st_mtime_ns}"
            seen.update(about.encode())
            if path.is_symlink():
                seen.update(os.readlink(path).encode())
            elif path.is_file():
                seen.update(path.read_bytes())
        return seen.hexdigest()

    @contextmanager
    def away(self, node: str) -> Iterator[None]:
        """The node's root folder is not there."""
        elsewhere = self.folder / f"{node}-away"
        self.root(node).rename(elsewhere)
        try:
            yield
        finally:
            elsewhere.rename(self.root(node))

    def lay_nodes(self) -> None:
        for node in read_desired(self.fleet()).of("node"):
            lay(self.folder / node.spec.root, node, shipped.templates())


def two_hosts(folder: Path) -> Yard:
    """Committed: two hosts that nobody has looked at yet, and what is wanted of them."""
    yard = laid(
        folder,
        {"gpu01": 2, "gpu02": 2},
        paper.allocation(
            "train", "slice-2", node="gpu01", access=["ana", "bo"], expiresAt=paper.LASTING
        ),
        paper.allocation("solo", node="gpu02", expiresAt=paper.LASTING),
    )
    settings = {"operators": ["olga"], "publish": {"dir": "published"}}
    (yard.folder / "gpuaas.yaml").write_text(yaml.safe_dump(settings))
    yard.commit()
    return yard


def copy_of(yard: Yard, folder: Path) -> Yard:
    """The same fleet elsewhere; roots count from the fleet's folder, so it works there too."""
    shutil.copytree(yard.folder, folder, symlinks=True, dirs_exist_ok=True)
    return Yard(folder)


def laid(folder: Path, nodes: Mapping[str, int], *documents: Mapping[str, Any]) -> Yard:
    """A new fleet with nodes of so many slots, their stand-ins laid, nothing applied."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "gpuaas.yaml").write_text("operators: [olga]\n", encoding="utf-8")
    yard = Yard(folder)
    yard.write(*fixed_documents(), *(node(name, size) for name, size in nodes.items()))
    yard.write(*documents)
    made = yard.gpuaas("init")
    assert made.code == 0, made.document
    yard.commit()
    yard.lay_nodes()
    return yard


def node(name: str, size: int, **changes: Any) -> dict[str, Any]:
    """A node whose cards have numbers as a real one would tell them."""
    slots = [paper.slot(name, number) for number in range(size)]
    for number, slot in enumerate(slots):
        slot["gpu"] = {**slot["gpu"], "uuid": card(name, number)}
    return paper.node(name, slots, **changes)


def card(name: str, number: int) -> str:
    return f"GPU-00000000-0000-0000-{int(name[-2:]):04}-{number:012}"


def hardware_key(name: str) -> str:
    """A well formed ed25519 key of a token that nobody has."""
    kind = b"sk-ssh-ed25519@openssh.com"
    parts = (kind, hashlib.sha256(name.encode()).digest(), b"ssh:")
    blob = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    return f"{kind.decode()} {base64.b64encode(blob).decode()} {name}"


def fixed_documents() -> Iterator[Mapping[str, Any]]:
    """Everything but nodes and allocations: one tenant, two projects, five people, SKUs."""
    base = {"os": ["debian-12"], "driverBranches": [DRIVER.split(".")[0]]}
    guard = {"maxRemovals": 5, "maxRemovalPercent": 100}
    yield paper.policy(guard=guard, grant={"mayBeOpenEnded": True})
    yield paper.family(base=base)
    yield from (paper.sku(f"slice-{size}", size) for size in SIZES)
    yield paper.sku("whole", 0)
    yield from (paper.user(name, "laptop", "desk") for name in ("olga", "ana", "bo", "cem", "dana"))
    yield project("vision", "ana", "bo", "cem", "dana")
    yield project("nlp", "bo", "ana")


def project(name: str, *members: str) -> dict[str, Any]:
    skus = [*(f"slice-{size}" for size in SIZES), "whole"]
    return paper.project(name, *members, entitlements={"skus": skus})
