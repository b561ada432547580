"""Which file system a folder lies on, from the kernel's own list."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.store.place import file_system, read_mounts

MOUNTS = r"""
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
40 27 0:40 / /srv rw,relatime shared:7 master:2 - nfs4 nas:/srv rw,vers=4.2
41 40 0:41 / /srv/local rw - xfs /dev/vdb rw
42 27 0:42 / /with\040space rw - cifs //nas/x rw
43 27 0:43 / /twice rw - ext4 /dev/vdc rw
44 43 0:44 / /twice rw - fuse.sshfs host:/ rw
damaged line
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/home/ana/state", "ext4"),
        ("/srv", "nfs4"),
        ("/srv/fleet/state", "nfs4"),
        ("/srv/local/state", "xfs"),
        ("/srvx", "ext4"),
        ("/with space/state", "cifs"),
        ("/twice/state", "fuse.sshfs"),
    ],
)
def test_nearest_mount_counts(folder: str, kind: str) -> None:
    """F-STA-09: the deepest mount above a folder, and of two at one point the later."""
    assert file_system(Path(folder), MOUNTS) == kind


def test_this_machine_can_say(tmp_path: Path) -> None:
    """F-STA-09: the probe is the real one unless a test says otherwise."""
    assert file_system(tmp_path.resolve(), read_mounts())
