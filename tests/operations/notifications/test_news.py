"""What rounds have to say: once each, and once more when it is over."""

from __future__ import annotations

from dataclasses import replace

from reconciler.model.problem import Problem
from reconciler.operations.notifications.news import News, Teller
from reconciler.operations.rounds.rounds import Failed, Tick

AT = "2026-11-01T00:00:00Z"
NODE = "node/gpu01"
QUIET = Tick(at=AT, commit="abc")
AWAY = Failed(name=NODE, code="host_unreachable", message="no answer", retry_seconds=30)


def said(news: object) -> list[tuple[str, str, str]]:
    return [(one.event, one.about, one.ends) for one in news]  # type: ignore[attr-defined]


def started() -> Teller:
    teller = Teller()
    assert said(teller.tell(QUIET)) == [("commit", "", "")]
    return teller


def test_a_host_that_fails_and_is_well_again() -> None:
    teller = started()
    silent = replace(QUIET, failed=(AWAY,), silent=(NODE,))
    assert said(teller.tell(silent)) == [("failed", NODE, "")]
    assert said(teller.tell(silent)) == []
    assert said(teller.tell(replace(QUIET, silent=(NODE,)))) == []
    over = replace(QUIET, recovered=(NODE,))
    assert said(teller.tell(over)) == [("recovered", NODE, "failed")]
    assert said(teller.tell(over)) == [("recovered", NODE, "failed")]


def test_who_fails_for_another_reason_is_said_again() -> None:
    teller = started()
    list(teller.tell(replace(QUIET, failed=(AWAY,), silent=(NODE,))))
    other = replace(AWAY, code="host_identity_changed")
    (one,) = teller.tell(replace(QUIET, failed=(other,), silent=(NODE,)))
    assert (one.event, one.code) == ("failed", "host_identity_changed")


def test_a_problem_of_the_loop_has_an_end() -> None:
    teller = started()
    away = replace(QUIET, problems=(Problem(code="source_unreachable", message="x"),))
    (begun,) = teller.tell(away)
    assert (begun.event, begun.code) == ("problem", "source_unreachable")
    assert list(teller.tell(away)) == []
    (over,) = teller.tell(replace(QUIET, idle=False))
    assert (over.ends, over.code) == ("problem", "source_unreachable")


def test_rounds_that_are_refused_and_go_on() -> None:
    teller = started()
    assert said(teller.went()) == []
    assert said(teller.refused("state_damaged", "x")) == [("refused", "", "")]
    assert said(teller.refused("state_damaged", "y")) == []
    assert said(teller.refused("no_commit", "x")) == [("refused", "", "")]
    assert said(teller.went()) == [("recovered", "", "refused")]
    assert said(teller.went()) == []


def test_a_tug_of_war_is_said_once_and_has_an_end() -> None:
    """Each mend in it is no recovery."""
    teller, ref = started(), "allocation/vision/train"
    war = replace(QUIET, contested=(ref,), disputed=(ref,), recovered=(ref,))
    assert said(teller.tell(war)) == [("contested", ref, "")]
    assert said(teller.tell(war)) == []
    assert said(teller.tell(replace(QUIET, disputed=(ref,)))) == []
    assert said(teller.tell(QUIET)) == [("recovered", ref, "contested")]


def test_what_the_loop_does_beside_rounds() -> None:
    teller = started()
    assert said(teller.less("monitoring", "")) == []
    assert said(teller.less("monitoring", "no port")) == [("degraded", "", "")]
    assert said(teller.less("monitoring", "no port")) == []
    (over,) = teller.less("monitoring", "")
    assert (over.ends, over.code) == ("degraded", "monitoring")


def test_what_a_loop_before_this_one_said() -> None:
    """It is said anew while it is so, and told to be over if it is not."""
    teller = started()
    for event, about, code in (
        ("failed", NODE, "host_unreachable"),
        ("held", "allocation/vision/x", "removals_guard"),
        ("problem", "", "source_unreachable"),
        ("refused", "", "no_commit"),
        ("degraded", "", "monitoring"),
        ("contested", "allocation/vision/y", ""),
    ):
        teller.resume(event, about, code)
    news: list[News] = [*teller.went(), *teller.less("monitoring", "")]
    news += teller.tell(replace(QUIET, silent=(NODE,), plan=None))
    ends = {(one.ends, one.about, one.code) for one in news}
    assert ends == {
        ("refused", "", ""),
        ("degraded", "", "monitoring"),
        ("held", "allocation/vision/x", ""),
        ("problem", "", "source_unreachable"),
        ("contested", "allocation/vision/y", ""),
    }
    assert said(teller.tell(replace(QUIET, recovered=(NODE,)))) == [("recovered", NODE, "failed")]
