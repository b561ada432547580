"""Texts of specs are data wherever they go, and a whole node is given whole."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.applied_fleet import BO, GRANTS, SOLO
from tests.harness.yard import Yard
from tests.journeys.access.test_key_files import SOLO_REF, changed

pytestmark = [pytest.mark.walk, pytest.mark.ansible]

BOX_REF = "allocation/nlp/box"


def orders(marker: Path) -> list[str]:
    """What would leave a mark if a shell, a template or sshd took it for more than text."""
    touch = f"touch {marker}"
    return [
        f"; {touch}",
        f"$({touch})",
        f"`{touch}`",
        "{{ lookup('pipe', '" + touch + "') }}",
        "{% for x in [1] %}" + f"{touch}" + "{% endfor %}",
        "{{",
        f"'\" || {touch} #",
    ]


@pytest.fixture
def marker() -> Iterator[Path]:
    """A file that is not there, by a path short enough for a comment of a key."""
    with tempfile.TemporaryDirectory(prefix="gpuaas-", dir="/tmp") as folder:
        yield Path(folder) / "mark"


def test_no_text_of_a_spec_is_an_order(yard: Yard, marker: Path) -> None:
    """ALC-05, F-ANS-01: names, labels, reasons and comments reach no shell and no template."""
    for text in orders(marker):
        bo = changed(BO, displayName=text)
        kind, blob, *_ = bo["spec"]["keys"][0]["publicKey"].split(" ")
        bo["spec"]["keys"][0] = {"id": "third", "publicKey": f"{kind} {blob} {text}"}
        solo = changed(SOLO)
        solo["metadata"]["labels"] = {"note": text}
        yard.write(bo, solo, changed(GRANTS[1], reason=text))
        done = yard.apply("--auto-approve=safe")
        assert (done.code, done.problems) == (0, []), text
        assert not marker.exists(), text
        assert "bo/third" in yard.keys(SOLO_REF)
        assert yard.recorded("user/bo").normal["spec"]["displayName"] == text
        assert yard.recorded("grant/vision/cem-on-solo").normal["spec"]["reason"] == text
        (row,) = [r for r in grants(yard) if r["cause"] == "grant/vision/cem-on-solo"]
        assert row["reason"] == text
    everything = [p for p in (yard.folder / "nodes").rglob("*") if p.is_file()]
    assert not any(str(marker) in p.read_text(errors="replace") for p in everything)
    assert yard.plan("--detailed-exitcode").code == 0


def grants(yard: Yard) -> list[dict[str, str]]:
    found: list[dict[str, str]] = yard.gpuaas("grant", "list").document["result"]["rows"]
    return found


def test_a_whole_node_is_given_whole(applied: Yard) -> None:
    """ALC-02: one claim on all of it, every card in its descriptor, and a place to go to."""
    assert {k: v for k, v in applied.claims.items() if "@gpu03" in k} == {
        f"{BOX_REF}@gpu03/*": "held"
    }
    box = applied.recorded(BOX_REF)
    descriptor = applied.root("gpu03") / f"etc/gpuaas/allocations/{box.id}.json"
    told = json.loads(descriptor.read_text())
    assert told["shape"] == "baremetal"
    assert [slot["name"] for slot in told["slots"]] == ["s0", "s1"]
    rows = applied.gpuaas("status").document["result"]["allocations"]
    (row,) = [row for row in rows if row["ref"] == BOX_REF]
    assert (row["slots"], row["phase"], row["stage"]) == (["s0", "s1"], "active", "ready")
    assert row["wayIn"] == str(applied.root("gpu03") / "home" / box.login)
    assert Path(row["wayIn"]).is_dir()
