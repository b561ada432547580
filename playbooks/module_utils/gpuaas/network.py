"""The network walls of tenants: written as files, loaded whole, and read back from the kernel.

What the kernel said when they were loaded is kept in /run, so that a later change shows.
"""

from __future__ import annotations

import json
import os
from typing import Optional

from . import listeners
from .digests import sha256
from .paths import Tree
from .probes import ProbeError, Probes, call, failure, found_in_path, lines_of, printable
from .programs import change

PROGRAM = "/usr/local/libexec/gpuaas/network"
RULES, OWN = "etc/gpuaas/network.nft", "etc/gpuaas/loopback"
LOADED = "run/gpuaas/network"
TABLE = ("table", "inet", "gpuaas")
CLOSED, OPEN = "closed to tenants", "open: "
"""What is said of the ports of sshd."""


def check(rules: str) -> str:
    """Why the host would not take these rules; empty if it would."""
    try:
        done = call("nft", "--check", "--file", "-", given=rules)
    except ProbeError as error:
        return f"{error}: install the package nftables"
    return failure("nft --check", done) if done.returncode else ""


def take_up(tree: Tree) -> None:
    """The kernel goes by what is written now, also where an earlier run ended before this."""
    if tree.whole_host and (tree.changed or is_stale("/")):
        change(tree, PROGRAM)


def is_stale(root: str) -> bool:
    """Whether a file, or the kernel, says otherwise than when they were loaded.

    So it is too where sshd listens on a port that these do not close: to load them anew closes it.
    """
    if _loaded(root)[1:] != [_files(root), _listed() or ""]:
        return True
    return _sshd(Probes(root)).startswith(OPEN)


def read_walls(probes: Probes) -> dict[str, str]:
    """`in force <digest of the rules>`, if the kernel still has what it had when it loaded them;
    and whether every port of the host's own sshd is closed to tenants.
    """
    listed = _listed()
    if listed is None:
        return {"walls": "none"}
    rules, _, told = _loaded(probes.root)
    walls = f"in force sha256:{rules}" if told == listed else "changed since loaded"
    return {"walls": walls, "sshd": _sshd(probes)}


def _sshd(probes: Probes) -> str:
    """`closed to tenants`, or which ports of sshd's they reach from within the host."""
    try:
        left = listeners.ports(probes) - _closed_ports()
    except (ProbeError, ValueError, KeyError, TypeError) as error:
        return printable(f"unknown: {error}")
    return f"{OPEN}{', '.join(map(str, sorted(left)))}" if left else CLOSED


def _closed_ports() -> set[int]:
    told = json.loads("\n".join(lines_of("nft", "--json", "list", "set", *TABLE[1:], "sshd")))
    return {port for part in told["nftables"] for port in part.get("set", {}).get("elem", ())}


def read_loopback(probes: Probes) -> dict[str, str]:
    """Login → the address that is its own, of which uids, and who else has it."""
    if _listed() is None:
        return {}
    told = json.loads("\n".join(lines_of("nft", "--json", "list", "set", *TABLE[1:], "own")))
    owners: dict[str, list[tuple[str, int, int]]] = {}
    for one in (one for part in told["nftables"] for one in part.get("set", {}).get("elem", ())):
        element = one.get("elem", {"val": one})
        address, uid = element["val"]["concat"]
        first, last = uid["range"] if isinstance(uid, dict) else (uid, uid)
        name = printable(element.get("comment", "?"))
        owners.setdefault(name, []).append((address, first, last))
    return {name: ", ".join(map(_owner, sorted(found))) for name, found in owners.items()}


def _owner(found: tuple[str, int, int]) -> str:
    address, first, last = found
    return f"{address} of uid {first if first == last else f'{first}-{last}'}"


def _listed() -> Optional[str]:
    """Digest of what the kernel says; None where there is no such table, or nothing to ask by."""
    if found_in_path("nft") is None:
        return None
    done = call("nft", "list", *TABLE)
    return _digest(done.stdout.encode("utf-8")) if done.returncode == 0 else None


def _loaded(root: str) -> list[str]:
    """The rules, all files, and what the kernel said: their digests, when they were loaded."""
    try:
        with open(os.path.join(root, LOADED), encoding="ascii") as file:
            told = file.read().split()
    except FileNotFoundError:
        told = []
    return told if len(told) == 3 else ["", "", ""]


def _files(root: str) -> str:
    """As the program that loads them takes them together."""
    folder = os.path.join(root, OWN)
    names = os.listdir(folder) if os.path.isdir(folder) else []
    own = sorted(n for n in names if n.endswith(".nft") and not n.startswith("."))
    whole = b""
    for path in [*(os.path.join(folder, name) for name in own), os.path.join(root, RULES)]:
        if os.path.isfile(path):
            with open(path, "rb") as file:
                whole += file.read()
    return _digest(whole)


def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()
