"""sshd's own view of the settings that hold for a tenant, for every way to connect."""

from __future__ import annotations

import grp
import os
import pwd
import re
from functools import lru_cache
from typing import Optional

from .connections import (
    CONFIG,
    Connection,
    address_in_list,
    criteria,
    in_list,
    sorts,
)
from .passwd import Accounts
from .probes import Probes, lines_of, printable

TENANTS, PROBE = "gpuaas-tenants", "gpuaas-probe"
SAMPLE = "tenant-aaaa"
"""A name as tenants have them, for lists of names."""

SETTINGS = (
    "authenticationmethods",
    "authorizedkeyscommand",
    "authorizedkeysfile",
    "authorizedprincipalscommand",
    "authorizedprincipalsfile",
    "gssapiauthentication",
    "hostbasedauthentication",
    "kbdinteractiveauthentication",
    "kerberosauthentication",
    "passwordauthentication",
    "permittunnel",
    "permituserenvironment",
    "permituserrc",
    "pubkeyauthentication",
    "strictmodes",
    "trustedusercakeys",
    "usepam",
)
LISTS = ("allowgroups", "allowusers", "denygroups", "denyusers")
MAX_TOLD = 3
CAME_BY = re.compile(rb"(?:^|\0)SSH_CONNECTION=(\S+) \d+ (\S+) (\d+)(?:\0|$)")

Told = dict[str, list[str]]


def read_sshd(probes: Probes) -> dict[str, str]:
    """Of every sort of connection by which a tenant gets in at all; the one in hand comes first."""
    base = connection(PROBE)
    config = probes.at(CONFIG)
    told = ask(base, config)
    users = [user.login for user in Accounts(probes.root).tenants()]
    each = sorts(base, criteria(probes.root), users, groups_of, told.get("port", []))
    others = [
        (one, answer) for one in each[1:] for answer in [ask(one, config)] if lets_in(answer, one)
    ]
    words = [("admitted", "yes" if lets_in(told, base) else "no")]
    for name in SETTINGS:
        value = value_of(told, name)
        odd = [
            f"{value_of(answer, name)}@{one.apart(base)}"
            for one, answer in others
            if value_of(answer, name) != value
        ]
        words.append((name, ",".join((value, *odd[:MAX_TOLD]))))
    return {"tenants": printable(" ".join(f"{name}={value}" for name, value in sorted(words)))}


def connection(user: str) -> Connection:
    """As the one by which we have come ourselves: from there, to this address and this port."""
    came, to, port = came_by() or ("127.0.0.1", "127.0.0.1", "22")
    return Connection(user=user, host=came, addr=came, laddr=to, lport=port)


def came_by() -> Optional[tuple[str, str, str]]:
    """Where from, to what address and what port: sudo does not hand it on, but our parents do."""
    pid = os.getpid()
    while pid > 1:
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                found = CAME_BY.search(file.read())
            with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
                parent = file.read().rpartition(")")[2].split()[1]
        except (OSError, IndexError):
            return None
        if found is not None:
            came, to, port = (part.decode("ascii", "replace") for part in found.groups())
            return came.partition("%")[0], to.partition("%")[0], port
        pid = int(parent)
    return None


@lru_cache(maxsize=None)
def ask(one: Connection, config: str = f"/{CONFIG}") -> Told:
    """Setting → its lines. Raises ProbeError."""
    told: Told = {}
    for line in lines_of("sshd", "-T", "-f", config, "-C", one.told):
        name, _, value = line.partition(" ")
        told.setdefault(name, []).append(value)
    return told


def value_of(told: Told, name: str) -> str:
    return " ".join(told.get(name, ["no"]))


def groups_of(login: str) -> list[str]:
    """Of an account that there is, by all sources of the host; of any other none."""
    try:
        gid = pwd.getpwnam(login).pw_gid
    except KeyError:
        return []
    names = [group.gr_name for group in grp.getgrall() if login in group.gr_mem]
    try:
        return [grp.getgrgid(gid).gr_name, *names]
    except KeyError:
        return names


def lets_in(told: Told, one: Connection, login: str = SAMPLE) -> bool:
    """Whether its lists of who may log in at all let a tenant in who comes by this connection."""
    groups = [TENANTS] if login == SAMPLE else groups_of(login)
    allowed_users, allowed_groups = words_of(told, "allowusers"), words_of(told, "allowgroups")
    return (
        not any(is_named(pattern, login, one) for pattern in words_of(told, "denyusers"))
        and (not allowed_users or any(is_named(p, login, one) for p in allowed_users))
        and not any(in_list(group, words_of(told, "denygroups")) for group in groups)
        and (not allowed_groups or any(in_list(group, allowed_groups) for group in groups))
    )


def words_of(told: Told, name: str) -> list[str]:
    return [word for value in told.get(name, []) for word in value.split()]


def is_named(pattern: str, login: str, one: Connection) -> bool:
    """`user`, or `user@where` with a name, an address or a net, as sshd has it in its lists."""
    who, at, where = pattern.rpartition("@")
    if not at:
        return in_list(login, [pattern]) is True
    places = where.split(",")
    near = address_in_list(one.addr, places) or in_list(one.host.lower(), places)
    return bool(near) and in_list(login, [who]) is True
