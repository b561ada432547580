"""A small fleet on disk that tests break in one place each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from reconciler import shipped
from reconciler.model.problem import Problem
from reconciler.model.settings import Settings
from reconciler.model.spec.desired import Desired
from reconciler.model.spec.document import DocumentCache, NoCache
from reconciler.specs.desired import load_desired
from reconciler.specs.settings import load_settings

PEOPLE = """\
apiVersion: gpuaas/v1
kind: User
metadata: {name: ana}
spec: {emails: [ana@corp.example]}
---
apiVersion: gpuaas/v1
kind: User
metadata: {name: bo}
spec: {emails: [bo@corp.example]}
"""

PROJECT = """\
apiVersion: gpuaas/v1
kind: Project
metadata: {name: vision}
spec:
  tenant: corp
  members:
    - {user: ana, role: owner}
    - {user: bo, role: member}
  quota: {gpus: 8}
  entitlements: {skus: [small]}
"""

PLATFORM = """\
apiVersion: gpuaas/v1
kind: Policy
metadata: {name: fleet}
spec: {tenants: [corp], release: {undoMinutes: 0}}
---
apiVersion: gpuaas/v1
kind: NodeFamily
metadata: {name: h100}
spec:
  gpu: {vendor: nvidia, model: H100, memoryMiB: 81559}
  base: {os: [debian-12], driverBranches: ["570"]}
---
apiVersion: gpuaas/v1
kind: Sku
metadata: {name: small}
spec:
  displayName: Small
  shape: gpu_slice
  slots: 1
  families: [h100]
  isolation: [directory]
  prices: [{from: "2026-01-01T00:00:00Z", perGpuHour: "2.10", currency: EUR}]
"""

ALLOCATION = """\
apiVersion: gpuaas/v1
kind: Allocation
metadata:
  name: {name}
  project: vision
spec:
  sku: small
  owner: ana
"""


def allocation(name: str) -> str:
    return ALLOCATION.format(name=name)


@dataclass(frozen=True)
class Fleet:
    folder: Path

    @property
    def settings(self) -> Settings:
        return load_settings(self.folder, shipped.schemas()["settings"])

    def write(self, name: str, content: str | bytes) -> Path:
        path = self.folder / "specs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def load(
        self, cache: DocumentCache | None = None, paths: Sequence[Path] | None = None
    ) -> Desired:
        return load_desired(self.settings, shipped.schemas(), cache or NoCache(), paths)

    def problems(self) -> list[Problem]:
        """What is wrong, without the remark that this fleet has no nodes."""
        return [p for p in self.load().problems if p.code != "sku_without_capacity"]

    def one(self) -> Problem:
        problems = self.problems()
        assert len(problems) == 1, problems
        return problems[0]
