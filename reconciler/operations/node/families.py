"""The family of a discovered host: one from the specs, or a proposal for a new one."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

from reconciler.kinds import node_family
from reconciler.kinds.node_family import NODE_FAMILIES, NodeFamilySpec
from reconciler.model.canonical import digest
from reconciler.model.host.evidence import NodeFacts
from reconciler.model.problem import refuse
from reconciler.model.ref import NAME_LIMIT, Ref
from reconciler.model.spec.desired import Desired
from reconciler.model.spec.resource import Resource


def family_for(desired: Desired, name: str, facts: NodeFacts) -> Resource | None:
    """A family to be made for most of the host's cards; None if the specs have one for them.

    `name` is the operator's choice, if any. Also None where the host does not tell enough.
    Raises ProblemError `family_unclear`.
    """
    kinds = Counter((gpu.model, gpu.memory_mib) for gpu in facts.gpus or () if gpu.memory_mib)
    if (name and NODE_FAMILIES.get(desired, name)) or not kinds:
        return None
    ((card, _),) = kinds.most_common(1)
    fitting = [
        family.ref.name for family in NODE_FAMILIES.of(desired) if family.spec.gpu.fits(*card)
    ]
    what = f"cards {card[0]}, {card[1]} MiB"
    if not name and len(fitting) > 1:
        hint = f"choose one by --family: {', '.join(fitting)}"
        raise refuse("family_unclear", f"more than one family has {what}", hint)
    if not name and fitting:
        return None
    called = name or _slug(card[0])
    if NODE_FAMILIES.get(desired, called):
        message = f"no family has {what}, and family {called} has others"
        raise refuse("family_unclear", message, "name the new one: --family NAME")
    return _proposed(called, card, facts)


def with_family(desired: Desired, family: Resource[NodeFamilySpec] | None) -> Desired:
    """The same specs with this family in them."""
    if family is None:
        return desired
    return replace(desired, resources={**desired.resources, family.ref: family})


def _proposed(name: str, card: tuple[str, int | None], facts: NodeFacts) -> Resource | None:
    branches = sorted({gpu.driver.split(".")[0] for gpu in facts.gpus or () if gpu.driver})
    if not (facts.os and branches):
        return None
    spec: dict[str, object] = {
        "gpu": {"vendor": "nvidia", "model": card[0], "memoryMiB": card[1]},
        "base": {"os": [facts.os], "driverBranches": branches},
    }
    return Resource(
        ref=Ref("node_family", "", name),
        spec=node_family.parse(spec, name),
        normal={"spec": spec},
        digest=digest(spec),
        file="",
    )


def _slug(model: str) -> str:
    """`nvidia-h100-80gb-hbm3`."""
    words = re.sub(r"[^a-z0-9]+", "-", model.lower()).strip("-")
    return (words if words[:1].isalpha() else f"gpu-{words}")[:NAME_LIMIT].rstrip("-")
