"""What the tests of runtimes share: a folder that stands for a host, and the hello bundle on it."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from gpuaas.converge import converge
from gpuaas.probes import Probes
from gpuaas.runtime_builds import at_work
from gpuaas.runtimes import Runtime, read_currents, read_runtimes

from tests.bundles import hello

TEMPLATES = Path(__file__).parents[2] / "templates"
PYTHON = "3.11"
PATIENCE = 120.0
PHASES = ("space", "environment", "download", "install", "verify", "seal")


def _program() -> Any:
    """What builds on hosts, as a module."""
    spec = importlib.util.spec_from_file_location("stage", TEMPLATES / "node/stage.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


stage = _program()


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a host answers; `code` is empty where it did as it was told."""

    answer: dict[str, Any]

    @property
    def code(self) -> str:
        return self.answer["problem"]["code"] if self.answer["problem"] else ""

    @property
    def message(self) -> str:
        return self.answer["problem"]["message"] if self.answer["problem"] else ""

    @property
    def changed(self) -> bool:
        return bool(self.answer["changed"])

    @property
    def evidence(self) -> dict[str, Any]:
        return dict(self.answer["evidence"])


@dataclass(frozen=True, slots=True)
class Ground:
    """A host's root, and a mirror that all may read."""

    root: Path
    mirror: Path

    @classmethod
    def laid(cls, folder: Path) -> Self:
        """An empty one, and a mirror with both versions."""
        (folder / "host/etc").mkdir(parents=True)
        for version in hello.VERSIONS:
            hello.make(folder / "mirror", version)
        return cls(folder / "host", folder / "mirror")

    def tree(self, version: str = "1.0") -> Path:
        return self.root / f"opt/gpuaas/runtimes/hello/{version}"

    def job(self, version: str = "1.0") -> Path:
        return self.root / Runtime("hello", version).folder[1:]

    @property
    def current(self) -> Path:
        return self.root / "opt/gpuaas/runtimes/hello/current"

    def item(self, version: str = "1.0", **changes: Any) -> dict[str, Any]:
        place = str(self.tree(version))
        activate = (TEMPLATES / "runtime/activate.sh.j2").read_text()
        for name, value in (("bundle", "hello"), ("version", version), ("place", place)):
            activate = activate.replace("{{ " + name + " }}", value)
        return {
            "bundle": "hello",
            "version": version,
            "python": PYTHON,
            "lock": hello.lock(version),
            "lockDigest": hello.lock_digest(version),
            "digest": "",
            "index": f"file://{self.mirror}",
            "imports": ["gpuaas_hello"],
            "current": "",
            "activate": activate,
            "program": (TEMPLATES / "node/stage.py").read_text(),
            **changes,
        }

    def seal(self, version: str = "1.0", **changes: Any) -> None:
        """A tree of a few files as a build leaves it, taken over and put in its place."""
        job, item = self.job(version), self.item(version, **changes)
        tree = job / f"trees/hello/{version}"
        for name in ("bin", "lib"):
            (tree / name).mkdir(parents=True)
        (tree / "bin/gpuaas-hello").write_text(f"#!/bin/sh\necho hello {version}\n")
        (tree / "bin/gpuaas-hello").chmod(0o775)
        (tree / "bin/python").symlink_to("/usr/bin/python3")
        (tree / "lib/gpuaas_hello.py").write_text(f"VERSION = '{version}'\n")
        for name in ("build", "seal", "tmp", "wheels"):
            (job / name).mkdir()
        (job / "build/done.json").write_text("{}")
        (job / "job.json").write_text(json.dumps({**item, "place": str(self.tree(version))}))
        stage.seal(stage.Job("seal", str(job)))

    def do(self, verb: str, item: dict[str, Any] | None = None, *, dry: bool = False) -> Receipt:
        entry = {"step": "s", "verb": verb, "ref": "bundle/hello", "item": item or self.item()}
        (receipt,) = converge(str(self.root), "", [entry], dry=dry)
        return Receipt(receipt)

    def shown(self, version: str = "1.0") -> str:
        """What the host tells of it; empty for nothing."""
        return self.facts().get(f"runtime hello/{version}", "")

    def facts(self) -> dict[str, str]:
        probes = Probes(str(self.root))
        found = probes.words({"runtime": read_runtimes, "current": read_currents})
        assert not probes.problems
        return found

    def ended(self, version: str = "1.0") -> str:
        """As it is shown when nobody is at work any more: who fails says so, and then ends."""
        own = f"-IS {self.job(version)}/stage"
        return self.awaited(
            lambda shown: not shown.startswith("staging") and not self.builders(own), version
        )

    def reached(self, phase: str, version: str = "1.0") -> None:
        """It is at this phase, or later; one that takes no time may never be seen."""
        later = [f"staging {one}" for one in PHASES[PHASES.index(phase) :]]
        # What has said nothing yet is told as at its first phase, before anybody works on it.
        said = self.job(version) / "build/phase.json"
        self.awaited(
            lambda shown: (shown in later and said.exists()) or shown.startswith("staged"), version
        )

    def awaited(self, wanted: Callable[[str], bool], version: str) -> str:
        """Looks often at the job, and at all that stands when that is at its end."""
        until = time.monotonic() + PATIENCE
        while True:
            shown = at_work(str(self.job(version)))
            if not shown.startswith("staging"):
                shown = self.shown(version)
            if wanted(shown):
                return shown
            assert time.monotonic() < until, shown
            time.sleep(0.05)

    def greeting(self, version: str = "1.0") -> str:
        program = self.tree(version) / "bin/gpuaas-hello"
        return subprocess.run([program], check=True, capture_output=True, text=True).stdout

    def stray(self) -> set[str]:
        """What there is of jobs."""
        folder = self.root / "opt/gpuaas/staging"
        return set(os.listdir(folder)) if folder.exists() else set()

    def builders(self, words: str = "stage") -> list[int]:
        """Living processes of builds of this host, of those with `words` among their own."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                told = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                if f"{self.root}/" in told and words in told:
                    found.append(int(folder.name))
        return found

    def killed(self, version: str = "1.0") -> None:
        """Whoever builds or seals it, by kill -9; it began long ago."""
        for pid in self.builders(f"-IS {self.job(version)}/stage"):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.forget_when(version)

    def forget_when(self, version: str = "1.0") -> None:
        for name in ("job.json", "build/done.json"):
            with suppress(FileNotFoundError):
                os.utime(self.job(version) / name, (0, 0))
