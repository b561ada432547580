"""Login checks: hosts that were seen to keep out people whom they should let in.

That is tried at each look, and no work of ours can mend it: it is what somebody has made of the
host.
"""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.model.host.evidence import NodeFacts
from reconciler.model.state.world import Recorded

PROBE = "login gpuaas-probe"
"""Somebody who is a tenant and nobody's, and who logs in at each look."""

SOUND = {"login": "admitted", "keys": "accepted"}
"""The words of facts about somebody's way in, and what they say where it is open."""

REFUSED = "refused"


def refusals(one: Recorded, facts: NodeFacts | None) -> Iterator[tuple[str, str]]:
    """(key, fact) of what keeps people out of this allocation; a silent host reports nothing."""
    named = facts.platform if facts and one.login else None
    for word in SOUND if named else ():
        fact = (named or {}).get(f"{word} {one.login}", "")
        if fact.startswith(REFUSED):
            yield f"{word} {one.login}", fact


def refusal_of_all(facts: NodeFacts | None) -> str:
    """Why nobody could log in to this host; empty if nothing says so."""
    fact = ((facts.platform if facts else None) or {}).get(PROBE, "")
    return f"{PROBE} is {fact}" if fact.startswith(REFUSED) else ""
