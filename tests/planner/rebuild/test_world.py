"""What follows from descriptors: counters above all that was, and the price from now on."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from reconciler import shipped
from reconciler.model.host.descriptor import read_descriptor
from reconciler.model.host.evidence import NodeFacts
from reconciler.model.ref import Ref
from reconciler.model.state.world import Counters
from reconciler.planner.core.request import PlanRequest
from reconciler.planner.rebuild.descriptors import FoundDescriptor
from reconciler.planner.rebuild.world import Seeded, floors, seed, usage
from tests.planner.descriptors import sign, told
from tests.planner.fleet import NOW, allocation, base_fleet, desired, world
from tests.planner.nodes.test_prepare import fleet, host


def request(*documents: Any, **changes: Any) -> PlanRequest:
    of = desired([*base_fleet(), *documents])
    return PlanRequest(
        desired=of,
        world=world(of, **changes),
        now=NOW,
        templates=shipped.templates(),
        sign=sign,
        origins=lambda files, gone: {},
    )


def seeded(asked: PlanRequest, *texts: str) -> Seeded:
    read = map(read_descriptor, texts)
    return seed(asked, [FoundDescriptor(node=d.node, id=d.id, descriptor=d) for d in read], {})


def test_counters_go_on_above_all_that_was() -> None:
    """Rules 15 and 21: max + 1000, and never a count that a ref may have had before."""
    asked = request()
    first = floors(asked, seeded(asked, told("a", uid=20123, gid=20007)))
    assert (first["uid"], first["gid"]) == (21123, 21007)
    nobody = floors(asked, seeded(asked))
    assert (nobody["uid"], nobody["gid"]) == (20999, 20999)
    later = floors(replace(asked, now=NOW + timedelta(seconds=1)), seeded(asked))
    assert later["incarnation"] == nobody["incarnation"] + 1 > 1_000_000_000
    counted = Counters(least_incarnation=later["incarnation"] + 5)
    again = request(counters=counted)
    assert floors(again, seeded(again))["incarnation"] == later["incarnation"] + 5
    last = floors(asked, seeded(asked, told("a", uid=59990, gid=20001)))
    assert last["uid"] == 59999, "used up, rather than given twice"


def test_a_place_is_claimed_for_whom_it_was() -> None:
    asked = request(allocation("a"))
    found = seeded(asked, told("a"), told("b", "gpu02", shape="baremetal", sku="whole"))
    a, b = found.claims
    assert (a.id, a.slot, a.tenant, a.project) == ("aaaaaaaaaa-s0", "s0", "corp", "vision")
    assert (b.id, b.slot, b.ref) == ("bbbbbbbbbb", None, Ref("allocation", "vision", "b"))
    stranger = told("c", ref="allocation/gone/c", project="gone")
    assert seeded(asked, stranger).claims[0].tenant == "", "nobody may share its host"


def test_what_must_not_be_there_and_is_not_is_shown_as_it_was_made() -> None:
    """Rule 21: a fact of absence counts as any other, or every account would be made anew."""
    of = fleet(host("gpu01"))
    asked = replace(request(), desired=of, world=world(of))
    read = read_descriptor(told("a", ref="allocation/vision/a0", name="a0", uid=20123, gid=20007))
    found = [FoundDescriptor(node="gpu01", id=read.id, descriptor=read)]
    lists = {f"{word} *": "listed" for word in ("subids", "account")}
    facts = NodeFacts(source="host", paths={}, platform=lists)
    (shown,) = seed(asked, found, {"gpu01": facts}).world.recorded.values()
    assert shown.facts[f"subids {read.login}"] is None
    assert f"slice {read.login}" not in shown.facts, "what was not listed is unknown"


def test_use_is_billed_from_now_on() -> None:
    """Rule 18: at the price of now; what was used before went with the state."""
    asked = request(allocation("a"))
    (change,) = usage(seeded(asked, told("a")), asked)
    assert (change.gpus, change.rate_per_hour) == (1, {"EUR": "2.10"})
    (unknown,) = usage(seeded(asked, told("a", sku="gone")), asked)
    assert unknown.rate_per_hour == {}
