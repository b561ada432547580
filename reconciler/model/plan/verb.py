"""Verbs: the closed list of what a step asks a host for.

What each is given, shows and refuses stands in `hosts/contracts`.
"""

from __future__ import annotations

from enum import StrEnum


class Verb(StrEnum):
    OBSERVE = "node.observe"
    DISCOVER = "slice.topology_discover"
    PREPARE = "node.prepare"
    """Readies a host for tenants, and may break its door."""
    PROVIDE = "allocation.provide"
    ATTACH = "storage.attach"
    DETACH = "storage.detach"
    REOPEN = "storage.reopen"
    WIPE = "storage.wipe"
    FORGET = "storage.forget"
    SYNC = "access.sync"
    RESTART = "allocation.restart"
    QUARANTINE = "allocation.quarantine"
    RELEASE = "allocation.release"
    STAGE = "runtime.stage"
    REPAIR = "runtime.repair"
    DISCARD = "runtime.discard"
    WRITE_ENV = "runtime.write_env_file"


STAGING = frozenset({Verb.STAGE, Verb.REPAIR})
"""Those that build a version of a bundle."""

SHOW_NOTHING = frozenset({Verb.FORGET})
"""Those after which a host shows all that it has shown before."""
