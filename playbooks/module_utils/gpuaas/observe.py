"""node.observe: a host's report about itself, as one JSON object on stdout; it changes nothing.

This much is asked of every host, also of one that is a folder; `observe_host` asks for more.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, Callable, Mapping, Optional

from .attachments import read_attached, read_volume_texts, read_volumes
from .card_errors import read_card_errors
from .cards import read_gpus
from .device_names import read_devices
from .fabric import read_fabric
from .machine import read_boot_id, read_cpus, read_memory, read_nics, read_nvmes, read_os
from .platform_state import read_descriptor_texts, read_descriptors, read_paths, read_sizes
from .probes import BUDGET, STANDIN, Facts, Probes
from .restarts import read_restarts
from .runtimes import read_currents, read_runtimes
from .slot_drives import read_drive_users

PROBE_VERSION = 3
COMMON = {
    "attached": read_attached,
    "current": read_currents,
    "device": read_devices,
    "runtime": read_runtimes,
}
"""Named facts of hosts and of folders alike."""


Request = Mapping[str, Any]
More = Callable[[Probes, Request], Facts]


def nothing(probes: Probes, request: Request) -> Facts:
    return {}


def observe(request: Request, more: More = nothing) -> Facts:
    """Everything asked of a host, as NodeFacts in JSON; facts that are unknown are left out.

    What is not told within `seconds` is unknown, and all the rest is told.
    """
    BUDGET.begin(request.get("seconds"))
    probes = Probes(request["root"])
    hardware, gpus = probes.hardware, probes.ask("gpus", read_gpus)
    nvmes = hardware.ask("nvmes", read_nvmes)
    facts = {
        "source": source(probes, gpus),
        "machineId": probes.ask("machineId", lambda p: p.text("etc/machine-id").strip()),
        "bootId": probes.ask("bootId", read_boot_id),
        "os": probes.ask("os", read_os),
        "cpus": hardware.ask("cpus", read_cpus),
        "memoryMiB": hardware.ask("memory", read_memory),
        "gpus": gpus,
        "cardErrors": None if gpus is None else probes.ask("cardErrors", read_card_errors),
        "fabric": None if gpus is None else probes.ask("fabric", read_fabric),
        "nvmes": nvmes,
        "driveUsers": None if nvmes is None else hardware.ask("nvmes", read_drive_users),
        "nics": hardware.ask("nics", read_nics),
        "paths": probes.ask("paths", read_paths),
        "descriptors": probes.ask("descriptors", read_descriptors),
        "restarts": probes.ask("restarts", read_restarts),
        "sizes": probes.ask("sizes", read_sizes),
        **(told_in_full(probes) if request.get("descriptors") else {}),
        "platform": None if probes.whole_host else probes.words(COMMON),
        "volumes": probes.ask("volumes", read_volumes),
        **more(probes, request),
        "problems": probes.problems,
        "probeVersion": PROBE_VERSION,
    }
    return {key: value for key, value in facts.items() if value is not None}


def told_in_full(probes: Probes) -> Facts:
    """For whoever has to find out anew whose allocations and whose data these are."""
    return {
        "descriptorTexts": probes.ask("descriptors", read_descriptor_texts),
        "volumeTexts": probes.ask("volumes", read_volume_texts),
    }


def source(probes: Probes, gpus: Optional[list[Facts]]) -> str:
    """`standin` for a stand-in topology, which must never pass for a real host."""
    marked = os.path.lexists(probes.at(STANDIN))
    drivers = [card.get("driver") or "" for card in gpus or ()]
    return "standin" if marked or any(d.endswith("-standin") for d in drivers) else "host"


def main(more: More = nothing) -> None:
    request = json.loads(sys.argv[1])
    root = request["root"]
    if not os.path.isabs(root) or not os.path.isdir(root):
        sys.exit(f"root folder {root} is not there")
    sys.stdout.write(json.dumps(observe(request, more), separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
