"""WHERE: the winner, its tie-break, what shares a host, and how full the fleet gets."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.model.host.capacity import Claim, Need, Placement
from reconciler.model.ref import Ref
from reconciler.planner.placement.free_index import layout, profile
from reconciler.planner.placement.inventory import Offer, read_offers
from reconciler.planner.placement.scheduler import Placer, describe, in_order
from tests.planner.fleet import NOW, base_fleet, claim, desired, need, node, slot, world


def offers(*nodes: dict[str, object]) -> tuple[Offer, ...]:
    of = desired([*base_fleet(0), *nodes])
    return read_offers(of, world(of), NOW, {})


@cache
def plain(count: int, slots: int = 8, sharing: str = "any") -> tuple[Offer, ...]:
    return offers(*(node(f"gpu{n:02}", slots, sharing=sharing) for n in range(1, count + 1)))


def where(found: Placement | None) -> str:
    return f"{found.node}/{','.join(found.slots)}" if found else "nowhere"


def place(of: Iterable[Offer], needs: Iterable[Need], claims: Iterable[Claim] = ()) -> list[str]:
    placer = Placer(of, claims)
    return [where(placer.place(one)) for one in needs]


def test_a_multi_slot_request_stays_on_one_node() -> None:
    """PLC-04 OBJ-12: two and one free on two nodes do not make three."""
    taken = [claim("x", "gpu01", f"s{n}") for n in range(6)]
    taken += [claim("y", "gpu02", f"s{n}") for n in range(7)]
    assert place(plain(2), [need("a", 4)], taken) == ["nowhere"]
    assert place(plain(2), [need("a", 2), need("b", 1)], taken) == ["gpu01/s6,s7", "gpu02/s7"]


def test_a_policy_that_spreads_takes_the_emptiest_node() -> None:
    """PLC-18: the same request on the same fleet, and the other strategy flips the winner."""
    taken = [claim("x", "gpu01", "s0")]
    asked = [need("a"), need("b"), need("c", 8)]
    assert place(plain(3), asked, taken) == [
        "gpu01/s1",
        "gpu01/s2",
        "gpu02/s0,s1,s2,s3,s4,s5,s6,s7",
    ]
    spread = [
        {**one, "spec": {**one["spec"], "placement": {"strategy": "spread"}}}
        if one["kind"] == "Policy"
        else one
        for one in base_fleet(0)
    ]
    of = desired([*spread, *(node(f"gpu0{n}", 8, sharing="any") for n in (1, 2, 3))])
    apart = read_offers(of, world(of), NOW, {})
    assert place(apart, asked, taken) == ["gpu02/s0", "gpu03/s0", "nowhere"]
    placer = Placer(apart, taken)
    found = placer.place(need("a"))
    assert found and describe(found, spread=placer.spread) == "emptiest node of 3"
    whole = placer.place(need("d", 0))
    assert whole and whole.node == "gpu03", "whole nodes are taken from those that are whole"


def test_numa_alignment_comes_before_the_tightest_fit() -> None:
    """PLC-01: two and two free on one host is the tighter fit, and not aligned."""
    taken = [claim("x", "gpu01", f"s{n}") for n in (0, 1, 4, 5)]
    assert place(plain(2), [need("a", 4)], taken) == ["gpu02/s0,s1,s2,s3"]


def test_the_tightest_fit_wins_and_keeps_aligned_halves_whole() -> None:
    """F-PLC-12: the small request takes the broken half, not a whole one."""
    assert place(plain(2), [need("a"), need("b"), need("c", 4)], [claim("x", "gpu02", "s5")]) == [
        "gpu02/s4",
        "gpu02/s6",
        "gpu02/s0,s1,s2,s3",
    ]


def test_small_pieces_leave_a_node_whole() -> None:
    """F-PLC-12: 1, 1, 2, then 4, then baremetal on two nodes of four."""
    needs = [need("a"), need("b"), need("c", 2), need("d", 0), need("e", 4)]
    assert place(plain(2, 4), needs) == [
        "gpu01/s0",
        "gpu01/s1",
        "gpu01/s2,s3",
        "gpu02/s0,s1,s2,s3",
        "nowhere",
    ]


def test_a_node_that_is_not_sold_whole_is_broken_first() -> None:
    """Whole nodes are kept for baremetal where another fit is as tight."""
    of = offers(node("gpu01", 4), node("gpu02", 4, shapes=["gpu_slice"]))
    assert place(of, [need("a", 2)]) == ["gpu02/s0,s1"]


def test_ties_fall_to_the_name() -> None:
    """PLC-01: equal nodes, equal scores; neither the order of files nor of rows decides."""
    of = plain(3)
    assert place(reversed(of), [need("a")]) == place(of, [need("a")]) == ["gpu01/s0"]


def test_baremetal_takes_the_smallest_whole_node() -> None:
    """PLC-02 OBJ-09: every slot of one node, and of the smallest that there is."""
    of = offers(node("gpu01", 8), node("gpu02", 4))
    assert place(of, [need("a", 0)]) == ["gpu02/s0,s1,s2,s3"]


def test_baremetal_and_slices_exclude_each_other() -> None:
    """PLC-07: both directions, by claims made before and by claims of the same plan."""
    assert place(plain(1), [need("a", 0)], [claim("x", "gpu01", "s0")]) == ["nowhere"]
    assert place(plain(1), [need("a")], [claim("x", "gpu01", None)]) == ["nowhere"]
    assert place(plain(1), [need("a"), need("b", 0)]) == ["gpu01/s0", "nowhere"]
    assert place(plain(1), [need("a", 0), need("b")])[1] == "nowhere"


@pytest.mark.parametrize(
    ("sharing", "expected"),
    [
        ("any", ["gpu01/s0", "gpu01/s1", "gpu01/s2"]),
        ("tenant", ["gpu01/s0", "gpu01/s1", "gpu02/s0"]),
        ("project", ["gpu01/s0", "gpu02/s0", "gpu03/s0"]),
    ],
)
def test_sharing_decides_who_joins_a_host(sharing: str, expected: list[str]) -> None:
    """PLC-03: same project, then another of the same tenant, then another tenant."""
    needs = [
        need("a"),
        need("b", project="other", ref=Ref("allocation", "other", "b")),
        need("c", project="nlp", tenant="acme"),
    ]
    assert place(plain(3, sharing=sharing), needs) == expected


def test_a_pinned_request_goes_there_or_nowhere() -> None:
    """OBJ-11: a pin narrows, it does not weaken any rule."""
    assert place(plain(2), [need("a", pin="gpu02")]) == ["gpu02/s0"]
    assert place(plain(2), [need("a", pin="gpu09")]) == ["nowhere"]


def test_requests_are_served_in_the_order_of_first_sight_then_by_size() -> None:
    """Rule 17: those that wait come first; the alphabet decides last."""
    small, large, whole, late = need("a"), need("b", 4), need("c", 0), need("z", 1)
    waiting = {late.ref: "2026-11-01T00:00:00Z", small.ref: "2026-11-02T00:00:00Z"}
    ordered = in_order([small, large, whole, late], waiting)
    assert [one.ref.name for one in ordered] == ["z", "a", "c", "b"]


def test_an_explanation_shows_every_node() -> None:
    """PLC-01: candidates with their scores, best first, then the refused with their rule."""
    found = Placer(plain(3), [claim("x", "gpu02", None)]).explain(need("a", 2))
    assert [(one.node, one.rule) for one in found] == [
        ("gpu01", ""),
        ("gpu03", ""),
        ("gpu02", "node_exclusive"),
    ]
    assert found[0].slots == ("s0", "s1")
    assert found[0].score == found[1].score


def test_a_refusal_counts_nodes_by_their_first_rule() -> None:
    """PLC-05 F-PLC-12: and names the node that comes nearest, with what is free there."""
    taken = [claim("x", "gpu02", None), *(claim("y", "gpu01", f"s{n}") for n in range(5))]
    why = Placer(plain(2), taken).refusals(need("a", 4))
    assert why.refusals == {"node_exclusive": 1, "too_few_free_slots": 1}
    assert why.nearest == "gpu01 has 3 of 4 free"


def test_the_place_says_among_how_many_it_was_chosen() -> None:
    placer = Placer(plain(3), [claim("x", "gpu02", None)])
    found = placer.place(need("a"))
    assert found is not None
    assert describe(found) == "tightest fit of 2"
    assert found.numa == (0,)


layouts = st.lists(st.integers(0, 2), min_size=1, max_size=6)


@st.composite
def fleets(draw: st.DrawFn) -> tuple[tuple[Offer, ...], list[Claim], list[Need]]:
    """A small fleet of odd shapes, some of it held, and requests of all sorts."""
    nodes = []
    for number in range(draw(st.integers(1, 4))):
        name = f"gpu{number:02}"
        slots = [slot(name, at, numa) for at, numa in enumerate(sorted(draw(layouts)))]
        if draw(st.booleans()):
            slots[0]["disabled"] = {"reason": "broken"}
        sharing = draw(st.sampled_from(["any", "tenant", "project"]))
        shapes = draw(st.sampled_from([["gpu_slice"], ["baremetal", "gpu_slice"]]))
        nodes.append(node(name, slots, sharing=sharing, shapes=shapes))
    of = offers(*nodes)
    claims = [
        claim("x", one.name, each.name, **draw(st.sampled_from(TENANTS)))
        for one in of
        for each in one.slots
        if draw(st.integers(0, 3)) == 0
    ]
    sizes = draw(st.lists(st.integers(0, 5), min_size=1, max_size=8))
    needs = [
        need(f"n{at}", size, **draw(st.sampled_from(TENANTS))) for at, size in enumerate(sizes)
    ]
    return of, claims, needs


TENANTS = (
    {"tenant": "corp", "project": "vision"},
    {"tenant": "corp", "project": "audio"},
    {"tenant": "acme", "project": "nlp"},
)


@settings(max_examples=60, deadline=None)
@given(fleets())
def test_the_index_finds_what_a_look_at_every_node_finds(
    fleet: tuple[tuple[Offer, ...], list[Claim], list[Need]],
) -> None:
    """F-PLC-01: no slot twice, and always the best of all nodes by rules and score."""
    of, claims, needs = fleet
    placer = Placer(of, claims)
    taken = {(one.node, one.slot) for one in claims}
    for one in needs:
        best = next((c for c in placer.explain(one) if not c.rule), None)
        found = placer.place(one)
        assert (found.node, found.slots) == (best.node, best.slots) if best else found is None
        for name in found.slots if found else ():
            assert (found.node, name) not in taken
            taken.add((found.node, name))


def optimum(free: Sequence[int], sizes: Sequence[int]) -> int:
    """Most slots that any way of placing these sizes fills, by trying them all."""

    @cache
    def best(at: int, left: tuple[int, ...]) -> int:
        if at == len(sizes):
            return 0
        most = best(at + 1, left)
        for node_left in set(left):
            if node_left >= sizes[at]:
                rest = list(left)
                rest.remove(node_left)
                rest = tuple(sorted([*rest, node_left - sizes[at]]))
                most = max(most, sizes[at] + best(at + 1, rest))
        return most

    return best(0, tuple(sorted(free)))


def cases(rounds: int, requests: int) -> Iterator[list[Need]]:
    chance = random.Random(7)
    for _ in range(rounds):
        sizes = chance.choices([1, 2, 4, 8], weights=[4, 3, 2, 1], k=requests)
        yield [need(f"n{at}", size) for at, size in enumerate(sizes)]


def filled(nodes: int, needs: Iterable[Need]) -> int:
    placer = Placer(plain(nodes), ())
    return sum(len(found.slots) for one in needs if (found := placer.place(one)))


def test_a_batch_is_packed_as_well_as_can_be() -> None:
    """F-PLC-12: placed largest first, nobody could fill more slots."""
    for needs in cases(60, 9):
        best = optimum((8, 8, 8), [one.slots for one in needs])
        assert filled(3, in_order(needs, {})) == best


def test_packing_in_the_order_of_arrival_is_almost_as_good() -> None:
    """F-PLC-12: 98 % of what somebody could reach who knew all that is to come."""
    reached = best = 0
    for needs in cases(60, 18):
        reached += filled(6, needs)
        sums = 1
        for one in needs:
            sums |= sums << one.slots
        best += (sums & ((1 << 49) - 1)).bit_length() - 1
    assert reached >= 0.98 * best


def test_equal_scores_mean_equal_profiles() -> None:
    """So that nothing but the node's name is left to decide."""
    kinds = [layout(numas, True) for numas in ((0,) * 8, (0, 0, 0, 0, 1, 1, 1, 1), (0, 1, 2))]
    found = {kind.profile(mask) for kind in kinds for mask in range(1, kind.full + 1)}
    for size in range(9):
        scores = [one.scores[size] for one in found if one.scores[size] is not None]
        assert len(scores) == len(set(scores))
    assert profile((4, 4), True) is not profile((4, 4), False)
