"""The restart fact: how far the last restart of an allocation has come on its host."""

from __future__ import annotations

from reconciler.model.host.facts.named_fact import fact_key

RESTART = "restart"


def restart_key(id: str) -> str:
    return fact_key(RESTART, id)


def reached(generation: int) -> str:
    """What the fact is once the restart is through; any other end says what is missing."""
    return f"generation {generation}"


def has_begun(fact: str, generation: int) -> bool:
    """Whether the host has come to this generation, whatever may be missing yet."""
    wanted = reached(generation)
    return fact == wanted or fact.startswith(f"{wanted} ")
