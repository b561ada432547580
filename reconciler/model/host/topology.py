"""Topology: the hardware of a host, as far as slots can be made of it.

A host tells it when it is discovered, and not again: later, slots are what people approved.
"""

from __future__ import annotations

from reconciler.model.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class NumaNode:
    """`cores` are whole ones, each as its threads: `0,112`."""

    number: int
    cores: tuple[str, ...]
    memory_mib: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One GPU on the bus. Without `uuid` its driver did not answer for it.

    `pci_path` holds the bridges that lead to it and itself; `mig` is the driver's word, `N/A`
    where a card knows no MIG; `minor` is the number of its device node, which is no index.
    """

    pci_address: str
    pci_path: tuple[str, ...] = ()
    numa: int | None = None
    uuid: str = ""
    serial: str | None = None
    mig: str | None = None
    minor: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Drive:
    """A whole NVMe drive; `holds` says why it is not free, and is empty if nothing is known."""

    id: str
    size_gib: int
    holds: str = ""
    pci_address: str = ""
    pci_path: tuple[str, ...] = ()
    numa: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Nic:
    """A network card; `holds` says what the host itself does with it."""

    pci_address: str
    name: str
    rdma: bool
    holds: str = ""
    pci_path: tuple[str, ...] = ()
    numa: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """The hardware of a host; None = could not be read.

    `host_keys` are the public keys of its sshd, type and key.
    """

    serial: str | None = None
    kernel: str = ""
    host_keys: tuple[str, ...] | None = None
    numa_nodes: tuple[NumaNode, ...] | None = None
    cards: tuple[Card, ...] | None = None
    drives: tuple[Drive, ...] | None = None
    nics: tuple[Nic, ...] | None = None
