"""One node as text: its address, what is approved, what its host last showed, and its slots."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from math import nan

from reconciler.cli.text import BLANK, Span, Style, TextLine, column, count, dim, line, pad, strong
from reconciler.cli.views import tables
from reconciler.cli.views.fleet import FINE
from reconciler.model.host.capacity import Sharing
from reconciler.model.host.evidence import Check, CheckResult
from reconciler.model.moment import format_age
from reconciler.operations.node.show import InForce, NodeShown, SlotShown

LABEL = 11
SHARED = {
    Sharing.PROJECT: "one project at a time",
    Sharing.TENANT: "one tenant at a time",
    Sharing.ANY: "anybody",
}
RESULTS = {
    CheckResult.PASS: Span("pass", Style.GOOD),
    CheckResult.FAIL: Span("fail", Style.BAD),
    CheckResult.UNKNOWN: Span("unknown", Style.WARN),
}
ENFORCED = {
    CheckResult.PASS: Span("enforced", Style.GOOD),
    CheckResult.FAIL: Span("not enforced", Style.WARN),
    CheckResult.UNKNOWN: Span("unknown", Style.WARN),
}
"""Hardening is beside the walls: where it is lacking nothing is claimed, and nobody stopped."""


def lines(found: NodeShown, *, width: int = 0) -> Iterator[TextLine]:
    yield line(strong(f"node/{found.name}"), f"   {_sold_as(found)}", hang=LABEL)
    by = f" in {found.commit[:7]} by {found.author}" if found.commit else ", not committed"
    yield _fact("file", f"{found.file}:{found.line}{by}")
    yield _fact("reached", _reached(found))
    yield from _identity(found)
    yield _fact("admin", " · ".join(filter(None, (found.admin.state, found.admin.reason))))
    yield line(dim(column("evidence", LABEL)), *_evidence(found), hang=LABEL)
    if found.failed:
        told = f"   asked after the others; mended? gpuaas node retry {found.name}"
        yield line(dim(column("failures", LABEL)), Span(found.failed, Style.WARN), told, hang=LABEL)
    yield from _approvals(found)
    yield from _checks("READINESS", found.readiness, RESULTS)
    yield from _checks("HARDENING", found.hardening, ENFORCED)
    yield BLANK
    yield line(strong("SLOTS"))
    yield from _slots(found.slots, width)


def short(names: Sequence[str]) -> str:
    """`host, s0 … s7`: slots that are numbered without a gap are told by first and last."""
    shown = []
    for _, run in groupby(enumerate(names), key=lambda pair: _number(pair[1]) - pair[0]):
        words = [name for _, name in run]
        shown.append(f"{words[0]} … {words[-1]}" if len(words) > 2 else ", ".join(words))
    return ", ".join(shown)


def _number(name: str) -> float:
    """The number of `s7`; names of another sort belong to no run."""
    digits = name.removeprefix("s")
    return int(digits) if digits.isdecimal() and digits != name else nan


def _fact(label: str, text: str) -> TextLine:
    return line(dim(column(label, LABEL)), text, hang=LABEL)


def _sold_as(found: NodeShown) -> str:
    walls = f"isolation {found.isolation}, for {SHARED[Sharing(found.sharing)]}"
    return " · ".join((f"family {found.family}", walls, count(len(found.slots), "slot")))


def _reached(found: NodeShown) -> str:
    if found.identity is None:
        return f"{found.address}, without SSH"
    return f"{found.ssh.user}@{found.address} port {found.ssh.port}"


def _identity(found: NodeShown) -> Iterator[TextLine]:
    if found.identity is None:
        return
    serial = f" · serial {found.identity.serial}" if found.identity.serial else ""
    yield _fact("identity", f"machine {found.identity.machine_id}{serial}")
    for fingerprint in found.fingerprints:
        yield _fact("", fingerprint)


def _evidence(found: NodeShown) -> Iterator[str | Span]:
    if found.age is None:
        silent = any(one.result is CheckResult.FAIL for one in found.readiness[:1])
        yield Span("none that counts" if silent else "never observed", Style.WARN)
        yield f"   gpuaas plan --refresh asks {'it again' if silent else 'the host'}"
        return
    yield f"{format_age(found.age)} ago, "
    standin = Span("from a stand-in for GPUs, not from real ones", Style.WARN)
    yield standin if found.source == "standin" else "from the host itself"


def _approvals(found: NodeShown) -> Iterator[TextLine]:
    yield BLANK
    yield line(strong("APPROVALS"))
    wide = max((len(short(one.covers)) for one in found.approvals), default=0)
    for one in found.approvals:
        yield line("  ", pad(short(one.covers), wide), "  ", *_word(one, found.name), hang=4)


def _word(one: InForce, node: str) -> Iterator[str | Span]:
    if one.by:
        yield f"by {one.by} at {one.at}"
        return
    yield Span("changed since it was approved" if one.fallen else "never approved", Style.WARN)
    yield f"   gpuaas node approve {node}"


def _checks(
    title: str, checks: Sequence[Check], words: Mapping[CheckResult, Span]
) -> Iterator[TextLine]:
    """A line a check, its result first (INV-15)."""
    if not checks:
        return
    yield BLANK
    yield line(strong(title))
    first = max(len(words[check.result].text) for check in checks) + 2
    wide = max(len(check.name) for check in checks)
    for check in checks:
        word = words[check.result]
        result = Span(pad(word.text, first), word.style)
        name = pad(check.name, wide)
        yield line("  ", result, name, f"  {check.value}", hang=first + wide + 4)


def _slots(slots: Iterable[SlotShown], width: int) -> Iterator[TextLine]:
    titles = "SLOT STATE NUMA CPUS GiB GPU PCI NVME NIC ALLOCATION CAUSE"
    table: list[tables.Row] = [
        (
            one.slot.name,
            Span(one.state, Style.PLAIN if one.state in FINE else Style.WARN),
            str(one.slot.numa),
            one.slot.cpus,
            str(one.slot.memory_gib),
            one.slot.gpu.uuid,
            one.slot.gpu.pci_address,
            one.slot.nvme.id if one.slot.nvme else "",
            one.slot.nic.name or one.slot.nic.pci_address if one.slot.nic else "",
            one.allocation.removeprefix("allocation/"),
            " · ".join(filter(None, (one.cause, one.vouched and f"unproved {one.vouched}"))),
        )
        for one in slots
    ]
    yield from tables.lines(titles, table, width=width, right="NUMA GiB", none="no slots")
