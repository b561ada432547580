"""Hosts that say of themselves whatever they like: people see words, and nobody else is harmed."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from reconciler import shipped
from reconciler.cli.main import run
from reconciler.hosts.ansible.executor import RunOptions
from reconciler.model.host.evidence import NodeFacts, Observation
from reconciler.model.plan.work import HostWork, StepOutcome
from reconciler.model.problem import Problem
from reconciler.model.ref import Ref
from reconciler.model.state.volume import Attachment, Volume
from reconciler.model.state.world import World
from reconciler.operations import observe
from reconciler.operations.apply.wave.work import Crew, Leaving, Worked
from reconciler.operations.fleet import Fleet
from reconciler.operations.observe import run_options
from reconciler.operations.signals import Interrupts
from reconciler.operations.storage import storage
from tests.harness import directory_host as hosting
from tests.harness.applied_fleet import BOX, SOLO, TRAIN
from tests.harness.yard import Yard, copy_of
from tests.security.corpus import HOSTILE

pytestmark = [pytest.mark.walk, pytest.mark.ansible]

WORDS = [text for text in HOSTILE if text.isprintable() and 0 < len(text) <= 1000]
STEERING = [text for text in HOSTILE if not text.isprintable() and len(text) <= 1000]
VIEWS = (
    ("plan",),
    ("status",),
    ("nodes",),
    ("slots",),
    ("capacity",),
    ("show", "node/gpu01"),
    ("show", "vision/train"),
    ("node", "show", "gpu01"),
    ("explain", "vision/train"),
    ("why", "vision/train"),
    ("evidence", "vision/train"),
    ("evidence", "node/gpu01"),
    ("timeline", "vision/train"),
    ("activity",),
    ("doctor",),
    ("grant", "list"),
    ("events",),
)
LIE = """
def lie(root, facts):
    if root.endswith(ROOT):
        CODE
    return facts


def main("""


def lying(monkeypatch: pytest.MonkeyPatch, folder: Path, code: str, node: str = "gpu01") -> None:
    """From now on the host of this node changes its `facts` by `code` before it tells them."""
    playbooks = folder / f"playbooks-{len(list(folder.glob('playbooks-*')))}"
    shutil.copytree(shipped.folder("playbooks"), playbooks)
    file = playbooks / "module_utils/gpuaas/observe.py"
    text = file.read_text().replace("json.dumps(observe(request, more)", "json.dumps(told")
    text = text.replace(
        "    sys.stdout", "    told = lie(root, observe(request, more))\n    sys.stdout"
    )
    file.write_text(
        text.replace(
            "\ndef main(", LIE.replace("ROOT", repr(f"nodes/{node}")).replace("CODE", code)
        )
    )

    def options(fleet: Fleet) -> RunOptions:
        return replace(run_options(fleet), playbooks=playbooks)

    monkeypatch.setattr(observe, "run_options", options)


def shown(yard: Yard, *words: str) -> str:
    """Everything that a command prints, on either stream."""
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        run(["-C", str(yard.folder), *words])
    return out.getvalue()


def test_words_of_a_host_are_words_in_every_view(
    yard: Yard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-CLI-03, F-ANS-01: markup, templates and orders in every fact, then what would steer a
    terminal, which is no answer; in text and in JSON, and in what is published for others.
    """
    (yard.folder / "gpuaas.yaml").write_text("operators: [olga]\npublish: {dir: public}\n")
    yard.commit()
    words = json.dumps(WORDS)
    facts = (
        f"words = json.loads({words!r}); joined = ' '.join(words)[:4000];"
        " facts.update(os=joined, bootId=joined,"
        " nics={w: w for w in words}, nvmes=words, sessions={w: 1 for w in words},"
        " sizes={w: 1 for w in words}, strayKeys={w: [w, joined] for w in words},"
        " descriptors={w: w for w in words}, leftovers={w: [w] for w in words},"
        " problems=[{'probe': w, 'message': w} for w in words]);"
        " facts['paths'].update({'/home/' + w: w for w in words}); facts['paths'].update("
        "{p: joined for p in list(facts['paths'])[:2]}); facts['gpus'][0]['driver'] = joined"
    )
    lying(monkeypatch, tmp_path, facts)
    look_at_all(yard, "plan --refresh", "apply --auto-approve=destroys")
    published = list((yard.folder / "public").rglob("status.md"))
    assert len(published) == 2
    for text in (file.read_text() for file in published):
        assert all(map(str.isprintable, text.split("\n")))
        assert "<script" not in text and "{{" not in text
    # What it said otherwise of paths was put right, and looked at by the way of work.
    yard.plan("--refresh")
    told = yard.gpuaas("show", "node/gpu01").document["result"]["observed"]["facts"]
    assert set(WORDS) <= set(told["nvmes"]) and WORDS[-1] in shown(yard, "show", "node/gpu01")
    for text in STEERING[:: len(STEERING) // 2]:
        lying(monkeypatch, tmp_path, f"facts['os'] = {text!r}")
        look_at_all(yard, "plan --refresh")
        assert "host_answer_invalid: facts.os is no plain text" in shown(yard, "nodes")


def look_at_all(yard: Yard, *more: str) -> None:
    for words in (*(one.split() for one in more), *VIEWS):
        text = shown(yard, *words)
        assert all(map(str.isprintable, text.split("\n"))), words
        document = shown(yard, *words, "-o", "json")
        assert document.isascii() and all(map(str.isprintable, document.split("\n"))), words


def test_two_hosts_that_show_one_card_hold_up_nobody_but_themselves(
    before: Yard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-PLC-01: gpu02 says that it has the cards of gpu01 as well. Nothing new comes to either, the
    third host is given out, what was there stays, and taking out the liar ends it.
    """
    yard = copy_of(before, tmp_path / "yard")
    cards = json.dumps([card_of(slot) for slot in slots_of(yard, "gpu01")])
    lying(monkeypatch, tmp_path, f"facts['gpus'] += {cards}", "gpu02")
    yard.plan("--refresh")
    done = yard.apply()
    assert (done.code, set(done.blocked)) == (3, {ref(TRAIN), ref(SOLO)})
    assert yard.claims == {f"{ref(BOX)}@gpu03/*": "held"}
    told = "\n".join((shown(yard, "explain", "vision/train"), shown(yard, "slots")))
    assert "is shown by gpu02 as well" in told and "of gpu01" in told
    for node in ("gpu01", "gpu02"):
        checks = yard.gpuaas("node", "show", node).document["result"]["readiness"]
        assert {c["name"]: c["result"] for c in checks}["cards"] == "fail", node

    liar = next(doc for doc in nodes_of(yard) if doc["metadata"]["name"] == "gpu02")
    liar["spec"]["admin"] = {"state": "unavailable", "reason": "it lies"}
    yard.write(liar)
    yard.commit()
    assert yard.apply().blocked.keys() == {ref(SOLO)}
    assert yard.claims[f"{ref(TRAIN)}@gpu01/s0"] == "held"


def test_what_a_host_makes_up_is_no_flood(
    yard: Yard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is told of others is found beside it, and one long text does not widen every line."""
    code = (
        "facts['strayKeys'] = {'x%04d' % n: ['y' * (4000 if n == 7 else 9)] for n in range(6000)}"
    )
    lying(monkeypatch, tmp_path, code)
    shown(yard, "plan", "--refresh")
    assert len(told := shown(yard, "drift")) < 100_000
    assert "node/gpu01 5950 more: gpuaas drift node/gpu01" in told
    assert 6000 < len(shown(yard, "drift", "node/gpu01").splitlines()) < 6010
    assert len(shown(yard, "drift", "node/gpu01")) < 3_000_000
    assert len(shown(yard, "doctor")) < 100_000
    listed = shown(yard, "grant", "list")
    assert "5950 more on gpu01: gpuaas drift node/gpu01" in listed and len(listed) < 100_000


def test_a_host_that_spoils_every_preparation_is_prepared_last(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where one host was harmed no other is tried: so it must not be the first each time."""
    asked: list[str] = []

    def work(crew: Crew, works: Sequence[HostWork], leaving: Leaving) -> Iterator[Worked]:
        for step in (step for one in works for step in one.steps):
            asked.append(step.node)
            bad = Problem(code="verb_failed", message="x") if step.node == "gpu01" else None
            yield Worked(
                judged=(StepOutcome(step=step, ok=not bad, changed=True, problem=bad),), seen={}
            )

    monkeypatch.setattr(Crew, "_work", work)
    nodes = ("gpu01", "gpu02", "gpu03")
    steps = [hosting.step("node.prepare", {}, node=node) for node in nodes]
    for failed, expected in (((), ["gpu01"]), (("gpu01",), ["gpu02", "gpu03", "gpu01"])):
        asked.clear()
        crew = Crew(
            fleet=cast(Fleet, None),
            find=lambda node: hosting.host(tmp_path, node=node),
            on_progress=lambda progress: None,
            interrupts=Interrupts(),
            failed=failed,
        )
        done = [one for worked in crew.work(steps) for one in worked.judged]
        assert (asked, len(done)) == (expected, 3)


def test_only_who_has_data_says_how_much_of_it_is_used() -> None:
    """Another host could fill, or empty, everybody's storage in every list."""
    id, at = "abcdefghij", "2026-11-27T12:00:0{}Z"
    volume = Volume(id=id, ref=Ref("storage", "vision", "data"), class_name="local", node="gpu01")
    seen = {
        f"gpu0{n}": Observation(
            node=f"gpu0{n}",
            at=at.format(n),
            facts=NodeFacts(source="host", volumes={id: {"usedMiB": n}}),
        )
        for n in (1, 2, 3)
    }
    world = World(state_id="s", serial=0, recorded={}, observations=seen)
    having = Attachment(
        **dict.fromkeys(("allocation_id", "mode", "access", "mount_path"), ""),
        volume=id, ref=volume.ref, storage=volume.ref, node="gpu02",
    )  # fmt: skip
    assert storage.used(volume, (), world) == 1
    shared = replace(volume, node="")
    assert storage.used(shared, (having,), world) == 2
    assert storage.used(shared, (), world) == 3


def ref(document: Any) -> str:
    metadata = document["metadata"]
    return f"allocation/{metadata['project']}/{metadata['name']}"


def nodes_of(yard: Yard) -> list[Any]:
    return [read_yaml(file) for file in sorted((yard.specs / "node").glob("*.yaml"))]


def read_yaml(file: Path) -> Any:
    return yaml.safe_load(file.read_text())


def slots_of(yard: Yard, name: str) -> list[Any]:
    (node,) = (one for one in nodes_of(yard) if one["metadata"]["name"] == name)
    return node["spec"]["slots"]


def card_of(slot: Any) -> dict[str, Any]:
    gpu = slot["gpu"]
    return {"uuid": gpu["uuid"], "pciAddress": f"9{gpu['pciAddress']}", "model": gpu["model"]}
