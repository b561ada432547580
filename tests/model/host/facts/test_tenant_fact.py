"""Tenant facts: their words are those of hosts, and what is read of them is what is written."""

from __future__ import annotations

from reconciler.kinds.allocation.account import Account, facts
from reconciler.model.host.facts.named_fact import is_told_in_full, name_of, word_of
from reconciler.model.host.facts.restart_fact import has_begun, reached
from reconciler.model.host.facts.tenant_fact import (
    ENTRANCE,
    MADE,
    PRESENCE,
    TenantWord,
    cards_in,
    is_refused,
)

ACCOUNT = Account(
    login="a-abcd",
    uid=20000,
    gid=20001,
    group="p-x",
    gpus=("GPU-a", "GPU-b"),
    cpus="0-7",
    mems="0",
    memory_bytes=2**30,
    slots=1,
    node_slots=8,
)


def test_an_account_is_told_by_the_words_of_tenants() -> None:
    told = facts(ACCOUNT)
    assert {word_of(key) for key in told} == set(MADE) - {TenantWord.LINGER}
    assert {name_of(key) for key in told} == {"a-abcd"}
    assert set(PRESENCE) < set(MADE)
    assert cards_in(told[TenantWord.SLICE.of("a-abcd")] or "") == {"GPU-a", "GPU-b"}
    assert told[TenantWord.LOGIN.of("a-abcd")] == ENTRANCE[TenantWord.LOGIN]


def test_what_opens_nothing_names_no_card() -> None:
    assert cards_in("") == cards_in("none") == frozenset()
    assert is_refused("refused by pam_x") and not is_refused("admitted")


def test_only_a_word_that_is_listed_can_be_seen_to_be_absent() -> None:
    assert is_told_in_full({"shm *": "listed"}, TenantWord.SHM)
    assert not is_told_in_full({"shm a-abcd": "tmpfs 1"}, TenantWord.SHM)


def test_a_restart_has_begun_by_its_own_generation_alone() -> None:
    assert has_begun(reached(3), 3) and has_begun(f"{reached(3)} without GPU-a", 3)
    assert not has_begun(reached(30), 3) and not has_begun("", 3)
