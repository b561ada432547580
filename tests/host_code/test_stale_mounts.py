"""Mounts that do not let go, that only hide, and that do not answer: real ones, of this machine."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest
from gpuaas import (
    attachments,
    create_volume,
    detach,
    file_search,
    hidden_mounts,
    stale_mounts,
    systemd_mounts,
    volume_users,
)
from gpuaas.find_files import any_of
from gpuaas.mount_places import Seat
from gpuaas.mounts import Mount, mounted_at
from gpuaas.paths import Refusal
from gpuaas.probes import ProbeError, Probes
from gpuaas.volumes import Volume, volume_of
from gpuaas.wipe import remove_folder

from tests import privileges
from tests.harness.directory_host import tree as all_of
from tests.host_code.volume_host import (
    DIRECTORY,
    ID,
    LOGIN,
    SHARED,
    VOLUME,
    attached,
    detached,
    had,
    host,
    opened,
    refused,
    wiped,
)

pytestmark = [pytest.mark.walk, privileges.needs(privileges.mounts)]

UID = 31_999
SEAT = Seat(ID, LOGIN, "data", "/data")


@pytest.fixture
def point(tmp_path: Path) -> Iterator[Path]:
    """The data of a volume, mounted where somebody has it."""
    data, point = tmp_path / VOLUME / "data", tmp_path / "point"
    for folder in (data, point):
        folder.mkdir(parents=True)
    (data / "log").write_text("one")
    run("mount", "--bind", data, point)
    try:
        yield point
    finally:
        subprocess.run(["umount", "-l", point], check=False, capture_output=True)


def run(*words: str | Path) -> None:
    subprocess.run(words, check=True, capture_output=True)


@contextmanager
def process(*words: str | Path) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([*words, "sh", "-c", "echo; exec sleep 60"], stdout=-1) as started:
        assert started.stdout is not None and started.stdout.readline()
        # It says so a moment before it is what it is to be.
        while Path(f"/proc/{started.pid}/comm").read_text() == "sh\n":
            time.sleep(0.01)
        try:
            yield started
        finally:
            started.kill()


def users(volume: str = VOLUME) -> str:
    return volume_users.told(volume_users.users_of(SEAT, UID, volume))


def test_nothing_is_taken_from_under_anybody(
    point: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-STO-06, F-STO-08, STO-10: who is in there is named, and can leave; then it goes."""
    monkeypatch.setattr(systemd_mounts, "GRACE_SECONDS", 0.2)
    with opened(tmp_path) as tree:
        with process("env", "-C", point) as inside:
            code, said = refused(systemd_mounts.unmount, tree, str(point), users)
            assert code == "storage_busy" and f"{point}: in use by {inside.pid} sleep" in said
            assert (point / "log").read_text() == "one"
        systemd_mounts.unmount(tree, str(point), users)
        assert mounted_at(str(point)) is None and not list(point.iterdir())


IN_SOCKETS = """
import os, socket, sys, time
how, point = sys.argv[1:3]
if how == "named":
    one = socket.socket(socket.AF_UNIX)
    one.bind(f"{point}/socket")
else:
    folder, ends = os.open(point, os.O_RDONLY), socket.socketpair()
    socket.send_fds(ends[0], [b"."], [folder])
    os.close(folder)
print(flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("how", ["named", "on its way"])
def test_who_has_it_by_a_socket_is_named(
    point: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """F-STO-06, STO-10: nothing is open in there, and it is not let go of; who can be ended is."""
    monkeypatch.setattr(systemd_mounts, "GRACE_SECONDS", 0.2)
    with opened(tmp_path) as tree, process(sys.executable, "-c", IN_SOCKETS, how, point) as one:
        code, said = refused(systemd_mounts.unmount, tree, str(point), users)
        assert code == "storage_busy" and f"in use by {one.pid} " in said
        assert one.pid in hidden_mounts.tenants_in(SEAT, os.getuid(), VOLUME)


def test_an_unmount_that_only_hides_is_none(
    point: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-STO-06: in a namespace that hears nothing of its host the tenant has it still."""
    monkeypatch.setattr(detach, "GRACE_SECONDS", 0.2)
    tenant = ("setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups")
    with opened(tmp_path) as tree:
        with process("unshare", "--mount", "--propagation=private", *tenant) as inside:
            systemd_mounts.unmount(tree, str(point), users)
            assert mounted_at(str(point)) is None
            for _ in range(2):
                code, said = refused(detach.refuse_hidden, tree, SEAT, UID, VOLUME)
                assert code == "storage_busy" and f"{inside.pid} sleep" in said
            detach.refuse_hidden(tree, SEAT, UID + 1, VOLUME)
            detach.refuse_hidden(tree, SEAT, UID, "volumebbbb")
        detach.refuse_hidden(tree, SEAT, UID, VOLUME)


BELOW = """
    point=$1 other=$2; shift 2
    mkdir -p "$point/sub" && mount --bind "$point/sub" "$other" && umount "$point" && exec "$@"
"""
LAYER = """
    point=$1 other=$2; shift 2
    mount -t tmpfs none "$other" && mkdir "$other/low" "$other/seen"
    mount -t overlay -o lowerdir="$other/low:$point" none "$other/seen" && umount "$point"
    exec "$@"
"""
KEPT = """
import ctypes, os, socket, sys, threading, time
libc = ctypes.CDLL(None)
how, point, other = sys.argv[1:4]
def alone():
    assert not libc.unshare(0x20000 | 0x200) and not libc.mount(0, b"/", 0, 1 << 18 | 1 << 14, 0)
def copy():
    tree = libc.syscall(428, -100, point.encode(), 1)  # open_tree(2), of what is in no namespace
    assert tree > 0
    return tree
if how == "tree":
    copy()
elif how == "flight":
    ends = socket.socketpair()
    socket.send_fds(ends[0], [b"."], [tree := copy()])
    os.close(tree)
    [os.set_inheritable(end.fileno(), True) for end in ends]
elif how == "space":
    ready, done = os.pipe()
    if not (child := os.fork()):
        alone()
        os.write(done, b".")
        time.sleep(60)
    os.read(ready, 1)
    os.set_inheritable(os.open(f"/proc/{child}/ns/mnt", os.O_RDONLY), True)
    os.kill(child, 9)
    os.wait()
else:
    begun = threading.Event()
    def work():
        alone()
        begun.set()
        time.sleep(60)
    if how == "thread":
        threading.Thread(target=work, daemon=True).start()
        begun.wait()
    else:
        alone()
        os.chroot(other)
    os.setgroups([])
    os.setresuid(UID, UID, UID)
    print(flush=True)
    time.sleep(60)
os.execvp(sys.argv[4], sys.argv[4:])
""".replace("UID", str(UID))
ALONE = ("unshare", "--mount", "--propagation=private", "sh", "-euc")
PYTHON = (sys.executable, "-c", KEPT)
HIDING = {
    "a part of it": (*ALONE, BELOW, "sh"),
    "below a layer": (*ALONE, LAYER, "sh"),
    "in a descriptor": (*PYTHON, "tree"),
    "on its way": (*PYTHON, "flight"),
    "where nobody is": (*PYTHON, "space"),
    "beside one's root": (*PYTHON, "root"),
    "by a thread": (*PYTHON, "thread"),
}
SAID = {
    "below a layer": "has an overlay at",
    "in a descriptor": "has something open by a mount that is nowhere",
    "on its way": "1 open files wait in its sockets",
    "where nobody is": "keeps a namespace in which it is mounted",
}


@pytest.mark.parametrize("how", HIDING)
def test_what_a_tenant_has_aside_is_not_let_go_of(
    point: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """F-STO-06: whatever the host's own unmount does not see; until it ends."""
    monkeypatch.setattr(detach, "GRACE_SECONDS", 0.2)
    other = tmp_path / "other"
    other.mkdir()
    tenant = ("setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups")
    with opened(tmp_path) as tree:
        with process(*HIDING[how], point, other, *tenant) as inside:
            systemd_mounts.unmount(tree, str(point), users)
            code, said = refused(detach.refuse_hidden, tree, SEAT, UID, VOLUME)
            assert code == "storage_busy" and f" {inside.pid} " in said
            assert SAID.get(how, "has it mounted") in said
            assert hidden_mounts.tenants_in(SEAT, UID, VOLUME).keys() == {inside.pid}
        detach.refuse_hidden(tree, SEAT, UID, VOLUME)


def test_what_somebody_has_open_elsewhere_holds_nobody_up(point: Path, tmp_path: Path) -> None:
    """STO-10: a log in a session that has ended, memory, pipes; and what a colleague has there."""
    colleague = tmp_path / "colleague"
    colleague.mkdir()
    run("mount", "--bind", point, colleague)
    script = 'log=$1; shift; exec 3> "$log"; exec unshare --mount --propagation=private "$@"'
    words = (*ALONE, script, "sh", "/dev/shm/gpuaas-test-log")
    tenant = ("setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups")
    with opened(tmp_path) as tree:
        systemd_mounts.unmount(tree, str(point), users)
        seat = SEAT._replace(place=str(tmp_path))
        with process(*words, *tenant):
            detach.refuse_hidden(tree, seat, UID, VOLUME)
        os.unlink("/dev/shm/gpuaas-test-log")
    run("umount", colleague)


@pytest.mark.parametrize(
    ("place", "ours"),
    [
        (f"/gpuaas/{ID}/data", True),
        ("/gpuaas/bcdefghijk/data", False),
        (f"/var/lib/gpuaas/instances/data/{LOGIN}", True),
        (f"/var/lib/gpuaas/instances/mnt/{LOGIN}/x", True),
        ("/var/lib/gpuaas/instances/data/train-b-bcde", False),
        ("/data", True),
        ("/newroot/data", True),
    ],
)
def test_what_neighbours_have_holds_nobody_up(place: str, *, ours: bool) -> None:
    """Every session sees the mounts of its host, and comes into none but its own."""
    mount = Mount(place, "8:1", f"/srv/{VOLUME}/data", "ext4", ())
    assert volume_users._is_ours(mount, SEAT) is ours


def test_nothing_is_removed_through_a_mount(tmp_path: Path) -> None:
    """F-STO-02: neither a volume that somebody sees, nor one in which something is mounted."""
    root = host(tmp_path / "host")
    attached(root, had())
    detached(root)
    data, elsewhere = root / f"srv/volumes/{VOLUME}/data", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (data / "inner").mkdir()
    (data / "log").write_text("one")
    (elsewhere / "precious").write_text("x")
    for what, where, code in (
        (data, elsewhere, "storage_in_use"),
        (elsewhere, data / "inner", "path_not_removed"),
    ):
        run("mount", "--bind", what, where)
        try:
            before = all_of(data)
            assert refused(wiped, root)[0] == code
            assert all_of(data) == before
        finally:
            run("umount", where)
    assert (elsewhere / "precious").exists()
    wiped(root)
    assert not data.exists()


def test_a_home_with_a_volume_in_it_is_not_removed(point: Path, tmp_path: Path) -> None:
    """F-STO-02: a release stops where a mount is still there, whatever has left it."""
    for root, path in ((tmp_path, "/point"), (tmp_path.parent, f"/{tmp_path.name}")):
        with opened(root) as tree, pytest.raises(Refusal, match="something is mounted here"):
            remove_folder(tree, path)
    assert (point / "log").read_text() == "one"


@pytest.fixture
def silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A share whose server took the first greeting, and then never says a word."""
    monkeypatch.setattr(stale_mounts, "PATIENCE_SECONDS", 0.3)
    share = tmp_path / "srv/volumes"
    share.mkdir(parents=True)
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0"
    mount = ["mount", "-i", "-t", "fuse", "-o", options, "standin", share]
    subprocess.run(mount, check=True, pass_fds=(device,))
    greet(device)
    # Whoever waits for what was heard and is not answered does not even end by being killed.
    Thread(target=os.read, args=(device, 65536), daemon=True).start()
    try:
        yield share
    finally:
        # Only whoever closes it lets go those who wait for it.
        os.close(device)
        run("umount", "-l", share)


def greet(device: int) -> None:
    """Answers FUSE_INIT."""
    asked = os.read(device, 65536)
    (unique,) = struct.unpack_from("<Q", asked, 8)
    answer = struct.pack("<IIIIHHIIHHI", 7, 12, 0, 0, 0, 0, 4096, 0, 0, 0, 0) + bytes(28)
    os.write(device, struct.pack("<IiQ", 16 + len(answer), 0, unique) + answer)


def test_nobody_waits_for_a_share_that_is_silent(
    silent: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-STO-06: it is named, nothing is said of it, and what else is on the host goes on."""
    began = time.monotonic()
    root = host(tmp_path)
    attached(root, had(id="volumebbbb", backend={"directory": {"path": "/mine", "shared": False}}))
    record = root / f"etc/gpuaas/volumes/{VOLUME}.json"
    record.write_text(
        f'{{"id": "{VOLUME}", "backend": {{"directory": {{"path": "/srv/volumes"}}}}}}'
    )
    probes = Probes(str(root))
    assert VOLUME not in attachments.read_volumes(probes)
    texts = attachments.read_volume_texts(probes)
    assert '"holders":null' in texts[VOLUME]
    around = Mount(str(silent.parent), "", "/", "ext4", ())
    points = file_search.not_entered(probes)
    until = time.monotonic() + 4
    assert list(file_search.topmost(around, points, any_of([4711]), until)) == []
    below = around._replace(point=str(silent / "below"))
    with pytest.raises(ProbeError, match=f"{silent} does not answer"):
        list(file_search.topmost(below, points, any_of([4711]), until))
    monkeypatch.setattr("gpuaas.paths.Tree.whole_host", True)
    monkeypatch.setattr(Volume, "place", str(silent))
    with opened(root) as tree:
        code, said = refused(create_volume.reach, tree, volume_of(VOLUME, SHARED))
    assert code == "volume_not_answering" and str(silent) in said
    assert time.monotonic() - began < 5


def test_a_share_that_answers_is_looked_at(point: Path, tmp_path: Path) -> None:
    room = stale_mounts.room_of(str(point))
    assert room is not None and 0 < room.used <= room.total
    assert stale_mounts.room_of(str(tmp_path / "none")) is None
    assert volume_of(VOLUME, DIRECTORY).shared is False


DEEP = """
import os, sys, time
os.chdir(sys.argv[1])
for _ in range(20):
    os.mkdir("y" * 250)
    os.chdir("y" * 250)
print("in", flush=True)
time.sleep(60)
"""


def test_where_a_path_is_too_long_to_be_told_somebody_may_be_at_work(tmp_path: Path) -> None:
    """Whoever works there is not taken for nobody."""
    words = [sys.executable, "-c", DEEP, str(tmp_path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as deep:
        assert deep.stdout is not None and deep.stdout.readline()
        held = list(volume_users._held(deep.pid))
        deep.kill()
    assert None in held
    subprocess.run(["rm", "-rf", str(tmp_path / ("y" * 250))], check=True)
