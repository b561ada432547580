"""node.observe: what a host says about itself, as one JSON object on stdout; it changes nothing."""

from __future__ import annotations

import json
import os
import sys
from typing import Optional, Sequence

from .cards import read_gpus
from .kept import read_descriptors, read_paths, read_sizes
from .leftovers import read_leftovers
from .machine import read_boot_id, read_cpus, read_memory, read_nics, read_nvmes, read_os
from .platform import read_platform
from .probes import STANDIN, Facts, Probes
from .tenants import read_sessions, read_stray_keys, read_tenants
from .topology import read_topology

PROBE_VERSION = 2


def observe(root: str, prove: Sequence[int] = (), topology: bool = False) -> Facts:
    """Everything asked of a host, as NodeFacts in JSON; facts that are unknown are left out.

    `prove` names the uids whose leftovers are looked for; with `topology` it says as well what
    slots could be made of.
    """
    probes = Probes(root)
    hardware, gpus = probes.hardware, probes.ask("gpus", read_gpus)
    facts = {
        "source": source(probes, gpus),
        "machineId": probes.ask("machineId", lambda p: p.text("etc/machine-id").strip()),
        "bootId": probes.ask("bootId", read_boot_id),
        "os": probes.ask("os", read_os),
        "cpus": hardware.ask("cpus", read_cpus),
        "memoryMiB": hardware.ask("memory", read_memory),
        "gpus": gpus,
        "nvmes": hardware.ask("nvmes", read_nvmes),
        "nics": hardware.ask("nics", read_nics),
        "paths": probes.ask("paths", read_paths),
        "descriptors": probes.ask("descriptors", read_descriptors),
        "sizes": probes.ask("sizes", read_sizes),
        **(of_a_whole_host(probes, prove) if probes.whole_host else {}),
        "topology": read_topology(probes) if topology else None,
        "problems": probes.problems,
        "probeVersion": PROBE_VERSION,
    }
    return {key: value for key, value in facts.items() if value is not None}


def of_a_whole_host(probes: Probes, prove: Sequence[int]) -> Facts:
    """What a folder has not, and who is not root cannot see: there these facts are unknown."""
    return {
        "platform": {**read_platform(probes), **read_tenants(probes)},
        "leftovers": probes.ask("leftovers", lambda p: read_leftovers(p, prove)),
        "strayKeys": probes.ask("strayKeys", read_stray_keys),
        "sessions": probes.ask("sessions", read_sessions),
    }


def source(probes: Probes, gpus: Optional[list[Facts]]) -> str:
    """`standin` for a stand-in topology, which must never pass for a real host."""
    marked = os.path.lexists(probes.at(STANDIN))
    drivers = [card.get("driver") or "" for card in gpus or ()]
    return "standin" if marked or any(d.endswith("-standin") for d in drivers) else "host"


def main() -> None:
    request = json.loads(sys.argv[1])
    root, prove = request["root"], request.get("prove", [])
    if not os.path.isabs(root) or not os.path.isdir(root):
        sys.exit(f"root folder {root} is not there")
    if not all(isinstance(uid, int) and uid > 0 for uid in prove):
        sys.exit("prove: no uids of tenants")
    answer = observe(root, prove, topology=request.get("topology") is True)
    sys.stdout.write(json.dumps(answer, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
