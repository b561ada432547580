"""The long output of nvidia-smi, read line by line: it looks like XML but need not be any.

Names of processes stand in it as their owners chose them, with whatever characters these have. So
nothing of a card is believed that comes after its processes, and a card that is told of twice is
not believed at all.
"""

from __future__ import annotations

import re
from typing import Iterable, Optional

from .smi import PCI_ADDRESS, pci_address

OPEN = re.compile(r'<([A-Za-z_][\w.-]*)(?: id="([^"]*)")?>')
LEAF = re.compile(r"<([A-Za-z_][\w.-]*)>(.*)</\1>")
CLOSE = re.compile(r"</([A-Za-z_][\w.-]*)>")
PROCESSES, NOT_ALIKE = "processes", frozenset({"supported_clocks", "accounted_processes"})


class Card:
    """`told` maps places like `mig_mode/current_mig` to words; whole when its end was told."""

    def __init__(self) -> None:
        self.told: dict[str, str] = {}
        self.pids: Optional[list[int]] = None
        self.whole = False


class Log:
    """`host` is what stands before the first card; `cards` are by their PCI address."""

    def __init__(self) -> None:
        self.host: dict[str, str] = {}
        self.cards: dict[str, Card] = {}
        self.twice: set[str] = set()


def read_log(lines: Iterable[str]) -> Log:
    log, place = Log(), list[str]()
    card: Optional[Card] = None
    for line in map(str.strip, lines):
        begun, leaf, ended = OPEN.fullmatch(line), LEAF.fullmatch(line), CLOSE.fullmatch(line)
        if begun and begun.group(1) == "gpu":
            card, place = Card(), []
            address = same_for_all(begun.group(2) or "")
            if address in log.cards:
                log.twice.add(address)
            log.cards[address] = card
        elif ended and ended.group(1) == "gpu":
            if card is not None:
                card.whole = True
            card, place = None, []
        elif begun:
            place.append(begun.group(1))
            if card is not None and place == [PROCESSES] and card.pids is None:
                card.pids = []
        elif ended and ended.group(1) in place:
            del place[place.index(ended.group(1)) :]
        elif leaf:
            _keep(log, card, [*place, leaf.group(1)], leaf.group(2).strip())
    for address in log.twice:
        del log.cards[address]
    return log


def same_for_all(name: str) -> str:
    """However it is written, so that nobody tells of a card once more under another spelling."""
    return pci_address(name) if PCI_ADDRESS.fullmatch(name) else name


def _keep(log: Log, card: Optional[Card], place: list[str], text: str) -> None:
    if card is None:
        if not log.cards:
            log.host.setdefault(place[-1], text)
    elif place[0] == PROCESSES and card.pids is not None:
        if place[-1] == "pid" and text.isascii() and text.isdigit():
            card.pids.append(int(text))
    elif card.pids is None and place[0] not in NOT_ALIKE:
        card.told.setdefault("/".join(place), text)
