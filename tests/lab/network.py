"""A bridge in a network namespace of its own, which has no way out, and our cable into it.

The cable is why neither pytest nor an operator has to enter the namespace: the hosts have
addresses beside ours, know no gateway, and nothing is forwarded.
"""

from __future__ import annotations

import os
from contextlib import suppress

from tests.lab import place

BRIDGE = "lab0"
OUR_END = place.NAME
RANGE = os.environ.get("GPUAAS_LAB_RANGE", "10.77.0")
OURS = f"{RANGE}.1"
"""Where the control machine is, as the hosts see it."""

FIRST = 10
"""The last number of the address of the host with index 0."""

NAMESPACE = f"/run/netns/{place.NAME}"


def address(index: int) -> str:
    return f"{RANGE}.{FIRST + index}"


def settings(index: int) -> str:
    """Of the host, for networkd. Addresses are used again, and no cache of ours may go stale."""
    return SETTINGS.format(address=address(index), hardware=f"02:67:70:75:00:{index:02x}")


SETTINGS = """\
[Match]
Name=host0

[Link]
MACAddress={hardware}

[Network]
Address={address}/24
LinkLocalAddressing=no
IPv6AcceptRA=no
"""


def up() -> None:
    """Does nothing where the network stands: laying our end is the last thing that is done."""
    with place.alone("network"):
        if not _is_up():
            _clear()
            _lay()


def down() -> None:
    with place.alone("network"):
        _clear()


def cut(host: str) -> None:
    """Pull the cable of a host out of the bridge."""
    _inside("link set", _port(host), "down")


def heal(host: str) -> None:
    _inside("link set", _port(host), "up")


def _port(host: str) -> str:
    """As systemd-nspawn names it, for names short enough to be a device's."""
    return f"vb-{host}"


def _is_up() -> bool:
    with suppress(place.LabError):
        return f"{OURS}/" in place.order("ip", "addr", "show", OUR_END, "up")
    return False


def _clear() -> None:
    with suppress(place.LabError):
        place.order("ip", "link", "del", OUR_END)
    with suppress(place.LabError):
        place.order("ip", "netns", "del", place.NAME)


def _lay() -> None:
    place.order("ip", "netns", "add", place.NAME)
    _inside("link set lo up")
    _inside("link add", BRIDGE, "type bridge")
    _inside("link set", BRIDGE, "up")
    _outside("link add", OUR_END, "type veth peer name cable netns", place.NAME)
    _inside("link set cable up master", BRIDGE)
    _outside("addr add", f"{OURS}/24", "dev", OUR_END)
    _outside("link set", OUR_END, "up")


def _outside(*words: str) -> None:
    place.order("ip", *" ".join(words).split())


def _inside(*words: str) -> None:
    place.order("ip", "-n", place.NAME, *" ".join(words).split())
