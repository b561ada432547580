"""Work items: each is written with exactly the keys that hosts take, and read back by its verb."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from reconciler.hosts.verbs import VERBS, check_item
from reconciler.model.codec import decode, encode
from reconciler.model.host.capacity import Shape
from reconciler.model.plan.claim import ClaimIntent
from reconciler.model.plan.items.item import AllocationItem
from reconciler.model.plan.plan import Order, Step
from reconciler.model.plan.verb import Verb
from reconciler.model.ref import Ref
from tests.harness.items import make_item

WORK = tuple(verb for verb in Verb if verb.item)


def test_every_verb_that_works_has_an_item_and_no_question_has() -> None:
    assert set(WORK) == {contract.name for contract in VERBS.values() if contract.item}


@pytest.mark.parametrize("verb", WORK)
def test_an_item_is_written_with_the_keys_of_its_contract(verb: Verb) -> None:
    """What a host is told is decided by the record alone: no key too many, none too few."""
    item = make_item(verb)
    assert encode(item).keys() == VERBS[verb].item.keys()
    assert check_item(verb, encode(item)) is None
    assert isinstance(item, AllocationItem) == ("id" in VERBS[verb].item)


@pytest.mark.parametrize("verb", WORK)
def test_a_step_that_was_written_is_read_back_with_the_item_of_its_verb(verb: Verb) -> None:
    ref = Ref("node", "", "gpu01")
    step = Step(id="1", verb=verb, node="gpu01", ref=ref, order=Order.RETIRE, item=make_item(verb))
    text = json.dumps(encode(step))
    assert decode(Step, json.loads(text)) == step
    assert json.dumps(encode(decode(Step, json.loads(text)))) == text


def test_no_account_is_written_and_not_left_out() -> None:
    assert encode(make_item(Verb.PROVIDE))["account"] is None


def test_a_step_whose_item_is_of_no_verb_is_not_read() -> None:
    ref = Ref("allocation", "vision", "a")
    item = make_item(Verb.QUARANTINE)
    step = Step(id="1", verb=Verb.QUARANTINE, node="n", ref=ref, order=Order.RETIRE, item=item)
    written = encode(step)
    for odd in ({"verb": "shell"}, {"verb": "node.observe"}, {"item": {"command": "id"}}):
        with pytest.raises((KeyError, ValueError, TypeError)):
            decode(Step, {**written, **odd})
    with pytest.raises(KeyError):
        decode(Step, {**encode(replace(step, verb=Verb.WIPE))})


def test_a_claim_without_an_account_is_written_with_number_0_and_read_back_without() -> None:
    place = {"node": "gpu01", "slot": "s0", "shape": Shape.GPU_SLICE}
    who = {"tenant": "corp", "project": "vision", "ref": Ref("allocation", "vision", "a")}
    claim = ClaimIntent(id="a-s0", allocation_id="a", **place, **who)
    written = encode(claim)
    assert (written["uid"], written["gid"]) == (0, 0)
    assert decode(ClaimIntent, written) == claim
    numbered = replace(claim, uid=20000, gid=20001)
    assert decode(ClaimIntent, encode(numbered)) == numbered
