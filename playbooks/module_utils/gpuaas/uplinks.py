"""Uplinks: the ports by which a host reaches the network, whatever lies above them.

A default route names an interface that may be a VLAN, a bond, a bridge or a child of another one:
what carries it is found by following each to what it is made of.
"""

from __future__ import annotations

import os
from typing import Iterator

from .probes import Probes

PORTS = "sys/class/net"
HALVES = {("00000000", "00000080"), ("00000080", "00000080")}
"""Two routes that are a default together, as tunnels write it: network and mask."""

DEFAULTS_OF_IPV6 = {
    ("0" * 32, "00"),
    ("0" * 32, "01"),
    ("8".ljust(32, "0"), "01"),
    ("2".ljust(32, "0"), "03"),
}
"""Everything, its halves, and all of the Internet: network and length of its prefix."""


def ways_out(probes: Probes) -> set[str]:
    """Every interface that carries a default route, and all that these are made of."""
    found: set[str] = set()
    todo = [*default_routes(probes), *default_routes_of_ipv6(probes)]
    indexes = numbers_of_ports(probes)
    while todo:
        port = todo.pop()
        if port not in found:
            found.add(port)
            todo += lower_ports(probes, port, indexes)
    return found


def default_routes(probes: Probes) -> Iterator[str]:
    """Of IPv4: all of them, whatever their metric, since any may count tomorrow."""
    rows = [line.split() for line in probes.text("proc/net/route").splitlines()[1:]]
    for row in rows:
        if len(row) > 7 and (row[1] == row[7] == "00000000" or (row[1], row[7]) in HALVES):
            yield row[0]


def default_routes_of_ipv6(probes: Probes) -> Iterator[str]:
    """A host without IPv6 has none; the kernel's own refusal of everything is on lo."""
    try:
        rows = [line.split() for line in probes.text("proc/net/ipv6_route").splitlines()]
    except FileNotFoundError:
        return
    for row in rows:
        if len(row) > 9 and (row[0], row[1]) in DEFAULTS_OF_IPV6 and row[9] != "lo":
            yield row[9]


def lower_ports(probes: Probes, port: str, indexes: dict[str, str]) -> Iterator[str]:
    """What an interface is made of: by the kernel's links, its own words, and at last its name."""
    folder = probes.hardware.at(PORTS, port)
    names = os.listdir(folder) if os.path.isdir(folder) else []
    yield from (name[len("lower_") :] for name in names if name.startswith("lower_"))
    if "brif" in names:
        yield from os.listdir(os.path.join(folder, "brif"))
    for file in ("bonding/slaves", "parent"):
        yield from words_of(probes, port, file)
    for index in words_of(probes, port, "iflink"):
        if index in indexes:
            yield indexes[index]
    parent = port.rpartition(".")[0] or port.rpartition(":")[0]
    if parent:
        yield parent


def numbers_of_ports(probes: Probes) -> dict[str, str]:
    """By the number that the kernel knows a port by."""
    folder = probes.hardware.at(PORTS)
    ports = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    return {index: port for port in ports for index in words_of(probes, port, "ifindex")}


def words_of(probes: Probes, port: str, file: str) -> list[str]:
    try:
        return probes.hardware.text(PORTS, port, file).split()
    except OSError:
        return []
