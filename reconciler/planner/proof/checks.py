"""Checks: what an allocation may have left on its host, searched for sort by sort.

Each check has a measured value. What was not told is unknown, and nothing is claimed that was not
done: what was deleted is called deleted, and a card that was not reset is not called so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field

from reconciler.model.host import layout
from reconciler.model.host.capacity import Claim
from reconciler.model.host.evidence import Check, CheckResult, GpuFact, NodeFacts
from reconciler.model.host.facts import attached_fact as attached_facts
from reconciler.model.host.facts import leftover
from reconciler.model.host.facts.leftover import APART, LeftoverWord, read_leftovers
from reconciler.model.host.facts.named_fact import UNKNOWN, is_unknown
from reconciler.model.host.facts.tenant_fact import TenantWord
from reconciler.model.records import dataclass
from reconciler.planner.core.facts import listed, shown

Look = Callable[["Case", str], Iterator[Check]]
"""The checks of one rule, given its name."""

NAMED = (
    layout.KEY_FILE.before,
    layout.HOME.before,
    layout.OWN_SCRATCH.before,
    *(layout.instance(top).before for top in ("shm", "tmp", "var-tmp")),
    TenantWord.LINGER.prefix,
    TenantWord.SHM.prefix,
    TenantWord.ACCOUNT.prefix,
    attached_facts.PREFIX,
)
"""Keys that a rule of their own speaks of."""

MARKS = ("", UNKNOWN, APART)
"""Found there, not looked through, and a living neighbour's own."""

HOLDERS = "holders"
"""The probe that looks for who has cards open."""

TOLERANCE_MIB = 64
"""So much more than when it was idle a card may have in use: drivers do not count to the byte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """The devices of a slot besides CPUs and memory: the UUID of its GPU, the name of its drive."""

    gpu: str
    drive: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """What is known of a node: its slots, the idle usage of each GPU, and who was root there."""

    slots: Mapping[str, Devices]
    idle_mib: Mapping[str, int] = field(default_factory=dict)
    roots: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One claim that is given up: all keys that had to go, its uid, and what its host shows."""

    claim: Claim
    gone: tuple[str, ...]
    uid: int | None
    slots: tuple[str, ...]
    inventory: Inventory
    facts: NodeFacts


def one(name: str, result: CheckResult, value: str) -> Check:
    return Check(name=name, result=result, value=value)


# What had to go by its place or its name.


def places(*prefixes: str, method: str = "absent") -> Look:
    """Every key below one of these has to be gone, and somebody must have asked for that."""

    def check(case: Case, name: str) -> Iterator[Check]:
        keys = [key for key in case.gone if key.startswith(prefixes)]
        if not keys:
            yield one(name, CheckResult.UNKNOWN, "nobody was asked to take it away")
        else:
            yield gone(name, keys, case.facts, method)

    return check


def of_an_account(check: Look) -> Look:
    return lambda case, name: check(case, name) if case.uid is not None else iter(())


def the_rest(case: Case, name: str) -> Iterator[Check]:
    if keys := [key for key in case.gone if not key.startswith(NAMED)]:
        yield gone(name, keys, case.facts, "absent")


def gone(name: str, keys: Sequence[str], facts: NodeFacts, method: str) -> Check:
    """One line over all of them: what is still there, else what is unknown, else how it went."""
    left, unseen = [], []
    for key in keys:
        seen = shown(facts, key)
        below = sorted(found for found in facts.paths or () if found.startswith(f"{key}/"))
        if is_unknown(seen):
            unseen.append(key)
        elif below:
            left.append(listed(below))
        elif seen is not None:
            left.append(key if key.startswith("/") else f"{key} {seen}")
    if left:
        return one(name, CheckResult.FAIL, f"still there: {listed(left)}")
    if unseen:
        return one(name, CheckResult.UNKNOWN, f"not seen: {listed(unseen)}")
    return one(name, CheckResult.PASS, method)


def attachments(case: Case, name: str) -> Iterator[Check]:
    """What it had attached, and whatever else its host shows as attached to it."""
    own = attached_facts.attached_key(case.claim.allocation_id)
    keys = {key for key in (*case.gone, *(case.facts.platform or ())) if key.startswith(own)}
    if keys:
        yield gone(name, sorted(keys), case.facts, "detached; its data stays")


def descriptor(case: Case, name: str) -> Iterator[Check]:
    found = case.facts.descriptors
    if found is None:
        yield one(name, CheckResult.UNKNOWN, "not seen")
    elif case.claim.allocation_id in found:
        yield one(name, CheckResult.FAIL, "still there")
    else:
        yield one(name, CheckResult.PASS, "absent")


# What a uid may leave anywhere.


def left(*words: LeftoverWord) -> Look:
    """The entries with these first words in what the host found of a uid."""

    def check(case: Case, name: str) -> Iterator[Check]:
        found = (case.facts.leftovers or {}).get(str(case.uid))
        if case.uid is None:
            return
        if found is None:
            why = "".join(
                f": {p.message}" for p in case.facts.problems if p.probe == leftover.PROBE
            )
            yield one(name, CheckResult.UNKNOWN, f"not looked through for uid {case.uid}{why}")
            return
        of_these = [entry for entry in read_leftovers(found) if entry.word in words]
        marked = {mark: [e.text for e in of_these if e.mark == mark] for mark in MARKS}
        if marked[""]:
            yield one(name, CheckResult.FAIL, listed(marked[""]))
        elif marked[UNKNOWN]:
            yield one(name, CheckResult.UNKNOWN, listed(marked[UNKNOWN]))
        else:
            beside = marked[APART]
            told = f"; {listed(beside)}" if beside else ""
            yield one(name, CheckResult.PASS, f"none of uid {case.uid}{told}")

    return check


# Devices, by the slot.


def processes(case: Case, name: str) -> Iterator[Check]:
    """A slot on whose card somebody still computes is not clean."""
    for slot, gpu in _cards(case):
        if gpu is None or gpu.processes is None:
            yield one(f"{name} {slot}", CheckResult.UNKNOWN, "not seen")
        elif gpu.processes:
            yield one(f"{name} {slot}", CheckResult.FAIL, listed(gpu.processes))
        else:
            yield one(f"{name} {slot}", CheckResult.PASS, "none")


def handles(case: Case, name: str) -> Iterator[Check]:
    """Whoever still has a card open shares it with the next, root and services alike."""
    for slot, gpu in _cards(case):
        found = (case.facts.holders or {}).get(gpu.uuid) if gpu else None
        if found is None:
            why = "".join(f": {p.message}" for p in case.facts.problems if p.probe == HOLDERS)
            yield one(f"{name} {slot}", CheckResult.UNKNOWN, f"not seen{why}")
        elif found:
            yield one(f"{name} {slot}", CheckResult.FAIL, listed(found))
        else:
            yield one(f"{name} {slot}", CheckResult.PASS, "none but daemons that keep cards")


def memory(case: Case, name: str) -> Iterator[Check]:
    """No baseline is a baseline of nothing: what is below that is below any."""
    for slot, gpu in _cards(case):
        used = gpu.memory_used_mib if gpu else None
        if gpu is None or used is None:
            yield one(f"{name} {slot}", CheckResult.UNKNOWN, "not seen")
            continue
        idle = case.inventory.idle_mib.get(gpu.uuid)
        told = "idle use not recorded" if idle is None else f"{idle} MiB when idle"
        if used <= (idle or 0) + TOLERANCE_MIB:
            value = f"{used} MiB in use, {told}; given back by the driver, card not reset"
            yield one(f"{name} {slot}", CheckResult.PASS, value)
        else:
            result = CheckResult.UNKNOWN if idle is None else CheckResult.FAIL
            yield one(f"{name} {slot}", result, f"{used} MiB in use, {told}")


def errors(case: Case, name: str) -> Iterator[Check]:
    """A tenant's leftovers are no fault of a GPU: its readiness judges that anew."""
    for slot, gpu in _cards(case):
        told = case.facts.card_errors
        if gpu is None or told is None:
            yield one(f"{name} {slot}", CheckResult.UNKNOWN, "not seen")
        else:
            value = listed(told.get(gpu.pci_address, ())) or "none since the boot"
            yield one(f"{name} {slot}", CheckResult.PASS, value)


def drives(case: Case, name: str) -> Iterator[Check]:
    """No tenant is given a drive, so there is nothing to wipe on one unless somebody uses it."""
    for slot in case.slots:
        devices = case.inventory.slots.get(slot)
        if devices is None or not devices.drive:
            continue
        user = (case.facts.drive_users or {}).get(devices.drive)
        if user is None:
            yield one(f"{name} {slot}", CheckResult.UNKNOWN, f"{devices.drive} not seen")
        elif user:
            yield one(f"{name} {slot}", CheckResult.FAIL, f"{devices.drive} is {user}")
        else:
            yield one(f"{name} {slot}", CheckResult.PASS, "in use by nobody, opened to no tenant")


def _cards(case: Case) -> Iterator[tuple[str, GpuFact | None]]:
    gpus = {gpu.uuid: gpu for gpu in case.facts.gpus or ()}
    for slot in case.slots:
        devices = case.inventory.slots.get(slot)
        yield slot, gpus.get(devices.gpu) if devices else None


def root(case: Case, name: str) -> Iterator[Check]:
    """Whoever was root can have changed what answers here; only another machine is not theirs."""
    if case.claim.allocation_id not in case.inventory.roots:
        return
    before, now = case.claim.machine_id, case.facts.machine_id
    if before and now and before != now:
        yield one(name, CheckResult.PASS, "reinstalled: it has another identity since")
    else:
        yield one(name, CheckResult.UNKNOWN, "reinstall_required: its tenant was root here")
