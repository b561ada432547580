"""Cleanups and chains of tenants on the screen: every check that did not pass, and whose word."""

from __future__ import annotations

from collections.abc import Iterable

from reconciler.cli.text import TextLine, render
from reconciler.cli.views import chained, cleaned
from reconciler.model.host.evidence import Check, CheckResult
from reconciler.model.problem import Problem
from reconciler.model.state.tenancy import Tenancy, Tried
from reconciler.operations.allocation.cleanup import Retried, Unproved, Vouched
from reconciler.operations.allocation.proof import Chain

REF = "allocation/vision/train"
BUSY = Check(name="processes on s1", result=CheckResult.FAIL, value="4711 by backup.service")
BLIND = Check(name="files", result=CheckResult.UNKNOWN, value="not looked through")
CLEAN = Check(name="home", result=CheckResult.PASS, value="deleted, not erased")
LEFT = Unproved(place="gpu01/s1", ref=REF, checks=(BUSY, BLIND))
BLOCKED = Problem(code="cleanup_blocked", message="gpu01/s1 stays blocked: said twice", ref=REF)
AWAY = Problem(code="host_unreachable", message="gpu01 does not answer", ref=REF)


def text(lines: Iterable[TextLine]) -> list[str]:
    return [render(line) for line in lines]


def retried(*problems: Problem, left: tuple[Unproved, ...] = (LEFT,)) -> list[str]:
    found = Retried(
        place="gpu01", run="run-000001", freed=("gpu01/s0",), left=left, problems=problems
    )
    return text(cleaned.retried(found))


def test_a_retry_tells_each_check_that_still_fails_once() -> None:
    """REL-04: by its name and what was measured, beside what is free now."""
    assert retried(BLOCKED) == [
        "gpu01/s0 is free: proved clean",
        f"gpu01/s1 stays blocked by {REF}",
        "  fail    processes on s1  4711 by backup.service",
        "  unknown files            not looked through",
        "  hint: gpuaas runbook cleanup_blocked",
    ]
    assert any("does not answer" in line for line in retried(AWAY, BLOCKED))
    untried = Unproved(place="gpu01/s1", ref=REF, checks=())
    assert any("said twice" in line for line in retried(BLOCKED, left=(untried,)))
    assert retried(left=()) == ["gpu01/s0 is free: proved clean"]


def test_a_word_says_what_nobody_has_proved() -> None:
    """REL-04: before it is given, and afterwards."""
    asked = text(cleaned.unproved((LEFT,)))
    assert "4711 by backup.service" in asked[1] and "what is still there" in asked[-1]
    found = Vouched(place="gpu01/s1", actor="olga", reason="killed by hand", freed=(LEFT,))
    assert text(cleaned.vouched(found)) == [
        "gpu01/s1 is free by the word of olga, and 2 checks not passed: killed by hand",
        "it stays marked by that: gpuaas proof show gpu01/s1",
    ]


def test_a_chain_tells_of_each_tenant_how_it_ended() -> None:
    """REL-02 REL-04: by a proof, by a word, or not yet; and what was tried before is not hidden."""
    tries = [
        Tried(proof=f"proof-{n}", at="t", source="host", passed=check is CLEAN, checks=(check,))
        for n, check in enumerate((BUSY, CLEAN))
    ]
    first = Tenancy(
        claim="c1",
        allocation_id="abc",
        ref=REF,
        login="train-abcd",
        project="vision",
        node="gpu01",
        slot="s1",
        state="freed",
        since="t1",
        freed_at="t2",
        freed_by="proof-1",
        tried=tuple(tries),
    )
    second = Tenancy(
        claim="c2",
        allocation_id="def",
        ref="allocation/nlp/box",
        login="box-defg",
        project="nlp",
        node="gpu01",
        slot=None,
        state="freed",
        since="t3",
        freed_at="t4",
        actor="olga (root)",
        said_at="t4",
        reason="new disks",
        tried=(tries[0],),
    )
    chain = Chain(place="gpu01/s1", tenancies=(first, second))
    shown = text(chained.lines(chain))
    assert shown[0] == "gpu01/s1   2 tenants"
    assert "       pass    home  deleted, not erased" in shown
    assert "     freed   by proof proof-1" in shown
    assert "     before  1 proof not passed: --all shows it" in shown
    assert "     freed   without a proof, by the word of olga (root) at t4: new disks" in shown
    assert "  2. allocation/nlp/box  gpu01/*" in shown
    everything = "\n".join(text(chained.lines(chain, everything=True)))
    assert everything.count("4711") == 2 and "before" not in everything
