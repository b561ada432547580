"""The environment of an allocation: variables for its sessions and programs, and its runtimes.

Every value is one that a shell, systemd and a reader of container env files take for the same
text. Which runtimes an allocation has is said by exact versions, never by a host's default.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reconciler.kinds.allocation.spec import AllocationSpec
from reconciler.kinds.allocation.steps import file_facts, file_items, own_gid, own_mode, step_of
from reconciler.kinds.bundle import BUNDLES
from reconciler.kinds.contract import Binding, Render
from reconciler.kinds.fleet_rules import policy_in
from reconciler.kinds.lease import told
from reconciler.model.host import layout
from reconciler.model.host.capacity import RuntimeNeed
from reconciler.model.host.posix import loopback_of
from reconciler.model.plan.items.access import EnvironmentItem
from reconciler.model.plan.plan import Order, Step
from reconciler.model.plan.verb import Verb
from reconciler.model.problem import refuse
from reconciler.model.spec.desired import Desired
from reconciler.model.spec.resource import Resource

ENVIRONMENT = "allocation/env.j2"

_PLAIN = re.compile(r"[A-Za-z0-9._:,/@+-]+")
"""What a shell, systemd and a reader of container env files all take for the same text."""


def runtimes_of(spec: AllocationSpec) -> list[str]:
    """`bundle@version` of each, in the order of the file: the first is the default."""
    return [f"{one.bundle}@{one.version}" for one in spec.runtimes]


def place_of(runtime: str) -> str:
    """Where a `bundle@version` stands on every host."""
    bundle, _, version = runtime.partition("@")
    return f"{layout.RUNTIMES}/{bundle}/{version}"


def runtime_needs(allocation: Resource[AllocationSpec], desired: Desired) -> Iterator[RuntimeNeed]:
    """What each that it names runs on, of those that can be read."""
    lenient = policy_in(desired).bundles.allow_unknown_compatibility
    for one in allocation.spec.runtimes:
        bundle = BUNDLES.get(desired, one.bundle)
        known = bundle.spec.needs(one.bundle, may_be_unknown=lenient) if bundle else {}
        if one.version in known:
            yield known[one.version]


def environment(values: Mapping[str, Any], render: Render) -> str:
    """The text of the file. Raises ProblemError for a value that readers read each in its way."""
    variables = {
        "GPUAAS_PROJECT": values["project"],
        "GPUAAS_ALLOCATION": values["name"],
        "GPUAAS_ALLOCATION_ID": values["id"],
        "GPUAAS_EXPIRES": told(values["expiresAt"]),
        "CUDA_VISIBLE_DEVICES": ",".join(slot["uuid"] for slot in values["slots"]),
    }
    if uid := values["uid"]:
        variables["GPUAAS_LOOPBACK"] = loopback_of(uid)
    if runtimes := values.get("runtimes"):
        variables["GPUAAS_RUNTIME"] = runtimes[0]
        variables["GPUAAS_RUNTIMES"] = ",".join(runtimes)
        variables["GPUAAS_RUNTIME_ROOT"] = place_of(runtimes[0])
    for name, value in variables.items():
        if not _PLAIN.fullmatch(value):
            raise refuse(
                "template_unsound",
                f"{name}={value!r} means different things to different readers of env files",
                "use letters, digits and . _ : , / @ + - alone",
            )
    return render(ENVIRONMENT, {**values, "variables": variables})


def writing(binding: Binding, paths: Sequence[str], text: str) -> Step:
    """The same text at each of `paths`."""
    files = dict.fromkeys(paths, text)
    mode, gid = own_mode(binding), own_gid(binding)
    item = EnvironmentItem(
        id=binding.id,
        login=binding.login,
        uid=binding.uid or 0,
        gid=gid,
        files=file_items(files, mode),
    )
    return step_of(binding, Verb.WRITE_ENV, Order.PROVIDE, item, file_facts(files, mode, gid))
