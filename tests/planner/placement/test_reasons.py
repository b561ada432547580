"""Refusals in words: every rule has some, and they say what helps."""

from __future__ import annotations

from reconciler.model.ref import Ref
from reconciler.planner.placement import filters
from reconciler.planner.placement.reasons import UNASKED, WORDS, counted, remedy

REF = Ref("allocation", "vision", "eval")


def test_every_rule_has_words_in_the_order_of_the_tables() -> None:
    """PLC-05: people read `31 too few free slots`, programs the rule's symbol."""
    rules = [
        *filters.REQUEST_RULES,
        *filters.NODE_RULES,
        *filters.RUNTIME_RULES,
        *filters.HELD_RULES,
        *filters.SLOT_RULES,
        *filters.PROMISE_RULES,
    ]
    last = {filters.NODE_TOO_SMALL, filters.TOO_FEW_FREE_SLOTS}
    assert set(WORDS) == {*rules, *last}
    assert [rule for rule in WORDS if rule not in last] == rules
    assert not any("_" in words for words in WORDS.values())
    assert len(set(WORDS.values())) == len(WORDS), "no two rules sound the same"
    assert set(WORDS) > UNASKED


def test_nodes_are_counted_by_what_refused_them() -> None:
    assert counted({"too_few_free_slots": 31, "node_draining": 9}) == (
        "40 nodes: 31 too few free slots · 9 draining"
    )
    assert counted({"node_exclusive": 1}) == "1 node: 1 held whole"
    assert counted({}) == "there are no nodes"


def test_what_an_answer_may_help_is_asked_for_first() -> None:
    assert remedy(REF, {"readiness_missing": 1}).startswith("ask the hosts: gpuaas plan --refresh")
    assert remedy(REF, {"node_exclusive": 1}) == "gpuaas explain allocation/vision/eval"
