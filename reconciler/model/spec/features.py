"""Features: what this version does, and what its schemas know but nothing implements yet.

A feature that is only designed has gates: the words of documents that state it, and that are
refused until it is built. In a schema, `x-gate` names the feature of a field.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from reconciler.model.records import dataclass


class Maturity(StrEnum):
    IMPLEMENTED = "implemented"
    """Does what its pages say, on real hosts."""
    DESIGNED = "designed"
    """Known to the schemas, and refused wherever a document asks for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capability:
    """`gates` are what may not be stated yet, `code` the refusal, `instead` what does it today."""

    what: str
    maturity: Maturity = Maturity.IMPLEMENTED
    gates: tuple[str, ...] = ()
    code: str = ""
    instead: str = ""


def _designed(
    what: str, *gates: str, code: str = "not_yet_supported", instead: str = ""
) -> Capability:
    return Capability(
        what=what, maturity=Maturity.DESIGNED, gates=gates, code=code, instead=instead
    )


FEATURES: Mapping[str, Capability] = MappingProxyType(
    {
        "plan-and-apply": Capability(
            what="Specs in git, a plan of them, and an apply of exactly that plan"
        ),
        "account-isolation": Capability(what="Tenants with accounts of their own on a real host"),
        "directory-isolation": Capability(what="Tenants with folders of one host, for trials"),
        "whole-nodes": Capability(what="Allocations of a whole node (shape baremetal)"),
        "slices": Capability(what="Allocations of approved slots of one node (shape gpu_slice)"),
        "grants": Capability(what="Access for others, with a reason and an end"),
        "leases": Capability(what="Ends, warnings, grace periods, and releases that can be undone"),
        "cleanup-proofs": Capability(what="Slots reused only when proved clean"),
        "storage": Capability(what="Durable data of projects: directories, loops and NFS"),
        "bundles": Capability(what="Software environments, built on nodes from lock files"),
        "drift": Capability(
            what="Differences between hosts and applied specs, classified by owner"
        ),
        "suspensions": Capability(what="Access revoked at once, without waiting for git"),
        "rebuild": Capability(what="A lost state rebuilt from the records on hosts"),
        "second-person": Capability(what="Changes that need two people"),
        "replica": Capability(what="A continuous copy of the state by Litestream"),
        "loop": Capability(what="A process that plans and applies what the policy allows"),
        "monitoring": Capability(what="Metrics of the loop and its fleet for Prometheus"),
        "notifications": Capability(what="Messages to people when a condition begins and ends"),
        "guided-launch": Capability(what="A dialogue that writes the files of an allocation"),
        "apps": _designed(
            "Applications that run on allocations",
            "kind App",
            "kind AppManifest",
            "kind Artifact",
        ),
        "vm-isolation": _designed(
            "Tenants in virtual machines",
            "Node.spec.isolation vm",
            "Node.spec.slots[].vm",
            "Sku.spec.isolation vm",
        ),
        "root-access": _designed(
            "Root for tenants", "Sku.spec.rootAccess true", "Grant.spec.privilege sudo"
        ),
        "rdma-for-accounts": _designed(
            "RDMA devices in an account's slice", "Sku.spec.rdma true with isolation account"
        ),
        "lasting-sessions": _designed(
            "Sessions that outlive their grant", "Grant.spec.endSessions false"
        ),
        "budgets": _designed(
            "Money limits and cost centers of projects",
            "Project.spec.budget",
            "Project.spec.costCenter",
            instead="spec.quota limits the resources of a project at one time",
        ),
        "policy-snapshots": _designed(
            "The number of kept snapshots as a rule of the fleet",
            "Policy.spec.state",
            instead="keep.snapshots in gpuaas.yaml sets the number of snapshots",
        ),
        "other-surfaces": _designed(
            "Block devices and objects as storage",
            "StorageClass.spec.block",
            "StorageClass.spec.object",
            code="surface_not_supported",
        ),
        "child-slots": _designed(
            "Parts of a GPU as slots",
            "Node.spec.slots[].parent",
            "Node.spec.slots[].mig",
            code="field_reserved",
        ),
        "project-bundles": _designed(
            "Bundles of one project", "Bundle.metadata.project", code="field_reserved"
        ),
    }
)
