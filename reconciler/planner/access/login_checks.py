"""Login checks: hosts that were seen to keep out people whom they should let in.

That is tried at each look, and no work of ours can mend it: it is what somebody has made of the
host.
"""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.model.host.evidence import NodeFacts
from reconciler.model.host.facts.named_fact import fact_key
from reconciler.model.host.facts.tenant_fact import ENTRANCE, PROBE, is_refused
from reconciler.model.state.world import Recorded


def refusals(one: Recorded, facts: NodeFacts | None) -> Iterator[tuple[str, str]]:
    """(key, fact) of what keeps people out of this allocation; a silent host reports nothing."""
    named = facts.platform if facts and one.login else None
    for word in ENTRANCE if named else ():
        key = fact_key(word, one.login)
        fact = (named or {}).get(key, "")
        if is_refused(fact):
            yield key, fact


def refusal_of_all(facts: NodeFacts | None) -> str:
    """Why nobody could log in to this host; empty if nothing says so."""
    fact = ((facts.platform if facts else None) or {}).get(PROBE, "")
    return f"{PROBE} is {fact}" if is_refused(fact) else ""
