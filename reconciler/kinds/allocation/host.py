"""An allocation on its host: the folders and files it owns there, and the work that makes them.

What it has besides, where a node isolates by accounts, is `allocation_account`.
"""

from __future__ import annotations

from collections.abc import Mapping

from reconciler.kinds.access.fencing import is_fenced
from reconciler.kinds.access.keys import key_lines
from reconciler.kinds.allocation import account as accounts
from reconciler.kinds.allocation import storage
from reconciler.kinds.allocation.account import Account
from reconciler.kinds.allocation.restart import restarting
from reconciler.kinds.allocation.runtime import ENVIRONMENT, environment, runtimes_of, writing
from reconciler.kinds.allocation.spec import AllocationSpec
from reconciler.kinds.allocation.steps import (
    file_facts,
    file_items,
    own_gid,
    own_mode,
    step_of,
)
from reconciler.kinds.contract import Binding, Context
from reconciler.kinds.lease import end_of
from reconciler.kinds.node.spec import NODES, Slot
from reconciler.model.codec import encode
from reconciler.model.host import layout
from reconciler.model.host.descriptor import DESCRIPTOR_VERSION
from reconciler.model.host.facts.named_fact import RUNS, fact_key
from reconciler.model.host.facts.path_fact import folder_fact, link_fact, shown
from reconciler.model.host.signed_record import with_signature
from reconciler.model.plan.items.access import SyncItem
from reconciler.model.plan.items.allocation import ProvideItem, QuarantineItem, ReleaseItem
from reconciler.model.plan.items.item import FolderItem
from reconciler.model.plan.plan import Order, Step
from reconciler.model.plan.verb import Verb
from reconciler.model.problem import refuse
from reconciler.model.records import dataclass
from reconciler.model.spec.resource import Resource

DESCRIPTOR = "allocation/descriptor.json.j2"
KEYS = "allocation/keys.j2"


def basis(binding: Binding, context: Context) -> Mapping[str, object]:
    """Without commit, time and name, so that none of them alone changes a host.

    After a rename the files say the former name until something else renews them.
    """
    if binding.resource is None:
        return {}
    seated = _seat(binding, binding.resource, context)
    templates = (
        *(DESCRIPTOR, ENVIRONMENT, KEYS),
        *(accounts.TEMPLATES if seated.account else ()),
        *storage.templates(binding, context),
    )
    return {
        **{key: value for key, value in seated.values.items() if key not in ("ref", "name")},
        **({"account": encode(seated.account)} if seated.account else {}),
        **storage.basis(binding, context),
        **_runtimes(binding.resource),
        "keys": _key_lines(binding, binding.resource, context),
        "templates": [context.template_digests[name] for name in templates],
    }


def expected(binding: Binding, context: Context) -> Mapping[str, str | None]:
    return {path: fact for step in steps(binding, context) for path, fact in step.expected.items()}


def steps(binding: Binding, context: Context) -> tuple[Step, ...]:
    """All of its work, each step with facts of its own: one whose facts hold may be spared."""
    if binding.resource is None:
        detaching = storage.detaching(binding, context)
        if binding.quarantine:
            return (*_quarantining(binding), *detaching)
        return _retiring(binding, detaching)
    providing = _providing(binding, binding.resource, context)
    if not binding.restart:
        return providing
    uuids = [slot.gpu.uuid for slot in _slots(binding, context)]
    return restarting(binding, uuids, providing)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seated:
    """An allocation in its place.

    `values` are what the templates are given; labels are no part of it, since they are free text of
    users.
    """

    binding: Binding
    resource: Resource[AllocationSpec]
    values: Mapping[str, object]
    account: Account | None


def _providing(
    binding: Binding, resource: Resource[AllocationSpec], context: Context
) -> tuple[Step, ...]:
    seated = _seat(binding, resource, context)
    lines = _key_lines(binding, resource, context)
    text = context.render(KEYS, {**seated.values, "lines": lines})
    keys = {layout.KEY_FILE.of(binding.login): text}
    opened = binding.recorded is not None
    # Where keys lie already some may be taken away: that waits for nobody's provide, and for no
    # mount that somebody keeps busy.
    order = Order.RETIRE if opened else Order.PROVIDE
    # sshd reads them as the tenant.
    mode, gid = own_mode(binding), own_gid(binding)
    item = SyncItem(
        id=binding.id,
        login=binding.login,
        files=file_items(keys, mode),
        absent=(),
        uid=binding.uid or 0,
        gid=gid,
    )
    access = (step_of(binding, Verb.SYNC, order, item, file_facts(keys, mode, gid)),)
    return (
        *(access if opened else ()),
        *storage.detaching(binding, context),
        _provide(seated, context),
        writing(binding, _environment_paths(seated), _environment(seated, context)),
        *storage.attaching(binding, context),
        *(() if opened else access),
    )


def _provide(seated: _Seated, context: Context) -> Step:
    binding, account = seated.binding, seated.account
    # The descriptor goes first: whatever else stands on the host, it says whose it is.
    files = {layout.DESCRIPTOR.of(binding.id): _descriptor(seated, context)}
    folders = [
        FolderItem(path=path, mode="0700", uid=binding.uid or 0, gid=binding.gid or 0)
        for path in _homes(binding)
    ]
    named: Mapping[str, str | None] = {}
    if account is not None:
        files |= accounts.files(account, seated.values, context.render)
        folders.append(accounts.session_folder(account))
        named = accounts.facts(account)
    return step_of(
        binding,
        Verb.PROVIDE,
        Order.PROVIDE,
        ProvideItem(
            id=binding.id,
            login=binding.login,
            directories=tuple(folders),
            files=file_items(files),
            account=accounts.item(account, binding.id) if account else None,
        ),
        {
            **{folder.path: folder_fact(folder.mode, folder.uid, folder.gid) for folder in folders},
            **file_facts(files),
            **{shown(at): link_fact(to) for at, to in accounts.links(binding).items()},
            **named,
        },
    )


def _environment(seated: _Seated, context: Context) -> str:
    return environment({**seated.values, **_runtimes(seated.resource)}, context.render)


def _environment_paths(seated: _Seated) -> tuple[str, ...]:
    """Where programs look it up, and where sessions are given it."""
    path = layout.ENVIRONMENT.of(seated.binding.id)
    account = seated.account
    return (path, accounts.session_environment(account)) if account else (path,)


def _runtimes(resource: Resource[AllocationSpec]) -> Mapping[str, object]:
    """Nothing where it names none, so that allocations without any stay as they were."""
    runtimes = runtimes_of(resource.spec)
    return {"runtimes": runtimes} if runtimes else {}


def _retiring(binding: Binding, detaching: tuple[Step, ...]) -> tuple[Step, ...]:
    """What runs may have its storage open, so it ends before that is taken away."""
    shut, end = _quarantining(binding)
    rest = [
        layout.ENVIRONMENT.of(binding.id),
        layout.RESTART_MARK.of(binding.id),
        *_homes(binding),
        *accounts.left_paths(binding),
        # As long as anything is left, the host says whose it is.
        layout.DESCRIPTOR.of(binding.id),
    ]
    return (
        shut,
        *((end, *detaching) if detaching else ()),
        step_of(
            binding,
            Verb.RELEASE,
            Order.RETIRE,
            ReleaseItem(
                id=binding.id,
                login=binding.login,
                absent=tuple(rest),
                uid=binding.uid or 0,
                gid=binding.gid or 0,
            ),
            dict.fromkeys(
                [*map(shown, (*rest, *accounts.links(binding))), *accounts.left_facts(binding)]
            ),
        ),
    )


def _quarantining(binding: Binding) -> tuple[Step, Step]:
    """Steps after which nobody can log in and nothing runs; everything else stays for its
    return.
    """
    runs = {fact_key(RUNS, binding.login): None} if binding.uid is not None else {}
    item = QuarantineItem(id=binding.id, login=binding.login, uid=binding.uid or 0)
    return _shut(binding), step_of(binding, Verb.QUARANTINE, Order.RETIRE, item, runs)


def _shut(binding: Binding) -> Step:
    keys = (layout.KEY_FILE.of(binding.login),)
    item = SyncItem(
        id=binding.id, login=binding.login, files=(), absent=keys, uid=binding.uid or 0, gid=0
    )
    return step_of(binding, Verb.SYNC, Order.RETIRE, item, dict.fromkeys(keys))


def _homes(binding: Binding) -> tuple[str, str]:
    """What is the tenant's own, and dies with the allocation."""
    return layout.HOME.of(binding.login), layout.OWN_SCRATCH.of(binding.id)


def _seat(binding: Binding, resource: Resource[AllocationSpec], context: Context) -> _Seated:
    slots = _slots(binding, context)
    values = {
        "stateId": context.world.state_id,
        "ref": str(resource.ref),
        "id": binding.id,
        "login": binding.login,
        "uid": binding.uid or 0,
        "gid": binding.gid or 0,
        "project": resource.ref.project,
        "name": resource.ref.name,
        "owner": resource.spec.owner,
        "sku": resource.spec.sku,
        "node": binding.placement.node,
        "shape": binding.placement.shape.value,
        "expiresAt": end_of(
            resource,
            binding.recorded or binding.replaces,
            context.desired,
            context.leases_from or context.now,
        ),
        "slots": [
            {
                "name": slot.name,
                "uuid": slot.gpu.uuid,
                "pciAddress": slot.gpu.pci_address,
            }
            for slot in slots
        ],
    }
    account = accounts.account_of(binding, slots, context)
    return _Seated(binding=binding, resource=resource, values=values, account=account)


def _descriptor(seated: _Seated, context: Context) -> str:
    resource, recorded = seated.resource, seated.binding.recorded
    if recorded is not None and recorded.digest == resource.digest:
        commit = recorded.commit
    else:
        origin = context.origins.get(resource.ref)
        commit = origin.commit if origin else ""
    values = {"version": DESCRIPTOR_VERSION, **seated.values, "commit": commit}
    return context.render(DESCRIPTOR, with_signature(values, context.sign))


def _key_lines(binding: Binding, resource: Resource[AllocationSpec], context: Context) -> list[str]:
    if is_fenced(binding.placement.node, context):
        return []
    return [one.line for one in key_lines(resource, context.desired, context.now)]


def _slots(binding: Binding, context: Context) -> tuple[Slot, ...]:
    """Its slots in the order of the placement.

    A node that may not change under a claim stands in the record as it is; the spec may already
    be past that, or gone.
    """
    node = binding.placement.node
    resource = NODES.get(context.desired, node)
    known: dict[str, Slot] = {}
    for spec in (resource.spec if resource else None, NODES.last(context.world, node)):
        if spec is not None:
            known.update({slot.name: slot for slot in spec.slots})
    for name in binding.placement.slots:
        if name not in known:
            raise refuse(
                "dangling_reference",
                f"{binding.ref} is on {node}/{name}, which neither spec nor state know",
                f"put the slot back into the spec of node {node}",
            )
    return tuple(known[name] for name in binding.placement.slots)
