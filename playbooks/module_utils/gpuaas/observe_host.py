"""node.observe of a whole host: what `observe` asks, and what is a host's alone.

A module of its own, since a folder that stands for a host need not be sent the half of it.
"""

from __future__ import annotations

from .device_holders import read_holders
from .logins import read_keys, read_logins
from .observe import COMMON, Request, main
from .platform import read_platform
from .probes import Facts, Probes
from .residue import read_leftovers
from .running_processes import read_running
from .tenants import read_sessions, read_stray_keys, read_tenants
from .topology import read_topology
from .unknown_uids import read_strangers


def more(probes: Probes, request: Request) -> Facts:
    """`prove` holds the uids whose leftovers are looked for, and with them who has cards open.

    With `topology` (slice.topology_discover) it says as well what slots could be made of, and with
    a range of uids in `sweep` what there is of any of them.
    """
    found = of_a_whole_host(probes, request["prove"]) if probes.whole_host else {}
    if request.get("sweep") and probes.whole_host:
        first, last = request["sweep"]
        found["strangers"] = probes.ask("strangers", lambda p: read_strangers(p, first, last))
    if (request["prove"] or request.get("sweep")) and probes.whole_host:
        found["holders"] = probes.ask("holders", read_holders)
    return {**found, "topology": read_topology(probes) if request["topology"] else None}


def of_a_whole_host(probes: Probes, prove: list[int]) -> Facts:
    """What a folder has not, and who is not root cannot see: there these facts are unknown."""
    return {
        "platform": {
            **read_platform(probes),
            **read_tenants(probes),
            **probes.words(COMMON),
            **probes.words({"keys": read_keys, "login": read_logins}),
        },
        "leftovers": probes.ask("leftovers", lambda p: read_leftovers(p, prove)),
        "strayKeys": probes.ask("strayKeys", read_stray_keys),
        "sessions": probes.ask("sessions", read_sessions),
        "running": probes.ask("running", read_running),
    }


if __name__ == "__main__":
    main(more)
