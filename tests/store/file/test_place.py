"""Where a state may lie: on which file system, in whose folder, and below which others."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from reconciler.model.problem import ProblemError
from reconciler.store.file import place
from reconciler.store.file.place import check_file, check_place, file_system, read_mounts
from tests import privileges

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


def refused(work: Callable[[Path], None], path: Path) -> str:
    with pytest.raises(ProblemError) as caught:
        work(path)
    (problem,) = caught.value.problems
    assert problem.code == "state_unsafe_place" and problem.hint
    return problem.message


def test_a_folder_of_ours_alone_is_a_place(tmp_path: Path) -> None:
    """Whatever the umask was; /tmp above it belongs to everybody, but nobody can rename in it."""
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    check_place(folder)
    (folder / "gpuaas.db").touch(mode=0o600)
    check_file(folder / "gpuaas.db")


def test_a_place_is_no_link(tmp_path: Path) -> None:
    """SEC-05: who may change the link chooses the state."""
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "state").symlink_to("real")
    assert "is a link" in refused(check_place, tmp_path / "state")
    (tmp_path / "real/gpuaas.db").symlink_to("elsewhere.db")
    assert "is a link" in refused(check_file, tmp_path / "real/gpuaas.db")


@privileges.needs(privileges.giving_away)
def test_what_belongs_to_somebody_else_is_no_place(tmp_path: Path) -> None:
    """SEC-05: they may change what it holds, whatever its mode is now."""
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    (folder / "gpuaas.db").touch(mode=0o600)
    for path, check in ((folder / "gpuaas.db", check_file), (folder, check_place)):
        os.chown(path, 65534, -1)
        assert "belongs to nobody, you are root" in refused(check, path)


@pytest.mark.parametrize("mode", [0o660, 0o606, 0o666])
def test_a_file_that_others_write_is_no_state(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "gpuaas.db"
    file.touch()
    file.chmod(mode)
    assert f"mode {mode:04o}" in refused(check_file, file)


@pytest.mark.parametrize("way", ["itself", "by a link"])
def test_nobody_can_put_another_folder_in_its_place(tmp_path: Path, way: str) -> None:
    """SEC-05: a folder above that others write to, however far, and seen through a link as well."""
    folder = tmp_path / "open/deep/state"
    folder.mkdir(mode=0o700, parents=True)
    (tmp_path / "way").symlink_to("open/deep")
    shown = folder if way == "itself" else tmp_path / "way/state"
    check_place(shown)
    for mode in (0o777, 0o757):
        (tmp_path / "open").chmod(mode)
        assert "could put another in the place of deep" in refused(check_place, shown)
    (tmp_path / "open").chmod(0o1777)
    check_place(shown)


@privileges.needs(privileges.giving_away)
def test_a_sticky_folder_keeps_only_what_is_ours(tmp_path: Path) -> None:
    folder = tmp_path / "open/deep/state"
    folder.mkdir(mode=0o700, parents=True)
    (tmp_path / "open").chmod(0o1777)
    os.chown(tmp_path / "open/deep", 65534, -1)
    assert "in the place of deep" in refused(check_place, folder)


def test_a_private_group_is_nobody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where each user has a group of their own, folders are writable by it."""
    folder = tmp_path / "fleet/state"
    folder.mkdir(mode=0o700, parents=True)
    (tmp_path / "fleet").chmod(0o775)
    me = pwd.getpwuid(os.geteuid())
    known = {"gr_name": me.pw_name, "gr_mem": [me.pw_name]}
    monkeypatch.setattr(place.grp, "getgrgid", lambda gid: SimpleNamespace(**known))
    os.chown(tmp_path / "fleet", -1, me.pw_gid)
    check_place(folder)
    known["gr_mem"] = [me.pw_name, "bo"]
    assert "could put another" in refused(check_place, folder)
    known.update(gr_name="staff", gr_mem=[])
    assert "could put another" in refused(check_place, folder)
