"""The account of a tenant: made with the numbers given, never taken over from somebody else."""

from __future__ import annotations

import pwd
from typing import Any, NamedTuple

from .passwd import GROUP, SHELL, TENANTS, Accounts, User
from .paths import Refusal, Tree
from .programs import change

KEYS = {
    "uid": int,
    "gid": int,
    "group": str,
    "gecos": str,
    "shmBytes": int,
    "subids": int,
    "slots": int,
    "nodeSlots": int,
}

NEVER = ("--key", "PASS_MAX_DAYS=-1", "--inactive", "-1", "--expiredate", "")
UNAGEING = ("--maxdays", "-1", "--inactive", "-1", "--expiredate", "-1")
"""An account without a password grows old all the same where a host says so of all of its own."""


class Wanted(NamedTuple):
    login: str
    uid: int
    gid: int
    group: str
    gecos: str

    @property
    def home(self) -> str:
        return f"/home/{self.login}"


def wanted_of(item: dict[str, Any]) -> Wanted:
    account = item["account"]
    if account["gecos"] != f"gpuaas {item['id']}":
        raise Refusal("item_invalid", "the account is marked as another allocation's")
    match = GROUP.fullmatch(account["group"])
    if match is None or match.group(1) != str(account["gid"]) or account["gid"] < 1000:
        raise Refusal("item_invalid", f"no group of a project: {account['group']!r}")
    return Wanted(item["login"], *(account[key] for key in ("uid", "gid", "group", "gecos")))


def check_free(tree: Tree, wanted: Wanted) -> None:
    """Raises Refusal where the login, the uid or the group is somebody else's."""
    check_ours(tree, wanted.login, wanted.uid, wanted.gecos)
    for group in Accounts(tree.path).groups:
        taken = group.name == wanted.group and group.gid != wanted.gid
        foreign = group.gid == wanted.gid and not GROUP.fullmatch(group.name)
        if taken or foreign:
            raise _conflict(f"group {group.name} has gid {group.gid}")


def check_ours(tree: Tree, login: str, uid: int, gecos: str) -> None:
    """Raises Refusal where the login or the uid is somebody else's; nobody's is well."""
    accounts = Accounts(tree.path)
    user = accounts.user(login)
    if user is not None and (user.uid, user.gecos) != (uid, gecos):
        raise _conflict(f"login {login} has uid {user.uid} and is none of this allocation")
    others = [user.login for user in accounts.users if user.uid == uid]
    for other in [*others, *(_elsewhere(uid) if tree.whole_host else ())]:
        if other != login:
            raise _conflict(f"uid {uid} is that of {other}")


def put_account(tree: Tree, wanted: Wanted) -> None:
    """The group first: `useradd` would else make one of its own, with a number of its own."""
    accounts = Accounts(tree.path)
    _put_group(tree, wanted, accounts)
    user = accounts.user(wanted.login)
    if user is None:
        make = ("--no-user-group", "--no-create-home", "--no-log-init", "--password", "!")
        # Numbers of containers are not given out by the host: it would give the same ones again.
        no_more = ("--key", "SUB_UID_COUNT=0", "--key", "SUB_GID_COUNT=0")
        who = ("--uid", str(wanted.uid), "--gid", wanted.group, "--comment", wanted.gecos)
        what = ("--groups", TENANTS, "--home-dir", wanted.home, "--shell", SHELL)
        change(tree, "useradd", *_below(tree), *make, *no_more, *who, *what, *NEVER, wanted.login)
        return
    if differing := _differing(user, wanted, accounts):
        change(tree, "usermod", *_below(tree), *differing, wanted.login)
    if user.ageing:
        _end_ageing(tree, user)


def remove_account(tree: Tree, login: str, gid: int) -> None:
    """The account alone: what it owns is removed, or found, by its number."""
    accounts = Accounts(tree.path)
    user = accounts.user(login)
    if user is not None:
        change(tree, "userdel", *_below(tree), login)
        gid = user.gid
    group = accounts.group(gid)
    in_use = any(other.gid == gid for other in accounts.users if other.login != login)
    if group is not None and GROUP.fullmatch(group.name) and not in_use:
        change(tree, "groupdel", *_below(tree), group.name)


def _end_ageing(tree: Tree, user: User) -> None:
    """Whoever made it did so by what the host says of everybody's passwords; it has none."""
    below = () if tree.whole_host else ("--root", tree.path)
    fresh = ("--lastday", "-1") if "change=demanded" in user.ageing else ()
    change(tree, "chage", *below, *fresh, *UNAGEING, user.login)


def _put_group(tree: Tree, wanted: Wanted, accounts: Accounts) -> None:
    group = accounts.group(wanted.gid)
    if group is None:
        change(tree, "groupadd", *_below(tree), "--gid", str(wanted.gid), wanted.group)
    elif group.name != wanted.group:
        # A project under a new name keeps its number and its files.
        change(tree, "groupmod", *_below(tree), "--new-name", wanted.group, group.name)


def _differing(user: User, wanted: Wanted, accounts: Accounts) -> list[str]:
    table = (
        (user.gid != wanted.gid, "--gid", wanted.group),
        (user.home != wanted.home, "--home", wanted.home),
        (user.shell != SHELL, "--shell", SHELL),
        (not user.locked, "--password", "!"),
        (accounts.groups_of(user.login) != [TENANTS], "--groups", TENANTS),
    )
    return [word for differs, *words in table if differs for word in words]


def _below(tree: Tree) -> tuple[str, ...]:
    return () if tree.whole_host else ("--prefix", tree.path)


def _elsewhere(uid: int) -> list[str]:
    """Who has this uid by the host's other sources of accounts, such as a directory server."""
    try:
        return [pwd.getpwuid(uid).pw_name]
    except KeyError:
        return []


def _conflict(message: str) -> Refusal:
    return Refusal("account_conflict", f"{message}; nothing of it is touched")
