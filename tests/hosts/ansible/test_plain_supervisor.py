"""The stand-in without Ansible against the real one: the same work comes to the same."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from reconciler.hosts.ansible import run as ansible_run
from reconciler.hosts.ansible.executor import run_wave
from reconciler.hosts.evidence import observe
from reconciler.hosts.folders import short_folder
from reconciler.model.plan.work import HostProgress, HostWork, Receipt
from reconciler.model.ref import Ref
from tests.conftest import PLAIN_SUPERVISOR
from tests.harness.directory_host import (
    NO_KEYS,
    PLAYBOOKS,
    RELEASE,
    Wish,
    host,
    ignore,
    keys_item,
    options,
    provide_item,
    step,
    tree,
)

pytestmark = pytest.mark.walk

ROOTS = "/roots"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a wave came to, in words that do not depend on the folder."""

    receipts: tuple[Receipt, ...]
    progress: tuple[tuple[str, str, str], ...]
    paths: tuple[object, ...]
    trees: tuple[dict[str, str], ...]
    left: tuple[str, ...]
    log: frozenset[str]


def outcomes(
    folder: Path, patch: pytest.MonkeyPatch, wave: Callable[[Path], tuple[Receipt, ...]]
) -> tuple[Outcome, Outcome]:
    """Of the real one and of the stand-in, each in a folder of its own."""
    real = outcome(folder / "a", wave)
    patch.setattr(ansible_run, "GUARD", PLAIN_SUPERVISOR)
    return real, outcome(folder / "b", wave)


def outcome(folder: Path, wave: Callable[..., tuple[Receipt, ...]]) -> Outcome:
    folder.mkdir()
    progress: list[HostProgress] = []
    receipts = wave(folder, progress.append)
    hosts = [host(root, node=root.name) for root in sorted((folder / "nodes").iterdir())]
    seen = observe(hosts, options(folder), at=datetime.now(UTC))
    files = sorted(path for path in (folder / "runs").rglob("*") if path.is_file())
    lines = [line for file in files for line in file.read_text().splitlines()]

    def placeless(text: str) -> str:
        return text.replace(str(folder), ROOTS)

    return Outcome(
        receipts=tuple(
            replace(
                one,
                log="",
                problem=one.problem
                and replace(one.problem, message=placeless(one.problem.message)),
            )
            for one in receipts
        ),
        progress=tuple(
            sorted(
                ((p.node, p.phase, placeless(p.detail)) for p in progress), key=lambda one: one[0]
            )
        ),
        paths=tuple(one.facts and one.facts.paths for one in seen),
        trees=tuple(tree(Path(one.root)) for one in hosts),
        left=tuple(str(file.relative_to(folder)) for file in files),
        log=frozenset(line for line in lines if line.startswith(("ok:", "changed:", "fatal:"))),
    )


def works(folder: Path, *nodes: str, roots: bool = True) -> list[HostWork]:
    """An allocation to provide, with its keys, on each of these hosts."""
    made = []
    for node in nodes:
        root = folder / "nodes" / node
        root.parent.mkdir(exist_ok=True)
        if roots:
            root.mkdir()
        ref = Ref("allocation", "vision", node)
        order = "{{ lookup('pipe', 'false') }} {% raw %} {{"
        todo = (
            step("allocation.provide", provide_item(order), node=node, ref=ref),
            step("access.sync", keys_item(f"# {order}\n"), node=node, ref=ref),
        )
        made.append(HostWork(host=host(root, node=node), steps=todo))
    return made


def test_a_life_from_nothing_to_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Done, done again without a change, and released: receipts, facts, files and modes."""

    def life(folder: Path, told: Any) -> tuple[Receipt, ...]:
        first = works(folder, "gpu01", "gpu02")
        steps = (step("access.sync", NO_KEYS), step("allocation.release", RELEASE))
        last = [HostWork(host=first[0].host, steps=steps)]
        waves = (first, first, last)
        return tuple(r for wave in waves for r in run_wave(wave, options(folder), told, Wish()))

    real, plain = outcomes(tmp_path, monkeypatch, life)
    assert real == plain
    assert [(r.ok, r.changed) for r in real.receipts] == [(True, True)] * 4 + [
        (True, False)
    ] * 4 + [(True, True)] * 2
    assert not list(short_folder().glob(f"call-{os.getpid()}-*"))


def test_hosts_that_are_not_there_or_not_who_they_should_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wave(folder: Path, told: Any) -> tuple[Receipt, ...]:
        good, gone, other = works(folder, "good", "gone", "other")
        Path(gone.host.root).rmdir()
        other = replace(other, host=replace(other.host, machine_id="f" * 32))
        return run_wave([good, gone, other], options(folder), told, Wish())

    real, plain = outcomes(tmp_path, monkeypatch, wave)
    assert real == plain
    assert {r.node for r in real.receipts if not r.ok} == {"gone", "other"}


LIARS = """
import json, os, sys

request = json.loads(sys.argv[1])
told = [
    {key: one[key] for key in ("step", "ref", "verb")}
    | {"ok": True, "changed": True, "evidence": {}, "problem": None}
    for one in request["work"]
]
lie = os.path.basename(request["root"])
if lie == "broken":
    raise ValueError("no \\x1b[31m")
if lie == "endless":
    while True:
        sys.stdout.write("x" * 1000000)
told = {"one": told[:1], "twice": told + told[1:], "words": "all is well"}.get(lie, told)
text = json.dumps({"changed": True, "receipts": told})
print({"empty": "", "half": text[:40], "list": "[1]"}.get(lie, text))
"""


def test_hosts_that_lie_or_break(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("one", "twice", "words", "empty", "half", "list", "broken", "endless", "honest")

    def wave(folder: Path, told: Any) -> tuple[Receipt, ...]:
        shipped = Path(shutil.copytree(PLAYBOOKS, folder / "playbooks"))
        (shipped / "module_utils/gpuaas/converge.py").write_text(LIARS)
        return run_wave(works(folder, *names), options(folder, playbooks=shipped), told, Wish())

    real, plain = outcomes(tmp_path, monkeypatch, wave)
    assert real == plain
    assert {r.node for r in real.receipts if r.ok} == {"one", "honest"}


def is_alive(pid: str) -> bool:
    try:
        return Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_hosts_that_hang_are_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One does not end within its time, and nothing of it works on."""

    def wave(folder: Path, told: Any) -> tuple[Receipt, ...]:
        script = folder / "python"
        script.write_text(
            f'#!/bin/sh\ncode=$(mktemp {folder}/code.XXXXXX)\ncat > "$code"\n'
            f'if grep -q /nodes/slow "$code"; then echo $$ > {folder}/pid; sleep 300; fi\n'
            f'exec {sys.executable} "$@" < "$code"\n'
        )
        script.chmod(0o755)
        chosen = options(folder, python=str(script), timeout_s=6)
        receipts = run_wave(works(folder, "good", "slow"), chosen, told, Wish())
        assert not is_alive((folder / "pid").read_text().strip())
        return receipts

    real, plain = outcomes(tmp_path, monkeypatch, wave)
    assert replace(real, log=frozenset()) == replace(plain, log=frozenset())
    codes = [r.problem.code if r.problem else "" for r in real.receipts]
    assert codes == ["", "", "host_timeout", "host_timeout"]


def test_only_hosts_of_this_machine_are_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is made up about a host that it cannot reach."""
    monkeypatch.setattr(ansible_run, "GUARD", PLAIN_SUPERVISOR)
    (work,) = works(tmp_path, "far")
    far = replace(work.host, address="127.0.0.1", port=1, host_keys=("ssh-ed25519 AAAA",))
    receipts = run_wave([replace(work, host=far)], options(tmp_path), ignore, Wish())
    assert all(r.unknown and r.problem for r in receipts)
    assert list(Path(work.host.root).iterdir()) == []
