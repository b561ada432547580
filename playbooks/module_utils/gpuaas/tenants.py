"""Tenants: their accounts and confinement as named facts, their sessions and their keys."""

from __future__ import annotations

import base64
import binascii
import os
import re
import stat
from contextlib import suppress
from typing import Iterator, Optional, Union

from . import cron_deny, filters
from .digests import sha256
from .network import read_loopback
from .passwd import Accounts, User
from .paths import LOGIN
from .probes import (
    OPEN_FILE,
    ProbeError,
    Probes,
    lines_of,
    open_below,
    printable,
    shortened,
)
from .quota_facts import read_quotas
from .sessions import told_sessions
from .slices import shm_size
from .subids import given
from .topology import read_details
from .uid_conflicts import read_taken

MAX_KEYS = 1_000_000

EVERYBODYS = frozenset(
    {"/dev/tty rw", "/dev/ptmx rw", "char-pts rw", "/dev/fuse rw", "/dev/net/tun rw"}
)
OF_ANY_GPU = frozenset({"/dev/nvidiactl rw", "/dev/nvidia-uvm rw"})
GPU_NODE = re.compile(r"/dev/nvidia(\d+) rw")
PROPERTIES = {
    "AllowedCPUs": "cpus",
    "AllowedMemoryNodes": "mems",
    "MemoryMax": "memory",
    "MemorySwapMax": "swap",
    "TasksMax": "tasks",
}

KEY_FILES = (".ssh/authorized_keys", ".ssh/authorized_keys2")
KEY = re.compile(r"(?:^|\s)(?:ssh|ecdsa|sk-ssh|sk-ecdsa)-[\w@.-]+\s+([A-Za-z0-9+/]+={0,2})")
AUTHORITY = re.compile(r"(?:^|,)cert-authority(?:,|\s)", re.IGNORECASE)


def read_tenants(probes: Probes) -> dict[str, str]:
    """Named facts `<word> <login>`; after a release there must be none of any word."""
    return probes.words(
        {
            "account": read_accounts,
            "slice": read_slices,
            "cron": lambda p: read_denied(p, "cron"),
            "at": lambda p: read_denied(p, "at"),
            "shm": read_shm,
            "loopback": read_loopback,
            "subids": read_subids,
            "quota": read_quotas,
            "linger": read_lingering,
            "taken": read_taken,
        }
    )


def read_accounts(probes: Probes) -> dict[str, str]:
    accounts = Accounts(probes.root)
    return {user.login: printable(accounts.fact(user)) for user in accounts.tenants()}


def read_slices(probes: Probes) -> dict[str, str]:
    """What systemd holds a tenant to, by the name of the tenant."""
    tenants = Accounts(probes.root).tenants()
    if not tenants:
        return {}
    details = read_details(probes).values()
    cards = {card["minor"]: card["uuid"] for card in details if "minor" in card and "uuid" in card}
    units = {f"user-{user.uid}.slice": user.login for user in tenants}
    told = {one["Id"][0]: one for one in shown(list(units)) if "Id" in one}
    if set(told) != set(units):
        raise ProbeError("systemd does not tell of every slice")
    opened = filters.let_through(probes.root, [user.uid for user in tenants])
    return {
        user.login: slice_fact(told[f"user-{user.uid}.slice"], cards, opened.get(user.uid))
        for user in tenants
    }


def shown(units: list[str]) -> Iterator[dict[str, list[str]]]:
    """Each unit's properties; a list has a line for each of its entries."""
    names = ",".join(("Id", "DevicePolicy", "DeviceAllow", *PROPERTIES))
    one: dict[str, list[str]] = {}
    for line in [*lines_of("systemctl", "show", f"--property={names}", *units), ""]:
        key, mark, value = line.partition("=")
        if mark:
            one.setdefault(key, []).append(value)
        elif one:
            yield one
            one = {}


def slice_fact(
    told: dict[str, list[str]],
    cards: dict[int, str],
    opened: Union[frozenset[str], str, None] = None,
) -> str:
    """Devices by their UUIDs; what is open and should not be is named, and `-` what is missing.

    `opened` are those of GPUs that the kernel lets through, whatever systemd was told.
    """
    if isinstance(opened, str):
        return printable(opened)
    given = {value for value in told.get("DeviceAllow", ()) if value}
    if opened is not None:
        of_gpus = {node for node in given if filters.is_of_gpus(node.rpartition(" ")[0])}
        given = (given - of_gpus) | {f"{node} rw" for node in opened}
    gpus = {
        node: cards[int(match.group(1))]
        for node in given
        if (match := GPU_NODE.fullmatch(node)) and int(match.group(1)) in cards
    }
    base = EVERYBODYS | OF_ANY_GPU if gpus else EVERYBODYS
    devices = [
        *sorted(gpus.values()),
        *sorted(given - base - set(gpus)),
        *(f"-{node}" for node in sorted(base - given)),
    ]
    values = {word: " ".join(told.get(name, ["?"])) for name, word in PROPERTIES.items()}
    rest = " ".join(f"{word}={value.replace(' ', ',')}" for word, value in values.items())
    policy = " ".join(told.get("DevicePolicy", ["?"]))
    return printable(f"policy={policy} devices={','.join(devices)} {rest}")


def read_denied(probes: Probes, word: str) -> dict[str, str]:
    """Tenants, and whatever login of one a list still has."""
    names = {user.login for user in Accounts(probes.root).tenants()}
    names |= {login for login in cron_deny.listed(probes.root) if LOGIN.fullmatch(login)}
    return {
        login: "denied" if cron_deny.is_denied(probes.root, word, login) else "allowed"
        for login in sorted(names)
    }


def read_shm(probes: Probes) -> dict[str, str]:
    found = {}
    folder = open_below(probes.root, "var/lib/gpuaas/instances/shm")
    if folder is not None:
        try:
            names = os.listdir(folder)
        finally:
            os.close(folder)
        for login in sorted(names):
            size = shm_size(login)
            if size is not None:
                found[printable(login)] = f"tmpfs {size}"
    return found


def read_subids(probes: Probes) -> dict[str, str]:
    """Tenants, and whatever login of one a list still has."""
    names = {user.login for user in Accounts(probes.root).tenants()}
    return {
        printable(login): fact
        for login, fact in given(probes.root).items()
        if login in names or LOGIN.fullmatch(login)
    }


def read_lingering(probes: Probes) -> dict[str, str]:
    try:
        return {
            printable(name): "present" for name in os.listdir(probes.at("var/lib/systemd/linger"))
        }
    except FileNotFoundError:
        return {}


def read_sessions(probes: Probes) -> dict[str, int]:
    """Login → open sessions, as logind keeps them."""
    found: dict[str, int] = {}
    for _, told in told_sessions(probes.root):
        if told.get("CLASS", "").startswith("user"):
            login = printable(told.get("USER", ""))
            found[login] = found.get(login, 0) + 1
    return found


def read_stray_keys(probes: Probes) -> dict[str, list[str]]:
    """Login → keys in files of its own, which open nothing here."""
    found = {}
    for user in Accounts(probes.root).tenants():
        keys = [f"{key} ~/{name}" for name in KEY_FILES for key in keys_in(probes, user, name)]
        if keys:
            found[user.login] = shortened(keys)
    return found


def keys_in(probes: Probes, user: User, name: str) -> list[str]:
    """Fingerprints, with the mark of those that could vouch for any number of others."""
    text = own_text(probes, os.path.join(user.home.strip("/"), name))
    found = []
    for line in (text or "").splitlines():
        match = KEY.search(line)
        if match and not line.lstrip().startswith("#"):
            mark = "cert-authority " if AUTHORITY.search(line[: match.start(1)]) else ""
            found.append(mark + fingerprint(match.group(1)))
    return found


def own_text(probes: Probes, path: str) -> Optional[str]:
    """Of a regular file, without following a link that its owner may have put there."""
    place, _, name = path.rpartition("/")
    with suppress(FileNotFoundError, ProbeError):
        folder = open_below(probes.root, place)
        if folder is not None:
            try:
                file = os.open(name, OPEN_FILE, dir_fd=folder)
            except OSError:
                return None
            finally:
                os.close(folder)
            try:
                if stat.S_ISREG(os.fstat(file).st_mode):
                    with open(file, "rb", closefd=False) as opened:
                        return opened.read(MAX_KEYS).decode("utf-8", "replace")
            finally:
                os.close(file)
    return None


def fingerprint(blob: str) -> str:
    try:
        digest = sha256(base64.b64decode(blob, validate=True)).digest()
    except binascii.Error:
        return "unreadable"
    return "SHA256:" + base64.b64encode(digest).decode("ascii").rstrip("=")
