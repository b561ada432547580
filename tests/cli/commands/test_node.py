"""`gpuaas node` and `slot` as an operator uses them, and what their screens say."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from reconciler import shipped
from reconciler.cli.text import TextLine, render
from reconciler.cli.views import approved as approved_view
from reconciler.cli.views import node as node_view
from reconciler.kinds.node.spec import (
    Admin,
    AdminState,
    Approval,
    Identity,
    NameDigest,
    NicSpec,
    Nvme,
    SlotGpu,
    Ssh,
)
from reconciler.kinds.node.spec import Slot as SlotSpec
from reconciler.model.host.evidence import Check, CheckResult
from reconciler.model.problem import Problem, Severity
from reconciler.operations.node.approve import ApprovedNode
from reconciler.operations.node.show import InForce, NodeShown, SlotShown
from tests.cli.commands.test_processes import Shell, at_terminal
from tests.fleets import public_key
from tests.harness.sshd import needs_sshd, sshd
from tests.harness.yard import Yard, copy_of, laid, node

HOSTILE = "x\x1b[2J\nforged \u202egnp"


@pytest.fixture(scope="session")
def observed(tmp_path_factory: pytest.TempPathFactory) -> Yard:
    """Two nodes whose hosts were asked; of the second one, slot s1 has no approval."""
    yard = laid(tmp_path_factory.mktemp("nodes"), {"gpu01": 2})
    yard.write(node("gpu02", 2, covers=("host", "s0")))
    yard.lay_nodes()
    assert yard.plan("--refresh").code == 0
    return yard


@pytest.fixture
def yard(observed: Yard, tmp_path: Path) -> Yard:
    return copy_of(observed, tmp_path / "fleet")


@pytest.fixture
def shell(yard: Yard) -> Shell:
    return Shell(yard.folder)


def shown(lines: Iterable[TextLine]) -> str:
    return "".join(render(line) + "\n" for line in lines)


def result(yard: Yard, *words: str) -> Any:
    said = yard.gpuaas(*words)
    assert said.code == 0, said.document
    jsonschema.Draft202012Validator(json.loads(shipped.schemas()["problems"])).validate(
        said.document
    )
    return said.document["result"]


# -- reading


def test_plural_nouns_are_short_for_lists(yard: Yard) -> None:
    for noun in ("node", "slot"):
        said = yard.gpuaas(f"{noun}s")
        assert said.document == yard.gpuaas(noun, "list").document
        assert said.document["command"] == f"{noun} list"


def test_a_noun_alone_shows_its_verbs(shell: Shell) -> None:
    alone = shell.here("node")
    assert alone.returncode == 64
    verbs = ("list", "show", "bootstrap", "discover", "approve")
    assert all(f"\n  {verb} " in alone.stdout for verb in verbs)
    wrong = shell.here("node", "aprove")
    assert wrong.returncode == 64
    assert "did you mean approve?" in wrong.stderr


def test_show_tells_each_check_and_who_approved_what(yard: Yard) -> None:
    """INV-15, INV-17: one result a check, driver and system against the family among them."""
    found = result(yard, "node", "show", "gpu02")
    checks = {check["name"]: check for check in found["readiness"]}
    assert {"reachable", "evidence", "boot", "os", "driver", "cards", "memory"} <= set(checks)
    assert {check["result"] for check in found["readiness"]} == {"pass"}
    assert checks["os"]["value"] == "debian-12"
    assert (found["source"], found["age"] is not None) == ("standin", True)
    assert [(one["covers"], one["by"]) for one in found["approvals"]] == [
        (["host", "s0"], "olga"),
        (["s1"], ""),
    ]
    states = [(slot["approved"], slot["state"]) for slot in found["slots"]]
    assert states == [(True, "free"), (False, "not_approved")]
    again = result(yard, "node", "show", "node/gpu02")
    # Its age has grown meanwhile, and what is said of that.
    for one in (found, again):
        assert isinstance(one.pop("age"), int)
        one["readiness"] = [check for check in one["readiness"] if check["name"] != "evidence"]
    assert again == found


def test_a_base_that_is_not_of_the_family_fails_its_check(yard: Yard) -> None:
    """INV-17: what the host runs is held against what its family declares."""
    (yard.root("gpu02") / "etc/os-release").write_text('ID=debian\nVERSION_ID="13"\n')
    cards = yard.root("gpu02") / "etc/gpuaas-standin/gpus.csv"
    cards.write_text(cards.read_text().replace("580.105.08", "610.1"))
    assert yard.plan("--refresh").code == 0
    found = result(yard, "node", "show", "gpu02")
    checks = {check["name"]: (check["result"], check["value"]) for check in found["readiness"]}
    assert checks["os"] == ("fail", "debian-13, family: debian-12")
    assert checks["driver"] == ("fail", "610.1-standin, family: 580")


def test_a_node_without_evidence_is_unknown(yard: Yard) -> None:
    yard.write(node("gpu03", 1))
    text = Shell(yard.folder)("node", "show", "gpu03").stdout
    assert "never observed   gpuaas plan --refresh asks the host" in text
    assert "unknown  reachable  never observed" in text
    with yard.away("gpu02"):
        yard.plan("--refresh")
        text = Shell(yard.folder)("node", "show", "gpu02").stdout
        assert "from the host itself" in text
        assert "reachable  root folder" in text and "is not there" in text
    missing = yard.gpuaas("node", "show", "gpu04")
    assert (missing.code, missing.problems) == (1, ["not_found"])
    assert "did you mean" in missing.messages


SLOT = SlotSpec(
    name="s0",
    gpu=SlotGpu(uuid="GPU-1", pci_address="0000:0a:00.0", model="H100", memory_mib=81559),
    numa=0,
    cpus="4-16,116-128",
    memory_gib=224,
    nvme=Nvme(id="nvme-eui.0025", size_gib=3500),
    nic=NicSpec(pci_address="0000:0c:00.0", name="mlx5_0", rdma=True),
)
SHOWN = NodeShown(
    name="gpu01",
    file="specs/fleet/gpu01.yaml",
    line=4,
    address="10.0.0.11",
    ssh=Ssh(user="gpuaas"),
    family="h100-sxm",
    isolation="account",
    sharing="tenant",
    admin=Admin(state=AdminState.DRAINING, reason=HOSTILE),
    identity=Identity(machine_id="4f3c", host_keys=("ssh-ed25519 AAAA",), serial="SGH312"),
    fingerprints=("SHA256:abc (ssh-ed25519)",),
    commit="3f9c2e1aaaa",
    author="olga",
    approvals=(
        InForce(covers=("host", "s0", "s1", "s2", "s4"), by="olga", at="2026-11-20T09:12:00Z"),
        InForce(covers=("s3",), fallen=True),
        InForce(covers=("s5",)),
    ),
    slots=(
        SlotShown(slot=SLOT, approved=True, state="held", allocation="allocation/vision/a"),
        SlotShown(slot=SLOT, approved=True, state="not_ready", cause=HOSTILE),
    ),
    readiness=(
        Check(name="reachable", result=CheckResult.PASS, value="answered"),
        Check(name="driver", result=CheckResult.FAIL, value=HOSTILE),
        Check(name="walls", result=CheckResult.UNKNOWN),
    ),
    hardening=(
        Check(name="sysctl kernel.kptr_restrict", result=CheckResult.FAIL, value="0, not 2"),
        Check(name="mail pipes", result=CheckResult.PASS, value="none"),
    ),
    source="host",
    age=41,
)


def test_a_node_on_the_screen(golden) -> None:
    """INV-15: what is wrong stands out by a word, and hostile text stays text (F-CLI-03)."""
    golden("node.txt", shown(node_view.lines(SHOWN)))
    assert "\n" in shown(node_view.lines(SHOWN, width=40))


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["host"], "host"),
        (["s0", "s1"], "s0, s1"),
        (["host", "s0", "s1", "s2", "s3"], "host, s0 … s3"),
        (["s0", "s1", "s2", "s9", "s10", "s11"], "s0 … s2, s9 … s11"),
        (["left", "right", "s1x", "s"], "left, right, s1x, s"),
        ([], ""),
    ],
)
def test_runs_of_slots_are_short(names: list[str], told: str) -> None:
    assert node_view.short(names) == told


# -- approving


APPROVED = ApprovedNode(
    node="gpu01",
    approval=Approval(
        by="olga",
        at="2026-11-20T09:12:00Z",
        covers=("s0", "s1", "s2"),
        digests=tuple(NameDigest(name=f"s{at}", digest=f"sha256:6b1{at}") for at in range(3)),
    ),
    file="specs/fleet/gpu01.yaml",
    line=46,
    pending=("host",),
    problems=(
        Problem(
            code="approval_contradicted",
            message="s1 is approved, but the host last said otherwise: GPU-2 not seen",
            hint="look again",
            ref="node/gpu01",
            severity=Severity.WARNING,
        ),
    ),
)


def test_an_approval_on_the_screen(golden) -> None:
    golden("approved.txt", shown(approved_view.lines(APPROVED)))


def test_approve_ends_by_saying_that_nothing_has_happened(
    yard: Yard, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "olga")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "olga@corp.example")
    yard.commit()
    said = shell.here("node", "approve", "gpu02")
    assert said.returncode == 0, said.stderr
    assert "approved gpu02: s1" in said.stdout
    lines = [line.strip() for line in said.stdout.splitlines()]
    assert lines[-3] == "Nothing has happened yet. Commit it, then apply:"
    commands = [line for line in lines[-2:-1] if line.startswith("git ")]
    subprocess.run(commands[0], shell=True, cwd=yard.folder, check=True, capture_output=True)
    assert "uncommitted" not in shell.here("plan").stdout
    assert lines[-1] == "gpuaas apply"
    again = yard.gpuaas("node", "approve", "gpu02")
    assert (again.code, again.problems) == (1, ["already_approved"])
    both = yard.gpuaas("node", "approve", "gpu02", "--slot", "s1", "--host-only")
    assert (both.code, both.problems) == (64, ["usage"])


def test_approve_as_a_document(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_AUTHOR_EMAIL", "olga@corp.example")
    found = result(yard, "node", "approve", "gpu02", "--slot", "s1")
    assert found["approval"]["covers"] == ["s1"]
    assert found["file"] == "specs/node/gpu02.yaml"
    assert (yard.folder / found["file"]).read_text().splitlines()[found["line"] - 1].strip() == (
        "- by: olga"
    )


# -- bootstrapping and discovering


def test_bootstrap_prints_and_does_no_more(yard: Yard, shell: Shell) -> None:
    (yard.folder / "control.pub").write_text(public_key("control") + "\n")
    printed = shell.here("node", "bootstrap", "--print", "--key", "control.pub", "--login", "ops")
    assert printed.returncode == 0, printed.stderr
    assert public_key("control") in printed.stdout
    assert "login=ops\n" in printed.stdout
    without = shell.here("node", "bootstrap", "--key", "control.pub")
    assert (without.returncode, without.stdout) == (64, "")
    assert "--print" in without.stderr


@needs_sshd
def test_an_unseen_key_is_asked_about_at_a_terminal_only(
    yard: Yard, shell: Shell, tmp_path: Path
) -> None:
    """Rule 8: key and fingerprint are shown; a no, and nobody to ask, are refusals (F-CLI-02)."""
    with sshd(tmp_path / "sshd") as running:
        ask = ("node", "discover", "127.0.0.1", "--port", str(running.port), "--name", "gpu09")
        public = running.folder / "host_key.pub"
        listed = subprocess.check_output(["ssh-keygen", "-lf", public], text=True).split()[1]
        text, code = at_terminal(shell, *ask, typed=b"no\n")
        assert code == 1
        assert listed.encode() in text
        assert b"host_key_unseen" in text
        unasked = yard.gpuaas(*ask)
        assert (unasked.code, unasked.problems) == (1, ["host_key_unseen"])
        assert listed in unasked.messages
        assert "ssh-keygen -lf" in unasked.messages


def test_a_host_that_is_not_there_is_a_document(yard: Yard) -> None:
    said = yard.gpuaas("node", "discover", "127.0.0.1", "--port", "1", "--name", "gpu09")
    assert (said.code, said.problems) == (1, ["host_unreachable"])
    for wrong in (("--port", "0"), ("--name", "GPU 9")):
        assert yard.gpuaas("node", "discover", "127.0.0.1", *wrong).code == 64


# -- completing


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("gpuaas node show ", ["gpu01", "gpu02"]),
        ("gpuaas node approve gpu02", ["gpu02"]),
        ("gpuaas node di", ["discover"]),
        ("gpuaas sl", ["slot"]),
    ],
)
def test_nodes_are_completed_by_name(shell: Shell, words: str, found: list[str]) -> None:
    asked: Mapping[str, str] = {
        "_GPUAAS_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }
    said = shell(**asked)
    assert [line.partition(",")[2] for line in said.stdout.splitlines()] == found


def test_completion_outside_a_fleet_is_silent(tmp_path: Path) -> None:
    said = Shell(tmp_path)(
        _GPUAAS_COMPLETE="bash_complete", COMP_WORDS="gpuaas node show ", COMP_CWORD="3"
    )
    assert (said.stdout.strip(), said.stderr) == ("", "")
