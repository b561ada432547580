"""What a host tells of tenants: accounts, slices, lists, sessions, keys of their own, leftovers."""

from __future__ import annotations

import os
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import ANY

import pytest
from gpuaas import device_holders, file_search, ipc, processes, residue, sessions, tenants
from gpuaas.find_files import any_of
from gpuaas.mounts import Mount, mounts
from gpuaas.passwd import Accounts
from gpuaas.paths import Refusal, Tree
from gpuaas.probes import ProbeError, Probes, shortened

from tests import privileges
from tests.fleets import public_key

LOGIN, OTHER = "train-a-abcd", "notes-b-wxyz"
UID = 59876
"""Of nobody on the machine that the tests run on."""

with_others = privileges.needs(privileges.others)


@pytest.fixture
def probes(tmp_path: Path) -> Probes:
    files = {
        "etc/passwd": (
            "root:x:0:0::/root:/bin/sh\n"
            "ana:x:1000:1000:Ana,,,:/home/ana:/bin/bash\n"
            "gpuaas-probe:x:980:980::/:/usr/sbin/nologin\n"
            f"{LOGIN}:x:20000:20100:gpuaas abcdefghij:/home/{LOGIN}:/bin/bash\n"
            f"{OTHER}:x:20001:20100:gpuaas bbbbbbbbbb:/home/{OTHER}:/bin/bash\n"
            "not a line of anybody\n+::::::\n"
        ),
        "etc/group": f"p-vision-20100:x:20100:\ngpuaas-tenants:x:980:gpuaas-probe,{LOGIN}\n",
        "etc/shadow": f"root:*:::::::\n{LOGIN}:!:19000::::::\n{OTHER}:$y$:19000::::::\n",
    }
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return Probes(str(tmp_path))


def test_an_account_is_told_as_it_is(probes: Probes) -> None:
    """Made by us, or confined by us: one that somebody took out of the group shows as that."""
    assert tenants.read_accounts(probes) == {
        LOGIN: f"uid=20000 gid=20100 group=p-vision-20100 groups=gpuaas-tenants home=/home/{LOGIN}"
        " shell=/bin/bash password=locked",
        OTHER: f"uid=20001 gid=20100 group=p-vision-20100 groups= home=/home/{OTHER}"
        " shell=/bin/bash password=open",
    }


def test_a_host_without_accounts_of_its_own_is_unknown(tmp_path: Path) -> None:
    """F-ANS-03: what could not be read is no list without entries."""
    broken = Probes(str(tmp_path))
    assert "account *" not in tenants.read_tenants(broken)
    assert any(problem["probe"] == "account" for problem in broken.problems)


def test_lists_tell_of_tenants_and_of_those_who_are_gone(probes: Probes, tmp_path: Path) -> None:
    (tmp_path / "etc/cron.deny").write_text(f"guest\n{LOGIN}\ngone-c-qrst\n")
    assert tenants.read_denied(probes, "cron") == {
        LOGIN: "denied",
        OTHER: "allowed",
        "gone-c-qrst": "denied",
    }


def test_who_lingers_is_told(probes: Probes, tmp_path: Path) -> None:
    assert tenants.read_lingering(probes) == {}
    (tmp_path / "var/lib/systemd/linger").mkdir(parents=True)
    (tmp_path / "var/lib/systemd/linger" / LOGIN).touch()
    assert tenants.read_lingering(probes) == {LOGIN: "present"}


CARDS = {0: "GPU-zero", 3: "GPU-three"}
CLOSED = ["/dev/tty rw", "/dev/ptmx rw", "char-pts rw", "/dev/fuse rw", "/dev/net/tun rw"]
SHARED = ["/dev/nvidiactl rw", "/dev/nvidia-uvm rw"]
LIMITS = "cpus=0-3,8 mems=0 memory=1024 swap=0 tasks=16384"


def told(*devices: str, **changes: str) -> dict[str, list[str]]:
    values = {
        "DevicePolicy": "closed",
        "AllowedCPUs": "0-3 8",
        "AllowedMemoryNodes": "0",
        "MemoryMax": "1024",
        "MemorySwapMax": "0",
        "TasksMax": "16384",
        **changes,
    }
    return {**{key: [value] for key, value in values.items()}, "DeviceAllow": list(devices)}


@pytest.mark.parametrize(
    ("devices", "shown"),
    [
        ([*CLOSED], ""),
        ([*CLOSED, *SHARED, "/dev/nvidia3 rw"], "GPU-three"),
        ([*CLOSED, *SHARED, "/dev/nvidia3 rw", "/dev/nvidia0 rw"], "GPU-three,GPU-zero"),
        (
            [*CLOSED, *SHARED, "/dev/nvidia7 rw"],
            "/dev/nvidia-uvm rw,/dev/nvidia7 rw,/dev/nvidiactl rw",
        ),
        ([*CLOSED, "/dev/sda rw"], "/dev/sda rw"),
        (
            [*CLOSED, *SHARED, "/dev/nvidia3 rwm"],
            "/dev/nvidia-uvm rw,/dev/nvidia3 rwm,/dev/nvidiactl rw",
        ),
        ([*CLOSED, "/dev/nvidia3 rw"], "GPU-three,-/dev/nvidia-uvm rw,-/dev/nvidiactl rw"),
        (CLOSED[1:], "-/dev/tty rw"),
    ],
)
def test_devices_are_told_by_uuid_and_all_that_is_odd_as_it_is(
    devices: list[str], shown: str
) -> None:
    assert tenants.slice_fact(told(*devices), CARDS) == f"policy=closed devices={shown} {LIMITS}"


def test_a_slice_that_was_opened_shows_it() -> None:
    fact = tenants.slice_fact(told(*CLOSED, DevicePolicy="auto", MemoryMax="infinity"), CARDS)
    assert fact.startswith("policy=auto ") and "memory=infinity" in fact


def test_keys_of_their_own_are_found_wherever_sshd_once_looked(
    probes: Probes, tmp_path: Path
) -> None:
    """F-GRT-07: authorized_keys, authorized_keys2 and a certificate authority, each named."""
    ssh = tmp_path / "home" / LOGIN / ".ssh"
    ssh.mkdir(parents=True)
    key = public_key("own")
    (ssh / "authorized_keys").write_text(f'# mine\n\n{key}\n# {key}\ncommand="x" {key}\n')
    (ssh / "authorized_keys2").write_text(f'cert-authority,principals="a" {key}')
    told = subprocess.run(
        ["ssh-keygen", "-l", "-f", "-"], input=key, capture_output=True, text=True, check=False
    ).stdout
    finger = tenants.fingerprint(key.split()[1])
    assert not told or told.split()[1] == finger
    assert tenants.read_stray_keys(probes) == {
        LOGIN: [
            f"{finger} ~/.ssh/authorized_keys",
            f"{finger} ~/.ssh/authorized_keys",
            f"cert-authority {finger} ~/.ssh/authorized_keys2",
        ]
    }


def test_a_tenant_leads_nobody_elsewhere_by_a_link(probes: Probes, tmp_path: Path) -> None:
    """A link or a pipe where a key file should be is neither followed nor waited for."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "authorized_keys").write_text(public_key("theirs"))
    (tmp_path / "home" / LOGIN).mkdir(parents=True)
    (tmp_path / "home" / LOGIN / ".ssh").symlink_to(elsewhere)
    other = tmp_path / "home" / OTHER / ".ssh"
    other.mkdir(parents=True)
    os.mkfifo(other / "authorized_keys")
    (other / "authorized_keys2").symlink_to(elsewhere / "authorized_keys")
    assert tenants.read_stray_keys(probes) == {}


def test_a_tenant_cannot_make_its_host_say_too_much_or_nothing(
    probes: Probes, tmp_path: Path
) -> None:
    """F-ANS-03: more keys than an answer has room for, or no file at all, are one tenant's own."""
    for login, name in ((LOGIN, "authorized_keys"), (LOGIN, "authorized_keys2"), (OTHER, "x")):
        (tmp_path / f"home/{login}/.ssh").mkdir(parents=True, exist_ok=True)
        (tmp_path / f"home/{login}/.ssh/{name}").write_text("ssh-a A\n" * 100_000)
    (tmp_path / f"home/{OTHER}/.ssh/authorized_keys").mkdir()
    os.mkfifo(tmp_path / f"home/{OTHER}/.ssh/authorized_keys2")
    found = tenants.read_stray_keys(probes)
    assert set(found) == {LOGIN}
    assert len(found[LOGIN]) == 51 and found[LOGIN][-1] == "and 199950 more"


def test_sessions_are_logins_and_no_managers(probes: Probes, tmp_path: Path) -> None:
    folder = tmp_path / "run/systemd/sessions"
    folder.mkdir(parents=True)
    (folder / "c1").write_text(f"# private\nUID=20000\nUSER={LOGIN}\nCLASS=user\nSCOPE=s.scope\n")
    (folder / "c2").write_text(f"UID=20000\nUSER={LOGIN}\nCLASS=manager\n")
    (folder / "c1.ref").touch()
    assert tenants.read_sessions(probes) == {LOGIN: 1}
    assert [name for name, _ in sessions.told_sessions(str(tmp_path))] == ["c1", "c2"]


# Leftovers.


def mount(point: str, **changes: str) -> Mount:
    values = {"device": "8:1", "root": "/", "kind": "ext4", **changes}
    return Mount(point=point, options=(), **values)


def walk(place: Mount, points: set[str], found: dict[int, list[str]], until: float) -> None:
    for uid, what in file_search.topmost(place, points, any_of(sorted(found)), until):
        found[uid].append(what)


@with_others
def test_files_of_a_uid_are_found_by_their_topmost_folder(tmp_path: Path) -> None:
    for path in ("opt/mine/deep/er", "opt/theirs/mine", "srv/odd\nname"):
        (tmp_path / path).mkdir(parents=True)
    (tmp_path / "opt/link").symlink_to("/etc/passwd")
    for path in ("opt/mine", "opt/mine/deep", "opt/theirs/mine", "srv/odd\nname", "opt/link"):
        os.chown(tmp_path / path, UID, UID, follow_symlinks=False)
    found: dict[int, list[str]] = {UID: [], UID + 1: []}
    walk(mount(str(tmp_path)), set(), found, time.monotonic() + 60)
    assert found[UID + 1] == []
    assert sorted(found[UID]) == [
        f"file {tmp_path}/opt/link",
        f"file {tmp_path}/opt/mine",
        f"file {tmp_path}/opt/theirs/mine",
        f"file {tmp_path}/srv/odd\\nname",
    ]


@with_others
def test_a_walk_does_not_go_across_a_mount(tmp_path: Path) -> None:
    """What is mounted there is looked at in its own place; names are no patterns."""
    odd, like = tmp_path / "m[a-z]*", tmp_path / "mnt"
    for place in (odd, like):
        (place / "in").mkdir(parents=True)
        os.chown(place / "in", UID, UID)
    found: dict[int, list[str]] = {UID: []}
    walk(mount(str(tmp_path)), {str(odd)}, found, time.monotonic() + 60)
    assert found[UID] == [f"file {like}/in"]
    os.chown(odd, UID, UID)
    walk(mount(str(tmp_path)), {str(odd), "/"}, found, time.monotonic() + 60)
    assert f"file {odd}" in found[UID]


def test_what_is_unmounted_meanwhile_is_looked_at_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """F-PLC-04: services come and go with mounts of theirs; what else fails is told at once."""
    tables = [["/", "/run/a"], ["/"], ["/"], ["/"], ["/", "/run/b"]]
    looks: list[float] = []

    def look(until: float) -> str:
        looks.append(until)
        if len(looks) in (1, 3):
            raise ProbeError(f"{len(looks)}")
        return "found"

    monkeypatch.setattr(residue, "mounts", lambda: list(map(mount, tables.pop(0))))
    assert residue.steadily(look) == "found"
    with pytest.raises(ProbeError, match="3"):
        residue.steadily(look)
    assert looks[0] == looks[1]
    tables = [[f"/run/{number}"] for number in range(9)]
    with pytest.raises(ProbeError, match="never"):
        residue.steadily(never)


def never(until: float) -> str:
    raise ProbeError("never")


@with_others
def test_a_card_that_was_handed_on_to_a_neighbour_is_found(probes: Probes, tmp_path: Path) -> None:
    """Rule 1: its slice would not let it open the card, but nobody asks once it is open."""
    conf = tmp_path / "run/systemd/system/user-20001.slice.d/70-gpuaas-devices.conf"
    conf.parent.mkdir(parents=True)
    conf.write_text("[Slice]\nDeviceAllow=/dev/nvidiactl rw\nDeviceAllow=/dev/nvidia3 rw\n")
    (tmp_path / "proc/77/fd").mkdir(parents=True)
    (tmp_path / "proc/77/status").write_text(
        "Name:\tpython3\nState:\tS (sleeping)\nUid:\t20001\t20001\t20001\t20001\nThreads:\t1\n"
    )
    for at, minor in enumerate((3, 255, 254)):
        os.mknod(tmp_path / f"node{minor}", 0o600 | stat.S_IFCHR, os.makedev(195, minor))
        (tmp_path / f"proc/77/fd/{at}").symlink_to(tmp_path / f"node{minor}")
    (tmp_path / "proc/77/fd/9").symlink_to("socket:[1234]")
    assert device_holders.held_cards(probes) == []
    os.mknod(tmp_path / "innocent", 0o600 | stat.S_IFCHR, os.makedev(195, 0))
    (tmp_path / "proc/77/fd/10").symlink_to(tmp_path / "innocent")
    probes = Probes(str(tmp_path))
    assert device_holders.held_cards(probes) == [
        f"process 77 python3 of {OTHER} has /dev/nvidia0 open"
    ]
    (tmp_path / "proc/77/fdinfo").mkdir()
    (tmp_path / "proc/77/fdinfo/9").write_text("flags:\t02\nscm_fds: 3\n")
    probes = Probes(str(tmp_path))
    waiting = f"process 77 python3 of {OTHER}: 3 open files wait in its sockets"
    assert device_holders.unseen_cards(probes) == [waiting]
    assert residue.open_cards(probes)[1:] == [f"unknown open {waiting}"]


@with_others
def test_a_folder_that_no_path_can_name_is_looked_into(tmp_path: Path) -> None:
    """F-PLC-04: one tenant's nest of folders must not hide others' files, nor stop the look."""
    deepest = os.open(tmp_path, os.O_RDONLY)
    for _ in range(30):
        os.mkdir("d" * 200, dir_fd=deepest)
        inner = os.open("d" * 200, os.O_RDONLY, dir_fd=deepest)
        os.close(deepest)
        deepest = inner
    os.close(os.open("left", os.O_CREAT | os.O_WRONLY, dir_fd=deepest))
    os.chown("left", UID, UID, dir_fd=deepest)
    os.close(deepest)
    found: dict[int, list[str]] = {UID: []}
    walk(mount(str(tmp_path)), set(), found, time.monotonic() + 60)
    assert [one[-7:] for one in found[UID]] == ["dd/left"]


def test_a_look_that_takes_too_long_is_none(tmp_path: Path) -> None:
    with pytest.raises(ProbeError):
        walk(mount("/usr"), set(), {UID: []}, time.monotonic() - 1)


def test_a_uid_that_could_not_be_looked_through_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-ANS-03: half a look is no clean host. Here there is not even a /proc."""
    probes = Probes(str(tmp_path))
    assert residue.read_leftovers(probes, [UID]) == {}
    assert probes.problems
    assert residue.read_leftovers(Probes(str(tmp_path)), []) == {}


@pytest.mark.parametrize(
    ("other", "covering", "is_shown"),
    [
        (mount("/"), [], True),
        (mount("/", device="8:2"), [], False),
        (mount("/", root="/other"), [], False),
        (mount("/srv", root="/data"), [], True),
        (mount("/"), ["/data"], False),
        (mount("/"), ["/data/sub/deeper"], False),
        (mount("/"), ["/home"], True),
    ],
)
def test_what_is_mounted_twice_is_looked_at_once_unless_it_is_hidden_there(
    other: Mount, covering: list[str], is_shown: bool
) -> None:
    bound = mount("/mnt", root="/data/sub")
    visible = {one.point: one for one in (other, bound, *map(mount, covering))}
    assert file_search.shows(other, bound, visible) is is_shown


def test_network_and_pseudo_file_systems_are_not_entered() -> None:
    """This very machine's: what is chosen is local, and nothing of it is a kernel's window."""
    kinds = {one.kind for one in file_search.places(Probes("/"))}
    assert not kinds & {"proc", "sysfs", "cgroup", "cgroup2", "nfs", "nfs4", "cifs", "devpts"}
    assert {one.kind for one in mounts() if one.point == "/"} <= kinds


def test_many_are_counted() -> None:
    found = [f"file /{number}" for number in range(80)]
    assert shortened(found)[-1] == "and 30 more"
    assert shortened(found[:50]) == found[:50]
    assert shortened(["x" * 5000]) == ["x" * 1000]


def test_words_tell_where_a_file_lies() -> None:
    assert file_search.named(mount("/"), f"/var/spool/cron/crontabs/{LOGIN}").startswith("crontab ")
    assert file_search.named(mount("/"), "/var/spool/cron/atjobs/a0001").startswith("at job ")
    assert file_search.named(mount("/dev/mqueue", kind="mqueue"), "/dev/mqueue/x") == "mqueue /x"


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """Ignores what it can, and is root by its real uid alone."""
    code = (
        "import os, signal, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        f"os.setresuid(0, {UID}, 0); print(flush=True); signal.pause()"
    )
    with subprocess.Popen(["/usr/bin/python3", "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


@with_others
def test_a_process_is_seen_by_any_of_its_uids_and_ended(sleeper: subprocess.Popen[bytes]) -> None:
    assert processes.running("/", UID) == {sleeper.pid: ANY}
    dry = Tree(os.open("/", os.O_RDONLY), dry=True)
    processes.end_all(dry, UID)
    assert dry.changed and sleeper.poll() is None
    processes.end_all(Tree(os.open("/", os.O_RDONLY), dry=False), UID)
    assert sleeper.wait(5) == -9
    assert processes.running("/", UID) == {}


@with_others
def test_a_first_thread_that_has_ended_does_not_hide_the_others() -> None:
    code = (
        f"import ctypes, os, threading, time; os.setuid({UID});"
        "threading.Thread(target=time.sleep, args=(60,)).start(); print(flush=True);"
        "ctypes.CDLL(None).pthread_exit(None)"
    )
    with subprocess.Popen(["/usr/bin/python3", "-c", code], stdout=subprocess.PIPE) as process:
        try:
            until = time.monotonic() + 5
            while "Z" not in state_of(process.pid) and time.monotonic() < until:
                time.sleep(0.02)
            assert processes.running("/", UID) == {process.pid: ANY}
        finally:
            process.kill()
    assert processes.running("/", UID) == {}


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@with_others
def test_what_keeps_coming_back_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "PATIENCE_SECONDS", 0.3)
    script = f"while :; do setpriv --reuid={UID} --clear-groups sleep 60; done"
    with subprocess.Popen(["bash", "-c", script], stderr=subprocess.DEVNULL) as loop:
        until = time.monotonic() + 5
        while not processes.running("/", UID) and time.monotonic() < until:
            time.sleep(0.02)
        try:
            with pytest.raises(Refusal, match=r"still there after being ended: .* (sleep|setpriv)"):
                processes.end_all(Tree(os.open("/", os.O_RDONLY), dry=False), UID)
        finally:
            loop.kill()
    processes.end_all(Tree(os.open("/", os.O_RDONLY), dry=False), UID)


@with_others
def test_objects_of_a_uid_are_found_and_removed() -> None:
    code = (
        f"import os; os.setuid({UID}); import ctypes; c = ctypes.CDLL(None);"
        "print(c.shmget(0, 4096, 0o1600), c.msgget(0, 0o1600), c.semget(0, 1, 0o1600))"
    )
    made = subprocess.run(
        ["/usr/bin/python3", "-c", code], capture_output=True, text=True, check=True
    )
    ids = made.stdout.split()
    found = [(kind, id) for kind, id, _ in ipc.system_v("/", UID)]
    assert found == list(zip(("shm", "msg", "sem"), ids, strict=True))
    Path("/dev/shm/gpuaas-test").touch()
    os.chown("/dev/shm/gpuaas-test", UID, UID)
    ipc.remove_all(Tree(os.open("/", os.O_RDONLY), dry=False), UID)
    assert list(ipc.system_v("/", UID)) == []
    assert not os.path.exists("/dev/shm/gpuaas-test")


def test_accounts_are_read_as_the_host_reads_them(probes: Probes) -> None:
    accounts = Accounts(probes.root)
    assert [user.login for user in accounts.users] == [
        "root",
        "ana",
        "gpuaas-probe",
        LOGIN,
        OTHER,
    ]


def test_what_a_session_says_of_itself_is_no_session(tmp_path: Path) -> None:
    """Its owner names its display, with line breaks in it, after all that logind knows of it."""
    place = tmp_path / "run/systemd/sessions"
    place.mkdir(parents=True)
    (place / "7").write_text(
        "UID=20002\nUSER=bo\nCLASS=user\nSCOPE=session-7.scope\nDISPLAY=:0\n"
        "USER=ana\nUID=20001\nCLASS=background\nSCOPE=../user-20001.slice\n"
    )
    ((_, told),) = sessions.told_sessions(str(tmp_path))
    assert (told["USER"], told["UID"], told["CLASS"]) == ("bo", "20002", "user")
    assert told["SCOPE"] == "session-7.scope"


@pytest.mark.parametrize(
    "named", ["../../system.slice", "session-7.scope/..", "", "user@1.service"]
)
def test_no_scope_but_its_own_is_killed(named: str) -> None:
    assert sessions._scope("7", {"SCOPE": named}) == "session-7.scope"


@pytest.mark.parametrize(
    ("owner", "maker", "whose"),
    [(20001, 20001, 20001), (20001, 20002, 20002), (20001, 0, 20001), (20001, 20002 << 16, 20002)],
)
def test_what_a_tenant_made_is_his_whoever_he_gives_it_to(
    tmp_path: Path, owner: int, maker: int, whose: int
) -> None:
    place = tmp_path / "proc/sysvipc"
    place.mkdir(parents=True)
    for kind, key, _ in ipc.SYSTEM_V:
        (place / kind).write_text(f"key {key} uid cuid\n0 5 {owner} {maker}\n")
    for uid in (20001, 20002):
        assert bool(list(ipc.system_v(str(tmp_path), uid))) is (uid == whose)


def test_a_socket_that_nobody_has_any_more_is_nobodys(tmp_path: Path) -> None:
    place = tmp_path / "proc/net"
    place.mkdir(parents=True)
    row = " 0: 0100007F:0016 0100007F:1234 04 0:0 00:0 0 {} 0 {} 1 0 20 4 30 10 -1\n"
    (place / "tcp").write_text("head\n" + row.format(20001, 0) + row.format(20002, 77))
    assert [uid for uid, _ in residue.sockets(Probes(str(tmp_path)))] == [20002]
