"""Runs that say that all is well while a host or a receipt is missing: each is a failure."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.hosts.ansible import run as ansible_run
from reconciler.hosts.ansible.executor import run_wave
from reconciler.model.plan.work import HostWork, Receipt
from reconciler.model.ref import Ref
from tests.harness.directory_host import (
    DESCRIPTOR,
    NO_KEYS,
    PLAYBOOKS,
    Wish,
    host,
    ignore,
    options,
    provide_item,
    step,
)

pytestmark = pytest.mark.walk

Ends = dict[str, tuple[str, bool]]


def playbooks(folder: Path, edit: Callable[[str], str], code: str = "") -> Path:
    """The shipped ones with another play, or with other code for hosts."""
    made = Path(shutil.copytree(PLAYBOOKS, folder / "playbooks"))
    file = made / "converge.yml"
    file.write_text(edit(file.read_text()))
    if code:
        (made / "module_utils/gpuaas/converge.py").write_text(code)
    return made


def works(folder: Path, *nodes: str) -> list[HostWork]:
    """Two steps for each of these hosts, which are folders."""
    made = []
    for node in nodes:
        (folder / node).mkdir()
        ref = Ref("allocation", "vision", node)
        todo = (
            step("allocation.provide", provide_item(node), node=node, ref=ref),
            step("access.sync", NO_KEYS, node=node, ref=ref),
        )
        made.append(HostWork(host=host(folder / node, node=node), steps=todo))
    return made


def ends(receipts: tuple[Receipt, ...]) -> Ends:
    """Node → the code of what went wrong with all of its steps, and whether that is unknown."""
    told = {r.node: (r.problem.code if r.problem else "", r.unknown) for r in receipts}
    assert all(told[r.node] == (r.problem.code if r.problem else "", r.unknown) for r in receipts)
    return told


def run(folder: Path, edit: Callable[[str], str], *nodes: str, code: str = "") -> Ends:
    chosen = options(folder, playbooks=playbooks(folder, edit, code))
    return ends(run_wave(works(folder, *nodes), chosen, ignore, Wish()))


def test_a_play_that_matched_no_host_is_no_success(tmp_path: Path) -> None:
    """F-ANS-02: Ansible calls it successful and ends with 0."""
    found = run(tmp_path, lambda text: text.replace("hosts: all", "hosts: nobody"), "n1", "n2")
    assert found == dict.fromkeys(("n1", "n2"), ("play_incomplete", True))


def test_a_play_that_left_one_out_fails_for_that_one(tmp_path: Path) -> None:
    """F-ANS-02: fewer than planned; who was reached is believed."""
    found = run(tmp_path, lambda text: text.replace("hosts: all", "hosts: node-n1"), "n1", "n2")
    assert found == {"n1": ("", False), "n2": ("play_incomplete", True)}
    assert (tmp_path / "n1" / DESCRIPTOR.lstrip("/")).exists()
    assert list((tmp_path / "n2").iterdir()) == []


def test_a_task_that_was_skipped_was_not_done(tmp_path: Path) -> None:
    """F-ANS-02, F-ANS-14."""
    skipped = lambda text: text + "      when: gpuaas_root is match('.*n1')\n"  # noqa: E731
    assert run(tmp_path, skipped, "n1", "n2") == {
        "n1": ("", False),
        "n2": ("play_incomplete", True),
    }


BROKEN = "raise SystemExit('no')\n"


def test_a_failure_that_the_play_ignores_is_one(tmp_path: Path) -> None:
    """F-ANS-02: the run as a whole is well then."""
    found = run(tmp_path, lambda text: text + "      ignore_errors: true\n", "n1", code=BROKEN)
    assert found == {"n1": ("ansible_failed", True)}


def test_a_failure_that_is_rescued_is_one(tmp_path: Path) -> None:
    """F-ANS-02: what came to the rescue is not what was asked for."""

    def rescued(text: str) -> str:
        head, _, task = text.partition("  tasks:\n")
        inner = "".join(f"    {line}\n" for line in task.splitlines())
        rescue = "      rescue:\n        - ansible.builtin.debug: {msg: fine}\n"
        return f"{head}  tasks:\n    - block:\n{inner}{rescue}"

    assert run(tmp_path, rescued, "n1", code=BROKEN) == {"n1": ("ansible_failed", True)}


def test_a_host_that_the_play_may_not_reach_is_not_fine(tmp_path: Path) -> None:
    """F-ANS-02: unreachable hosts are ignored by this play, and by nobody else."""
    chosen = options(
        tmp_path,
        playbooks=playbooks(tmp_path, lambda text: text + "      ignore_unreachable: true\n"),
    )
    near, far = works(tmp_path, "n1", "n2")
    away = replace(
        far.host, address="127.0.0.1", port=1, machine_id="a" * 32, host_keys=("ssh-ed25519 AAAA",)
    )
    found = ends(run_wave([near, replace(far, host=away)], chosen, ignore, Wish()))
    assert found == {"n1": ("", False), "n2": ("host_unreachable", True)}


def test_a_result_that_was_too_large_is_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-ANS-02: ansible-runner puts {} in its place and goes on as if nothing had happened."""
    monkeypatch.setattr(ansible_run, "MAX_EVENT_BYTES", 100)
    found = ends(run_wave(works(tmp_path, "n1"), options(tmp_path), ignore, Wish()))
    assert found == {"n1": ("host_answer_invalid", True)}
    assert (tmp_path / "n1" / DESCRIPTOR.lstrip("/")).exists(), "and yet it was done"


LIARS = """
import json, os, sys

request = json.loads(sys.argv[1])
told = [
    {key: one[key] for key in ("step", "ref", "verb")}
    | {"ok": True, "changed": True, "evidence": {}, "problem": None}
    for one in request["work"]
]
lie = os.path.basename(request["root"])
told = {
    "one": told[:1],
    "none": [],
    "twice": told + told[1:],
    "other": [*told[1:], {**told[0], "step": "of-somebody-else"}],
    "more": [*told, {**told[0], "step": "of-somebody-else"}],
    "words": "all is well",
    "honest": told,
}[lie]
print(json.dumps({"changed": True, "receipts": told}))
"""


def test_receipts_are_counted(tmp_path: Path) -> None:
    """F-ANS-02: one for each item that was asked for, and no other one."""
    names = ("none", "twice", "other", "more", "words", "honest")
    chosen = options(tmp_path, playbooks=playbooks(tmp_path, str, LIARS))
    receipts = run_wave(works(tmp_path, "one", *names), chosen, ignore, Wish())
    half = [r for r in receipts if r.node == "one"]
    assert [r.problem.code if r.problem else "" for r in half] == ["", "receipt_missing"]
    assert ends(tuple(r for r in receipts if r.node != "one")) == {
        "none": ("receipt_missing", True),
        "twice": ("host_answer_invalid", True),
        "other": ("host_answer_invalid", True),
        "more": ("host_answer_invalid", True),
        "words": ("receipt_missing", True),
        "honest": ("", False),
    }


def test_a_line_of_the_guard_that_is_lost_or_spoilt_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-ANS-02: the host has done its work, and nobody was told; then nothing is believed."""
    guard = tmp_path / "guard.py"
    monkeypatch.setattr(ansible_run, "GUARD", guard)
    text = Path(ansible_run.__file__).with_name("supervisor.py").read_text()
    line = '    answers.write(json.dumps(line) + "\\n")\n'
    assert line in text
    spoilt = '    answers.write("}" if line["event"] == "runner_on_ok" else "")\n'
    (lost, bad) = (tmp_path / "lost", tmp_path / "bad")
    for folder, instead in (
        (lost, "    if line['event'] != 'runner_on_ok':\n    " + line),
        (bad, spoilt + line),
    ):
        folder.mkdir()
        guard.write_text(text.replace(line, instead))
        (work,) = works(folder, "n1")
        found = run_wave([work], options(folder), ignore, Wish())
        code = "play_incomplete" if folder == lost else "ansible_failed"
        assert ends(found) == {"n1": (code, True)}
        assert (folder / "n1" / DESCRIPTOR.lstrip("/")).exists()
