"""Places of an allocation on any host: who owns a path or a named fact, by its name.

For whoever looks at a host without knowing what was there: what `allocation_host` and
`allocation_account` make, read backwards.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import field

from reconciler.model.host import layout
from reconciler.model.host.facts.attached_fact import had_by_key
from reconciler.model.host.facts.named_fact import is_told_in_full, name_of, word_of
from reconciler.model.host.facts.path_fact import owner_in
from reconciler.model.host.facts.tenant_fact import PRESENCE, TenantWord
from reconciler.model.host.layout import HostPath
from reconciler.model.records import dataclass

_LOGIN = re.compile(r"[a-z][a-z0-9-]{0,26}-[a-z2-7]{4}")
_SHM_UNITS = layout.mount_unit(f"{layout.INSTANCES}/shm").removesuffix(".mount")
_BY_ID = (layout.OWN_SCRATCH, layout.DESCRIPTOR, layout.ENVIRONMENT, layout.RESTART_MARK)
_BY_LOGIN = (
    layout.HOME,
    layout.KEY_FILE,
    *map(layout.instance, layout.PRIVATE),
    HostPath(before=f"{_SHM_UNITS}-", after=".mount"),
)
_BY_UID = (
    layout.DEVICES,
    layout.LOOPBACK,
    layout.QUOTA,
    layout.SLICE,
    layout.USER_MANAGER,
    layout.RUNTIME_SLICE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The allocations that are known to be on one host."""

    ids: frozenset[str] = frozenset()
    logins: frozenset[str] = frozenset()
    uids: frozenset[int] = field(default=frozenset())


def strange_paths(paths: Mapping[str, str], known: Known, first_uid: int) -> Iterator[str]:
    """Paths that some allocation has had which is not known; what a person has is none.

    `first_uid` is where the numbers of tenants begin.
    """
    uids = frozenset(map(str, known.uids))
    for places, names in ((_BY_ID, known.ids), (_BY_LOGIN, known.logins)):
        for path in sorted(paths):
            name = _name(places, path)
            if name and name not in names and not _is_persons_home(path, paths[path], first_uid):
                yield path
    for path in sorted(paths):
        uid = _name(_BY_UID, path)
        if uid.isdecimal() and int(uid) >= first_uid and uid not in uids:
            yield path


def strange_facts(named: Mapping[str, str], known: Known) -> Iterator[str]:
    """Named facts of logins that are not known, and storage of ids that are not.

    Who may linger without being a tenant, may.
    """
    for key in sorted(named):
        word, login = word_of(key), name_of(key)
        persons = word == TenantWord.LINGER and not _LOGIN.fullmatch(login)
        had = had_by_key(key)
        if had is not None and had[0] not in known.ids | {"*"}:
            yield key
        if word in PRESENCE and login not in known.logins | {"*"} and not persons:
            yield key


def unlisted(named: Mapping[str, str]) -> Collection[str]:
    """Words of tenants that the host has not told in full: of those nothing is absent."""
    return [word for word in PRESENCE if not is_told_in_full(named, word)]


def _name(places: Collection[HostPath], path: str) -> str:
    found = next(filter(None, (place.name_in(path) for place in places)), "")
    return found.replace("\\\\x2d", "-")


def _is_persons_home(path: str, fact: str, first_uid: int) -> bool:
    """Below /home people of the host live as well, with numbers below those of tenants."""
    if not path.startswith(layout.HOME.before):
        return False
    owner = owner_in(fact)
    return not _LOGIN.fullmatch(path.rpartition("/")[2]) or (
        owner is not None and owner.uid < first_uid
    )
