"""nvidia-smi, asked for everything in few calls; its warnings are read beside its answers.

Drivers differ in the fields that they know, in the words for a lost card, in the stream that these
are said on and in how the program ends. An odd line costs the card that it names, or itself.
"""

from __future__ import annotations

import re
import subprocess
import time
from typing import NamedTuple, Optional

from .probes import ProbeError, Probes, call, failure

CALL_SECONDS, ALL_SECONDS, SLOW_SECONDS = 25.0, 55.0, 20.0
"""Of one call, and of all calls of a look together; what takes longer is worth a word."""

CSV = "--format=csv,noheader,nounits"
LONG = ("-q", "-x")
PCI_ADDRESS = re.compile(r"([0-9A-Fa-f]{4,8}):([0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])")
NAMED = re.compile(
    r"\bgpu ?(?:\d{1,3}: ?)?([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])", re.IGNORECASE
)
"""`GPU0000:18:00.0`, `GPU 0000:18:00.0`, `GPU3: 0000:5F:00.0`, `gpu 0000:08:00.0`."""

HANDLE = re.compile(r"(determine|detect) the device handle for gpu", re.IGNORECASE)
INFOROM = re.compile(r"inforom is corrupted", re.IGNORECASE)
NO_FIELD = re.compile(r'Field "([^"]+)" is not a valid field to query')
NO_CARDS = "No devices were found"
PROCESSES = re.compile(r"^\s*<processes>\s*$", re.MULTILINE)
"""From here on a long answer holds names as people chose them: what they say is no remark."""

PARTIAL = frozenset({8, 10, 14, 15, 255})
"""Ends of a program that has trouble with a card and has told of the others before: power,
interrupts, infoROM, fallen off the bus, and whatever else a driver cannot say."""


SLOW = "a driver that stays loaded answers at once; start nvidia-persistenced"


class Remark(NamedTuple):
    """A line beside an answer; `address` is empty where it names no card."""

    address: str
    words: str


class Answer(NamedTuple):
    lines: list[str]
    remarks: list[Remark]

    @property
    def cut_short(self) -> bool:
        """Whether a card was lost, which ends the answer of some drivers there and then."""
        return any(not INFOROM.search(remark.words) for remark in self.remarks)


class UnknownField(ProbeError):
    """A field that this driver does not know."""

    def __init__(self, field: str) -> None:
        super().__init__(f"nvidia-smi does not know the field {field}")
        self.field = field


class Clock:
    """What all calls of a look have taken."""

    def __init__(self) -> None:
        self.calls, self.seconds, self.told = 0, 0.0, False

    def ask(self, probes: Probes, program: str, question: tuple[str, ...]) -> Answer:
        left = min(CALL_SECONDS, ALL_SECONDS - self.seconds)
        if left <= 0:
            raise ProbeError(f"nvidia-smi was not asked for more: {self.words()}")
        began = time.monotonic()
        try:
            return heard(program, call(program, *question, seconds=left))
        finally:
            self.calls += 1
            self.seconds += time.monotonic() - began
            if self.seconds > SLOW_SECONDS and not self.told:
                self.told = True
                probes.note("driver", f"{self.words()}: {SLOW}")

    def words(self) -> str:
        calls = "call" if self.calls == 1 else "calls"
        return f"{self.calls} {calls} of nvidia-smi took {self.seconds:.0f} s"


def ask_smi(probes: Probes, *question: str) -> Answer:
    """Raises ProbeError where there is no answer at all."""
    program = "nvidia-smi" if probes.root == "/" else probes.at("usr/bin/nvidia-smi")
    return probes.once("nvidia-smi clock", lambda p: Clock()).ask(probes, program, question)


def heard(program: str, done: subprocess.CompletedProcess[str]) -> Answer:
    """Lines of the answer, and the remarks among them on either stream."""
    lines: list[str] = []
    remarks: list[Remark] = []
    named = PROCESSES.search(done.stdout)
    own = done.stdout[: named.start()] if named else done.stdout
    for line in filter(str.strip, own.split("\n")):
        remark = remark_in(line)
        if remark:
            remarks.append(remark)
        else:
            lines.append(line.rstrip("\r"))
    remarks += filter(None, map(remark_in, done.stderr.split("\n")))
    if unknown := NO_FIELD.search(own + done.stderr):
        raise UnknownField(unknown.group(1))
    none_found = any(line.startswith(NO_CARDS) for line in lines)
    if none_found and not remarks:
        raise ProbeError(f"nvidia-smi says: {NO_CARDS}")
    partial = bool(remarks) or (done.returncode in PARTIAL and bool(lines))
    if done.returncode != 0 and not partial:
        raise ProbeError(failure(program, done))
    lines = [line for line in lines if not line.startswith(NO_CARDS)]
    if named:
        lines += done.stdout[named.start() :].split("\n")
    return Answer(lines, remarks)


def remark_in(line: str) -> Optional[Remark]:
    """No line of an answer: one that names a card by `gpu` and its address, or speaks of one."""
    named = NAMED.search(line)
    if named is None and not HANDLE.search(line) and not INFOROM.search(line):
        return None
    address = pci_address(named.group(1)) if named else ""
    return Remark(address, " ".join(line.split()))


def pci_address(text: str) -> str:
    """As sysfs writes it: `0000:0a:00.0`, where nvidia-smi says `00000000:0A:00.0`."""
    match = PCI_ADDRESS.fullmatch(text)
    if match is None:
        raise ProbeError(f"no PCI address: {text}")
    return f"{int(match.group(1), 16):04x}:{match.group(2).lower()}"
