"""Allocation on its host: the folders and files it owns there, and the work that makes them so."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.kinds.access import OPEN_ENDED, key_lines
from reconciler.kinds.contract import Binding, Context
from reconciler.model.canonical import canonical, text_digest
from reconciler.model.plan import Order, Step, step_id
from reconciler.model.problem import refuse
from reconciler.model.ref import Ref
from reconciler.model.resource import Resource

DESCRIPTOR = "allocation/descriptor.json.j2"
ENVIRONMENT = "allocation/env.j2"
KEYS = "allocation/keys.j2"

DESCRIPTOR_VERSION = 1
FOLDER_MODE, FILE_MODE = "0700", "0644"

_PLAIN = re.compile(r"[A-Za-z0-9._:,/-]+")
"""What a shell, systemd and a reader of container env files all take for the same text."""


def basis(binding: Binding, context: Context) -> Mapping[str, Any]:
    """Without commit, time and name, so that none of them alone changes a host.

    After a rename the files say the former name until something else renews them.
    """
    if binding.resource is None:
        return {}
    values = _values(binding, binding.resource, context)
    return {
        **{key: value for key, value in values.items() if key not in ("ref", "name")},
        "keys": _key_lines(binding.resource, context),
        "templates": [context.template_digests[name] for name in (DESCRIPTOR, ENVIRONMENT, KEYS)],
    }


def expected(binding: Binding, context: Context) -> Mapping[str, str | None]:
    return {path: fact for step in steps(binding, context) for path, fact in step.expected.items()}


def steps(binding: Binding, context: Context) -> tuple[Step, ...]:
    """All of its work, each step with facts of its own: one whose facts hold may be spared."""
    if binding.resource is None:
        return _retiring(binding)
    return _providing(binding, binding.resource, context)


def _providing(binding: Binding, resource: Resource, context: Context) -> tuple[Step, ...]:
    values = _values(binding, resource, context)
    provided = {
        _descriptor_path(binding): _descriptor(binding, resource, values, context),
        _environment_path(binding): _environment(values, context),
    }
    lines = _key_lines(resource, context)
    keys = {_keys_path(binding): context.render(KEYS, {**values, "lines": lines})}
    folders = _folders(binding)
    return (
        _step(
            binding,
            "allocation.provide",
            Order.PROVIDE,
            {
                "directories": [{"path": path, "mode": FOLDER_MODE} for path in folders],
                "files": _items(provided),
            },
            {**dict.fromkeys(folders, f"dir {FOLDER_MODE}"), **_facts(provided)},
        ),
        _step(
            binding,
            "access.sync",
            # Where keys lie already some may be taken away, and that waits for nobody's provide.
            Order.PROVIDE if binding.recorded is None else Order.RETIRE,
            {"files": _items(keys), "absent": []},
            _facts(keys),
        ),
    )


def _retiring(binding: Binding) -> tuple[Step, ...]:
    keys = [_keys_path(binding)]
    rest = [_environment_path(binding), *_folders(binding), _descriptor_path(binding)]
    return (
        _step(
            binding,
            "access.sync",
            Order.RETIRE,
            {"files": [], "absent": keys},
            dict.fromkeys(keys),
        ),
        _step(
            binding,
            "allocation.release",
            Order.RETIRE,
            # The descriptor goes last: as long as anything is left, the host says whose it is.
            {"absent": rest},
            dict.fromkeys(rest),
        ),
    )


def _step(
    binding: Binding,
    verb: str,
    order: Order,
    item: Mapping[str, Any],
    facts: Mapping[str, str | None],
) -> Step:
    node = binding.placement.node
    return Step(
        id=step_id(node, verb, binding.ref, binding.id),
        verb=verb,
        node=node,
        ref=binding.ref,
        order=order,
        item={"id": binding.id, "login": binding.login, **item},
        expected=facts,
    )


def _folders(binding: Binding) -> tuple[str, str]:
    return f"/home/{binding.login}", f"/var/lib/gpuaas/scratch/{binding.id}"


def _descriptor_path(binding: Binding) -> str:
    return f"/etc/gpuaas/allocations/{binding.id}.json"


def _environment_path(binding: Binding) -> str:
    return f"/etc/gpuaas/runtime/allocations/{binding.id}.env"


def _keys_path(binding: Binding) -> str:
    return f"/etc/gpuaas/ssh/{binding.login}"


def _values(binding: Binding, resource: Resource, context: Context) -> dict[str, Any]:
    """What the templates are given. Labels are no part of it: they are free text of users."""
    return {
        "stateId": context.world.state_id,
        "ref": str(resource.ref),
        "id": binding.id,
        "login": binding.login,
        "project": resource.ref.project,
        "name": resource.ref.name,
        "owner": resource.spec.owner,
        "sku": resource.spec.sku,
        "node": binding.placement.node,
        "shape": binding.placement.shape.value,
        "slots": list(_slots(binding, context)),
    }


def _descriptor(
    binding: Binding, resource: Resource, values: Mapping[str, Any], context: Context
) -> str:
    recorded = binding.recorded
    if recorded is not None and recorded.digest == resource.digest:
        commit = recorded.commit
    else:
        origin = context.origins.get(resource.file)
        commit = origin.commit if origin else ""
    signed = {"version": DESCRIPTOR_VERSION, **values, "commit": commit}
    return context.render(DESCRIPTOR, {**signed, "hmac": context.sign(canonical(signed))})


def _environment(values: Mapping[str, Any], context: Context) -> str:
    variables = {
        "GPUAAS_PROJECT": values["project"],
        "GPUAAS_ALLOCATION": values["name"],
        "GPUAAS_ALLOCATION_ID": values["id"],
        "GPUAAS_EXPIRES": OPEN_ENDED,
        "CUDA_VISIBLE_DEVICES": ",".join(slot["uuid"] for slot in values["slots"]),
    }
    for name, value in variables.items():
        if not _PLAIN.fullmatch(value):
            raise refuse(
                "template_unsound",
                f"{name}={value!r} means different things to different readers of env files",
                "use letters, digits and . _ : , / - alone",
            )
    return context.render(ENVIRONMENT, {**values, "variables": variables})


def _key_lines(resource: Resource, context: Context) -> list[str]:
    return [one.line for one in key_lines(resource, context.desired, context.now)]


def _slots(binding: Binding, context: Context) -> Iterator[dict[str, str]]:
    """Its slots with their devices, in the order of the placement.

    A node that may not change under a claim stands in the record as it is; the spec may already
    be past that, or gone.
    """
    ref = Ref("node", "", binding.placement.node)
    known: dict[str, Any] = {}
    for source in (context.desired.resources.get(ref), context.world.recorded.get(ref)):
        if source is not None:
            known.update({slot["name"]: slot["gpu"] for slot in source.normal["spec"]["slots"]})
    for name in binding.placement.slots:
        if name not in known:
            raise refuse(
                "dangling_reference",
                f"{binding.ref} is on {ref.name}/{name}, which neither spec nor state know",
                f"put the slot back into the spec of node {ref.name}",
            )
        yield {"name": name, "uuid": known[name]["uuid"], "pciAddress": known[name]["pciAddress"]}


def _items(files: Mapping[str, str]) -> list[dict[str, str]]:
    return [
        {"path": path, "mode": FILE_MODE, "content": content} for path, content in files.items()
    ]


def _facts(files: Mapping[str, str]) -> dict[str, str | None]:
    return {path: f"file {FILE_MODE} {text_digest(content)}" for path, content in files.items()}
