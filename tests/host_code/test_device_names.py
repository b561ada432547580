"""Names of devices: whatever a drive or a port is called, its host says that it is one."""

from __future__ import annotations

from pathlib import Path

import pytest

from playbooks.module_utils.gpuaas.device_names import read_devices
from playbooks.module_utils.gpuaas.probes import Probes

EUI, MODEL, OTHER = "nvme-eui.0025385b21400a0", "nvme-SAMSUNG_MZQL_S64H", "nvme-eui.1"


def by_id(root: Path, **links: str) -> None:
    folder = root / "dev/disk/by-id"
    folder.mkdir(parents=True, exist_ok=True)
    for name, block in links.items():
        (folder / name).symlink_to(f"../../{block}")


def block(root: Path, name: str, serial: str = "", wwid: str = "", slaves: str = "") -> None:
    folder = root / "sys/block" / name
    (folder / "device").mkdir(parents=True)
    (folder / "device/serial").write_text(f"{serial}  \n")
    (folder / "wwid").write_text(f"{wwid}\n")
    if slaves:
        (folder / "slaves" / slaves).mkdir(parents=True)


def told(root: Path) -> dict[str, str]:
    return read_devices(Probes(str(root)))


def test_two_names_of_one_drive_are_one_device(tmp_path: Path) -> None:
    """F-REAL-08: udev makes several links for every drive."""
    by_id(tmp_path, **{EUI: "nvme0n1", MODEL: "nvme0n1", OTHER: "nvme1n1"})
    found = told(tmp_path)
    assert found[EUI] == found[MODEL] != found[OTHER]
    assert found[EUI] == "drive nvme0n1"


def test_two_ways_to_one_drive_are_one_device(tmp_path: Path) -> None:
    """F-REAL-08: by each controller; and with multipathing by what stands above them."""
    by_id(tmp_path, **{EUI: "nvme0n1", MODEL: "nvme1n1", OTHER: "dm-0"})
    block(tmp_path, "nvme0n1", "S64H", "eui.0025")
    block(tmp_path, "nvme1n1", "S64H", "eui.0025")
    block(tmp_path, "dm-0", slaves="nvme0n1")
    assert len(set(told(tmp_path).values())) == 1


@pytest.mark.parametrize(("serial", "wwid"), [("OTHER", "eui.0025"), ("S64H", "eui.0026")])
def test_drives_and_namespaces_that_look_alike_are_two(
    tmp_path: Path, serial: str, wwid: str
) -> None:
    """Two drives of one bogus wwid, and two namespaces of one drive, are each their own."""
    by_id(tmp_path, **{EUI: "nvme0n1", MODEL: "nvme0n2"})
    block(tmp_path, "nvme0n1", "S64H", "eui.0025")
    block(tmp_path, "nvme0n2", serial, wwid)
    assert len(set(told(tmp_path).values())) == 2


def test_a_port_is_one_by_its_address_and_by_each_of_its_names(tmp_path: Path) -> None:
    """F-REAL-08: what RDMA calls mlx5_0 the network calls ens7."""
    device = tmp_path / "sys/bus/pci/devices/0000:0c:00.0"
    (device / "net/ens7").mkdir(parents=True)
    (device / "infiniband/mlx5_0").mkdir(parents=True)
    found = told(tmp_path)
    assert set(found) == {"0000:0c:00.0", "ens7", "mlx5_0"}
    assert set(found.values()) == {"port 0000:0c:00.0"}


def test_a_host_without_drives_and_ports_tells_of_none(tmp_path: Path) -> None:
    """Which is not the same as not telling."""
    assert told(tmp_path) == {}
