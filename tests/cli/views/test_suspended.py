"""A suspension as text: who may still be inside is said, with where and what to do."""

from __future__ import annotations

from reconciler.cli.views.suspended import lines
from reconciler.model.problem import Problem
from reconciler.operations.access.suspension import Suspended

LEFT = Problem(
    code="revocation_under_way",
    message="allocation/nlp/box on gpu01: bo may still be inside",
    hint="the apply that works on this host shuts them out as soon as it is free",
    ref="allocation/nlp/box",
)


def shown(*problems: Problem) -> str:
    given = Suspended(
        scope="user/bo",
        reason="theft",
        actor="olga",
        since="",
        done=("allocation/nlp/one",),
        problems=problems,
    )
    return "\n".join("".join(span.text for span in one.spans) for one in lines(given))


def test_who_may_still_be_inside_is_said() -> None:
    """F-REAL-14, F-REAL-24: with the host, the code and the next step."""
    told = shown(LEFT)
    assert "1 allocation changed on the hosts: allocation/nlp/one" in told
    assert "gpu01: bo may still be inside [revocation_under_way]" in told
    assert LEFT.hint in told


def test_where_all_is_done_nothing_is_left_to_say() -> None:
    assert shown().count("\n") == 1
