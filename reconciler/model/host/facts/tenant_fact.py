"""Tenant facts: what a host tells of an account of ours, each by a word and the login."""

from __future__ import annotations

import re
from enum import StrEnum

from reconciler.model.host.facts.named_fact import fact_key


class TenantWord(StrEnum):
    ACCOUNT = "account"
    SLICE = "slice"
    CRON = "cron"
    AT = "at"
    SHM = "shm"
    LOOPBACK = "loopback"
    SUBIDS = "subids"
    QUOTA = "quota"
    LOGIN = "login"
    """Of what was tried and not of what is there: of this nothing can be left."""
    LINGER = "linger"
    KEYS = "keys"
    """Whether sshd takes them, as far as that was tried."""

    def of(self, login: str) -> str:
        """The name of the fact."""
        return fact_key(self, login)

    @property
    def prefix(self) -> str:
        """How the names of such facts begin."""
        return self.of("")


MADE = tuple(word for word in TenantWord if word is not TenantWord.KEYS)
"""Those that come with an account."""

PRESENCE = (
    TenantWord.ACCOUNT,
    TenantWord.SLICE,
    TenantWord.SHM,
    TenantWord.LOOPBACK,
    TenantWord.LINGER,
)
"""Those that say that somebody is there; that a list denies them something does not."""

ENTRANCE = {TenantWord.LOGIN.value: "admitted", TenantWord.KEYS.value: "accepted"}
"""The words of facts about somebody's way in, and what they say where it is open."""

PROBE = TenantWord.LOGIN.of("gpuaas-probe")
"""Somebody who is a tenant and nobody's, and who logs in at each look."""

_REFUSED = "refused"
_CARDS = re.compile(r" devices=(\S*) ")


def is_refused(fact: str) -> bool:
    """Whether a way in was seen to be shut."""
    return fact.startswith(_REFUSED)


def cards_in(fact: str) -> frozenset[str]:
    """UUIDs of the GPUs that a slice fact opens."""
    found = _CARDS.search(fact)
    return frozenset(found[1].split(",")) if found else frozenset()
