"""Errors of cards: what their driver counts, and what the kernel has logged of them since the boot.

By PCI address, since a card that fell off the bus has no other name left. What they mean is not
judged here.
"""

from __future__ import annotations

import os
import re
from functools import partial

from .cards import PCI_ADDRESS, SMI_FORMAT, alone_of, is_cut_short, nvidia_smi, pci_address
from .machine import cards_on_bus
from .probes import STANDIN, ProbeError, Probes, call, failure

COUNTED = "--query-gpu=pci.bus_id,ecc.errors.uncorrected.volatile.total,retired_pages.pending"
REMAPPED = "--query-remapped-rows=gpu_bus_id,remapped_rows.pending,remapped_rows.failure"
QUESTIONS = (
    (COUNTED, ("uncorrected", "pages pending")),
    (REMAPPED, ("rows pending", "rows failed")),
)
XID = re.compile(r"NVRM: Xid \(PCI:([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2})\): (\d{1,4})\b")
NONE = ("0", "No", "[N/A]", "N/A", "[Not Supported]")
"""`[N/A]` is a card that has nothing of the sort to count, and no card that could not say."""


def read_card_errors(probes: Probes, cards: list[str]) -> dict[str, list[str]]:
    """`xid 79`, `uncorrected 3`, `pages pending`, `rows pending`, `rows failed`; sound cards have

    none. Of one of `cards` that answers with something else, or not at all, it is `<word> unknown`.
    """
    found: dict[str, set[str]] = {}
    for line in kernel_log(probes):
        match = XID.search(line)
        if match is not None:
            found.setdefault(pci_address(f"{match.group(1)}.0"), set()).add(f"xid {match.group(2)}")
    for question, words in QUESTIONS:
        silent = set(cards)
        for line in answers(probes, (question, SMI_FORMAT)):
            address, *values = (part.strip() for part in line.split(","))
            if len(values) != len(words) or PCI_ADDRESS.fullmatch(address) is None:
                raise ProbeError(f"nvidia-smi answers what it should not: {line}")
            told = {said(word, values[at]) for at, word in enumerate(words)} - {""}
            found.setdefault(pci_address(address), set()).update(told)
            silent.discard(pci_address(address))
        for card in silent:
            found.setdefault(card, set()).add(f"{words[0]} unknown")
    return {address: sorted(errors) for address, errors in found.items() if errors}


def said(word: str, value: str) -> str:
    if value in NONE:
        return ""
    if value.isascii() and value.isdigit():
        return f"{word} {value}"
    return word if value == "Yes" else f"{word} unknown"


def answers(probes: Probes, question: tuple[str, ...]) -> list[str]:
    """Of the cards that answer: a lost one is told of by the kernel, and by its absence."""
    lines = nvidia_smi(probes, *question)
    if is_cut_short(lines):
        lines = []
        for address in cards_on_bus(probes.hardware):
            lines += probes.ask("cardErrors", partial(alone_of, address, question)) or []
    return [line for line in lines if not is_cut_short([line])]


def kernel_log(probes: Probes) -> list[str]:
    """The journal's, which forgets nothing of this boot, as the kernel's own ring would."""
    if os.path.isdir(probes.at(STANDIN)):
        told = os.path.join(STANDIN, "kernel.log")
        return probes.text(told).splitlines() if os.path.exists(probes.at(told)) else []
    if probes.root != "/":
        return []
    done = call("journalctl", "-k", "-b", "-q", "-o", "cat", "--no-pager", "-g", "NVRM: Xid")
    # It ends with 1 where nothing matches, and then says nothing at all.
    if done.returncode != 0 and (done.returncode != 1 or done.stdout or done.stderr):
        raise ProbeError(failure("journalctl", done))
    return done.stdout.splitlines()
