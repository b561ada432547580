"""The rules of a proof: a list of checks with measured values says whether a slot is clean.

`RULES` is the list. Every rule answers pass, fail or unknown, and what was not looked at is
unknown; a proof passes when each of its checks does. Nothing is claimed that was not done: what
was deleted is called deleted, and a card that was not reset is not called so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from reconciler.kinds.allocation.spec import ALLOCATIONS
from reconciler.kinds.node.spec import Slot
from reconciler.kinds.sku import SKUS
from reconciler.model.canonical import digest
from reconciler.model.host import layout
from reconciler.model.host.capacity import Claim, ClaimState
from reconciler.model.host.evidence import Check, CheckResult, NodeFacts, Observation, Proof
from reconciler.model.host.facts.leftover import LeftoverWord
from reconciler.model.host.facts.tenant_fact import TenantWord
from reconciler.model.plan.plan import Step
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired
from reconciler.model.state.world import World
from reconciler.planner.proof.checks import (
    TOLERANCE_MIB,
    Case,
    Devices,
    Inventory,
    Look,
    attachments,
    descriptor,
    drives,
    errors,
    handles,
    left,
    memory,
    of_an_account,
    one,
    places,
    processes,
    root,
    the_rest,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofRule:
    """One check of a proof; `promises` is what a pass means, in the words of the reference."""

    name: str
    promises: str
    check: Look


def prove(
    claims: Iterable[Claim],
    steps: Sequence[Step],
    observation: Observation | None,
    at: str,
    inventory: Inventory,
) -> tuple[Proof, ...]:
    """A proof for each claim that these steps of one node give up; passed only if all was seen."""
    facts = observation.facts if observation and not observation.problem else None
    proofs = []
    for claim in sorted(claims, key=lambda claim: claim.id):
        retiring = [s for s in steps if s.item.allocation_id == claim.allocation_id]
        gone = [key for step in retiring for key, fact in step.expected.items() if fact is None]
        nodes = {step.node for step in retiring}
        if claim.state is ClaimState.HELD or not gone or nodes != {claim.node}:
            continue
        if facts is None:
            checks: tuple[Check, ...] = (_unseen(claim.node, observation),)
        else:
            case = Case(
                claim=claim,
                gone=tuple(sorted(set(gone))),
                uid=max(step.item.account_uid for step in retiring) or None,
                slots=_slots(claim, inventory),
                inventory=inventory,
                facts=facts,
            )
            checks = tuple(check for rule in RULES for check in rule.check(case, rule.name))
        proofs.append(proof_of(claim, checks, facts, at))
    return tuple(proofs)


def inventory_of(
    slots: Iterable[Slot], idle_mib: Mapping[str, int], roots: Iterable[str] = ()
) -> Inventory:
    """The inventory of a node; slots under a claim stay as they are recorded."""
    devices = {
        slot.name: Devices(gpu=slot.gpu.uuid, drive=slot.nvme.id if slot.nvme else "")
        for slot in slots
    }
    return Inventory(slots=devices, idle_mib=idle_mib, roots=frozenset(roots))


def roots_on(node: str, desired: Desired, world: World) -> Iterator[str]:
    """Ids of allocations there whose SKU lets its tenant be root, by what was or is wanted."""
    for claim in world.claims_on(node):
        if _may_be_root(claim.ref, desired, world):
            yield claim.allocation_id


def _may_be_root(ref: Ref, desired: Desired, world: World) -> bool:
    sources = (world.recorded.get(ref), desired.resources.get(ref))
    skus = {Ref("sku", "", ALLOCATIONS.spec(source).sku) for source in sources if source}
    terms = [known.get(sku) for sku in skus for known in (world.recorded, desired.resources)]
    return any(sku is not None and SKUS.spec(sku).root_access for sku in terms)


def _slots(claim: Claim, inventory: Inventory) -> tuple[str, ...]:
    """The slots of a claim; a whole node without known slots has some that nobody can look at."""
    if claim.slot is not None:
        return (claim.slot,)
    return tuple(sorted(inventory.slots)) or ("any slot",)


RULES: tuple[ProofRule, ...] = (
    ProofRule(
        name="keys",
        promises="its key file is gone, so nobody can log in",
        check=places(layout.KEY_FILE.before),
    ),
    ProofRule(
        name="sessions",
        promises="nobody is logged in as its uid",
        check=left(LeftoverWord.SESSION),
    ),
    ProofRule(
        name="processes",
        promises="no process runs as its uid or in its slice; one that returns is named with unit",
        check=left(LeftoverWord.PROCESS),
    ),
    ProofRule(
        name="sockets",
        promises="no network socket belongs to its uid",
        check=left(LeftoverWord.SOCKET),
    ),
    ProofRule(
        name="cron and at",
        promises="no crontab and no at job is left, by name or by owner",
        check=left(LeftoverWord.CRONTAB, LeftoverWord.AT),
    ),
    ProofRule(
        name="linger",
        promises="systemd starts nothing for it without a login",
        check=of_an_account(places(TenantWord.LINGER.prefix)),
    ),
    ProofRule(
        name="ipc",
        promises="its uid neither created nor owns a System V object or message queue",
        check=left(LeftoverWord.SHM, LeftoverWord.MSG, LeftoverWord.SEM, LeftoverWord.MQUEUE),
    ),
    ProofRule(
        name="keyrings",
        promises="the kernel holds no key of its uid, which could be opened to others",
        check=left(LeftoverWord.KEY),
    ),
    ProofRule(
        name="mounts",
        promises="its uid has mounted nothing",
        check=left(LeftoverWord.MOUNT),
    ),
    ProofRule(
        name="files",
        promises="no file of its uid is left on any local file system",
        check=left(LeftoverWord.FILE),
    ),
    ProofRule(
        name="open cards",
        promises="no tenant has a GPU open that is not theirs",
        check=left(LeftoverWord.OPEN),
    ),
    ProofRule(
        name="home",
        promises="the home is deleted with its content, but not erased from the disk",
        check=places(layout.HOME.before, method="deleted, not erased"),
    ),
    ProofRule(
        name="scratch",
        promises="the scratch folder is deleted likewise",
        check=places(layout.OWN_SCRATCH.before, method="deleted, not erased"),
    ),
    ProofRule(
        name="tmp",
        promises="its private /tmp and /var/tmp are deleted likewise",
        check=of_an_account(
            places(
                layout.instance("tmp").before,
                layout.instance("var-tmp").before,
                method="deleted, not erased",
            )
        ),
    ),
    ProofRule(
        name="shm",
        promises="its private /dev/shm, which was in memory, is unmounted",
        check=of_an_account(
            places(layout.instance("shm").before, TenantWord.SHM.prefix, method="unmounted")
        ),
    ),
    ProofRule(
        name="account",
        promises="no account has its name or uid",
        check=of_an_account(places(TenantWord.ACCOUNT.prefix)),
    ),
    ProofRule(
        name="storage",
        promises="all its storage is detached; the data stays with the project",
        check=attachments,
    ),
    ProofRule(
        name="settings",
        promises="every file, unit and drop-in made for it is gone",
        check=the_rest,
    ),
    ProofRule(
        name="descriptor",
        promises="the host no longer lists the allocation",
        check=descriptor,
    ),
    ProofRule(
        name="processes on",
        promises="no process computes on the GPU of the slot",
        check=processes,
    ),
    ProofRule(
        name="handles on",
        promises="no process but excepted daemons has the GPU open, not even root's",
        check=of_an_account(handles),
    ),
    ProofRule(
        name="memory of",
        promises=f"the GPU has at most {TOLERANCE_MIB} MiB more memory in use than when idle",
        check=memory,
    ),
    ProofRule(
        name="errors of",
        promises="errors of the GPU are recorded; a fault keeps the slot out of use",
        check=errors,
    ),
    ProofRule(
        name="drive of",
        promises="the drive is not mounted and not part of a volume; no tenant is given one",
        check=drives,
    ),
    ProofRule(
        name="root",
        promises="a host whose tenant was root has been reinstalled",
        check=root,
    ),
)
"""Every rule of a proof, in the order in which an allocation is taken apart."""


def _unseen(node: str, observation: Observation | None) -> Check:
    """The single check of a host that did not answer: nothing was measured."""
    said = observation.message if observation else ""
    return one(f"host {node}", CheckResult.UNKNOWN, said or "not seen")


def proof_of(claim: Claim, checks: tuple[Check, ...], facts: NodeFacts | None, at: str) -> Proof:
    about = [claim.id, at, [[check.name, check.result, check.value] for check in checks]]
    return Proof(
        id=digest(about).removeprefix("sha256:")[:16],
        allocation_id=claim.allocation_id,
        node=claim.node,
        slot=claim.slot,
        at=at,
        boot_id=facts.boot_id if facts else "",
        checks=checks,
        source=facts.source if facts else "host",
    )
