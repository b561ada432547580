"""Errors that the kernel has logged since boot: of GPUs (Xid) and of switches (SXid).

What they mean is not judged here. Drivers have written the place of a card in four ways: with and
without `PCI:`, by bus and device alone, and with the partition that it happened in.
"""

from __future__ import annotations

import os
import re

from .probes import STANDIN, ProbeError, Probes, call, failure

LOGGED = "NVRM: .*Xid|SXid|NVRM: .*fallen off the bus"
PLACE = (
    r"(?:([0-9A-Fa-f]{4,8}):)?((?:00)?[0-9A-Fa-f]{2}):([0-9A-Fa-f]{2})(?:\.[0-7])?"
    r"(?: GPU-I:\d+)?(?: GPU-CI:\d+)?"
)
XID = re.compile(rf"NVRM: Xid \((?:PCI:)?{PLACE}\): (\d{{1,4}})\b(.*)")
GONE = re.compile(rf"NVRM: .*\bGPU (?:at )?(?:PCI:)?{PLACE}\b.*has fallen off the bus")
SXID = re.compile(r"SXid \(PCI:([0-9A-Fa-f:.]+)\): (\d{1,6}), (?:\w+, )*?(fatal)\b", re.IGNORECASE)
ANY_XID = "NVRM: Xid"
NVLINK = frozenset(range(144, 151))
NONFATAL = re.compile(r"\bNonfatal\b", re.IGNORECASE)
RECOVERY = 154
ACTION = re.compile(r"\bto (?:0x[0-9a-fA-F]+ )?\(?([A-Za-z][A-Za-z0-9 ]*?)\)?\s*$")


def read_xids(probes: Probes) -> dict[str, set[str]]:
    """By address: `xid 79`, `xid 149 nonfatal`, and of recoveries the last, `xid 154 None`."""
    found: dict[str, set[str]] = {}
    last: dict[str, str] = {}
    for line in probes.once("kernel log", kernel_log):
        match = XID.search(line)
        if match is None:
            gone = GONE.search(line)
            if gone is not None:
                found.setdefault(address_of(*gone.groups()), set()).add("fallen off the bus")
            elif ANY_XID in line:
                probes.note("cardErrors", f"an error of a card that it does not name: {line}")
            continue
        address, number = address_of(*match.groups()[:3]), int(match.group(4))
        if number == RECOVERY:
            last[address] = action_in(match.group(5))
        elif number in NVLINK and NONFATAL.search(match.group(5)):
            found.setdefault(address, set()).add(f"xid {number} nonfatal")
        else:
            found.setdefault(address, set()).add(f"xid {number}")
    for address, action in last.items():
        found.setdefault(address, set()).add(f"xid {RECOVERY} {action}".strip())
    return found


def read_sxids(probes: Probes) -> list[str]:
    """Fatal ones: `sxid 20034 of 0000:c1:00.0`. All others mend themselves."""
    lines = probes.once("kernel log", kernel_log)
    found = (match for line in lines if (match := SXID.search(line)))
    return sorted({f"sxid {match.group(2)} of {match.group(1).lower()}" for match in found})


def address_of(domain: str, bus: str, device: str) -> str:
    return f"{int(domain or '0', 16):04x}:{bus[-2:].lower()}:{device.lower()}.0"


def action_in(text: str) -> str:
    """What a card asks for after a recovery; `None` says that it asks for nothing any more."""
    match = ACTION.search(text)
    return " ".join(match.group(1).split())[:40] if match else ""


def kernel_log(probes: Probes) -> list[str]:
    """The journal's, which forgets nothing of this boot, as the kernel's own ring would."""
    if os.path.isdir(probes.at(STANDIN)):
        told = os.path.join(STANDIN, "kernel.log")
        return probes.text(told).splitlines() if os.path.exists(probes.at(told)) else []
    if probes.root != "/":
        return []
    done = call("journalctl", "-k", "-b", "-q", "-o", "cat", "--no-pager", "-g", LOGGED)
    # It ends with 1 where nothing matches, and then says nothing at all.
    if done.returncode != 0 and (done.returncode != 1 or done.stdout or done.stderr):
        raise ProbeError(failure("journalctl", done))
    return done.stdout.splitlines()
