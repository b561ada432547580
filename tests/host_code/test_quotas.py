"""Shares of disks: put in force by project and uid where that can be, lifted, and read back."""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from gpuaas import (
    account,
    platform_state,
    projects,
    provide,
    quota_facts,
    quota_shares,
    quotactl,
    quotas,
    release,
    wipe,
)
from gpuaas.mounts import Mount
from gpuaas.paths import UIDS, Refusal, Tree
from gpuaas.probes import Probes
from gpuaas.quota_shares import Share
from gpuaas.quotactl import NO_LIMITS, PROJECT, USER, Limits

from tests.harness.directory_host import HOME, ID, LOGIN, RELEASE, SCRATCH, provide_item
from tests.host_code import volume_host as volumes
from tests.host_code.quota_kernel import BLOCK, Kernel

UID, OTHER = 20000, 20001
RECORD = f"etc/gpuaas/quotas/{UID}.json"
SHARE = Limits(kib=4_000_000 * 9 * 2 // 80 // 64 * 64, files=80_000 * 9 * 2 // 80)
PLACES = (
    HOME[1:],
    SCRATCH[1:],
    *(f"var/lib/gpuaas/instances/{one}/{LOGIN}" for one in ("tmp", "var-tmp")),
)
PASSWD = "root:x:0:0:root:/root:/bin/bash\n{login}:x:{uid}:{uid}:gpuaas {id}:{home}:/bin/bash\n"


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    """A host with one tenant, whose home holds what it made before anybody counted."""
    for folder in ("etc/gpuaas", HOME[1:] + "/old/deep", SCRATCH[1:], "mnt/bound"):
        (tmp_path / folder).mkdir(parents=True)
    for place in ("tmp", "var-tmp"):
        (tmp_path / "var/lib/gpuaas/instances" / place).mkdir(parents=True)
    home = tmp_path / HOME[1:]
    (home / "old/deep/file").write_text("x")
    (home / "link").symlink_to("old")
    os.mkfifo(home / "pipe")
    passwd = PASSWD.format(login=LOGIN, uid=UID, id=ID, home=HOME)
    (tmp_path / "etc/passwd").write_text(passwd)
    (tmp_path / "etc/group").write_text("gpuaas-tenants:x:990:\n")
    (tmp_path / "etc/shadow").write_text("")
    made = Kernel(tmp_path)
    made.stand_in(monkeypatch)
    return made


@contextmanager
def tree(kernel: Kernel, dry: bool = False) -> Iterator[Tree]:
    root = os.open(kernel.root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield Tree(root, dry)
    finally:
        os.close(root)


def done(kernel: Kernel, deed: Callable[..., None], *words: Any, dry: bool = False) -> bool:
    with tree(kernel, dry) as root:
        deed(root, *words)
        return root.changed


def share(slots: int = 2, of: int = 8) -> Share:
    return Share(ID, LOGIN, UID, slots, of, {}, {})


def put(kernel: Kernel, slots: int = 2, of: int = 8, dry: bool = False) -> bool:
    return done(kernel, quotas.put, share(slots, of), dry=dry)


def fact(kernel: Kernel) -> str | None:
    return quota_facts.read_quotas(Probes(str(kernel.root))).get(LOGIN)


def record(kernel: Kernel) -> dict[str, Any]:
    told = json.loads((kernel.root / RECORD).read_text())
    assert isinstance(told, dict)
    return told


def number(kernel: Kernel) -> int:
    """Of the tenant's project."""
    return int(record(kernel)["project"])


def enforced(kernel: Kernel) -> str:
    told = quota_facts.read_enforcement(Probes(str(kernel.root)))
    return told.replace(str(kernel.root), "/")


# How much.


def test_all_shares_of_a_node_leave_root_a_tenth(kernel: Kernel) -> None:
    """However the slots are given out, in whole grains that no file system rounds."""
    folder = str(kernel.root)
    size = kernel.blocks * BLOCK
    for parts in ([1] * 7, [3, 2, 2], [5, 1, 1]):
        rooms = [share(slots, 7).room_in(folder, None).limits for slots in parts]
        assert sum(one.kib * 1024 for one in rooms) <= size * 9 // 10
        assert sum(one.files for one in rooms) <= kernel.files * 9 // 10
        assert all(one.kib % 64 == 0 and one.kib > 0 < one.files for one in rooms)
    assert share(8, 8).room_in(folder, None).limits == NO_LIMITS, "a whole host is one's own"
    kernel.blocks, kernel.files = 1, 0
    assert share(1, 8).room_in(folder, None).limits == Limits(64, 0), "0 would be without an end"


def test_a_share_stays_until_slots_or_the_size_are_others(kernel: Kernel) -> None:
    """Some file systems say how many files they could hold by how much is free."""
    put(kernel)
    kernel.files = 10
    assert not put(kernel)
    assert kernel.limits[PROJECT, number(kernel)] == SHARE
    kernel.files, kernel.blocks = 80_000, 2_000_000
    assert put(kernel)
    assert kernel.limits[PROJECT, number(kernel)] == Limits(1_800_000, SHARE.files)
    assert put(kernel, slots=4)
    assert kernel.limits[PROJECT, number(kernel)] == Limits(3_600_000, 2 * SHARE.files)
    assert put(kernel, slots=8) and kernel.limits[PROJECT, number(kernel)] == NO_LIMITS
    assert fact(kernel) == "8 of 8"


@pytest.mark.parametrize(("slots", "of"), [(0, 8), (9, 8), (-1, 8)])
def test_no_share_is_refused(slots: int, of: int) -> None:
    item = {"id": ID, "login": LOGIN, "account": {"uid": UID, "slots": slots, "nodeSlots": of}}
    with pytest.raises(Refusal) as refused:
        quota_shares.share_of(item)
    assert refused.value.code == "item_invalid"


# In force.


def test_it_is_in_force_by_project_and_by_uid_and_all_that_was_there_is_counted(
    kernel: Kernel,
) -> None:
    assert fact(kernel) is None
    assert enforced(kernel) == f"in part: ext4 at / by project and uid, not yet of {LOGIN}"
    assert put(kernel)
    assert kernel.limits == {(PROJECT, number(kernel)): SHARE, (USER, UID): SHARE}
    assert (fact(kernel), enforced(kernel)) == ("2 of 8", "of each tenant")
    for place in (*PLACES, f"{HOME[1:]}/old", f"{HOME[1:]}/old/deep"):
        assert kernel.project(place) == (number(kernel), True), place
    assert kernel.project(f"{HOME[1:]}/old/deep/file") == (number(kernel), False)
    assert not any(path.endswith("pipe") for path in kernel.given)
    at_home = [path for path in kernel.given if path.startswith(f"{kernel.root}{HOME}")]
    assert at_home[-1] == f"{kernel.root}{HOME}", "a broken-off one is taken up again"
    for place in ("tmp", "var-tmp"):
        made = kernel.root / "var/lib/gpuaas/instances" / place / LOGIN
        assert made.stat().st_mode & 0o7777 == 0o1777, "as the first session would make it"
    assert (kernel.root / RECORD).stat().st_mode & 0o777 == 0o600
    assert (kernel.root / RECORD).parent.stat().st_mode & 0o777 == 0o700
    sets, given = kernel.sets, len(kernel.given)
    assert not put(kernel) and not put(kernel, dry=True)
    assert (kernel.sets, len(kernel.given)) == (sets, given)


def test_a_dry_run_says_so_and_touches_nothing(kernel: Kernel) -> None:
    assert put(kernel, dry=True)
    assert (kernel.limits, kernel.given) == ({}, [])
    assert not (kernel.root / RECORD).parent.exists()
    assert not os.listdir(kernel.root / "var/lib/gpuaas/instances/tmp")


def test_by_project_alone_it_stops_nobody_who_wants_to_escape(kernel: Kernel) -> None:
    kernel.enforced = frozenset({PROJECT})
    assert put(kernel) and not put(kernel)
    assert kernel.limits == {(PROJECT, number(kernel)): SHARE}
    alone = "in part: ext4 at / by project alone, which owners of files can change"
    assert (fact(kernel), enforced(kernel)) == ("2 of 8", alone)


def test_a_file_system_that_hoards_records_of_numbers_is_told_of(kernel: Kernel) -> None:
    """A tenant fills it by `chattr -p` alone, and no limit is met."""
    kernel.kind = "xfs"
    put(kernel)
    told = "in part: xfs at / by project and uid, but not what it keeps of numbers (chattr -p)"
    assert (fact(kernel), enforced(kernel)) == ("2 of 8", told)


def test_numbers_inside_of_containers_are_told_of(kernel: Kernel) -> None:
    """Nobody counts them once their project is another: they are no uid of the tenant's."""
    put(kernel)
    (kernel.root / "etc/subuid").write_text(f"{LOGIN}:1310720000:65536\n")
    told = "in part: ext4 at / by project and uid, numbers inside of containers by neither"
    assert enforced(kernel) == told


@pytest.mark.parametrize("options", [("rw",), ("rw", "usrquota")])
def test_a_file_system_that_counts_no_projects_is_left_alone_and_told(
    kernel: Kernel, options: tuple[str, ...]
) -> None:
    """Neither drift nor a failure, and none of the two calls."""
    kernel.options = options
    kernel.fails = dict.fromkeys((quotactl.STATE, quotactl.GET, quotactl.SET), errno.EIO)
    assert put(kernel) and not put(kernel)
    assert (kernel.limits, kernel.given) == ({}, [])
    assert not os.listdir(kernel.root / "var/lib/gpuaas/instances/tmp")
    assert (fact(kernel), enforced(kernel)) == ("2 of 8", "none: ext4 at /")
    kernel.options, kernel.fails = ("rw", "prjquota"), {}
    told = f"2 of 8, but nothing yet at {kernel.root}"
    assert fact(kernel) == told, "it was mounted otherwise since"
    assert put(kernel) and fact(kernel) == "2 of 8"


def test_counting_alone_is_no_bound(kernel: Kernel) -> None:
    kernel.enforced = frozenset()
    put(kernel)
    assert kernel.limits == {}
    told = "none: ext4 at / (it counts and bounds nobody)"
    assert (fact(kernel), enforced(kernel)) == ("2 of 8", told)


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSYS, errno.EPERM])
@pytest.mark.parametrize("what", [quotactl.STATE, quotactl.GET, quotactl.SET])
def test_a_kernel_that_refuses_keeps_nobody_out_and_is_told_of(
    kernel: Kernel, what: int, number: int
) -> None:
    kernel.fails = {what: number}
    put(kernel)
    assert not put(kernel), "nothing differs that could be put right"
    assert kernel.limits == {}
    assert fact(kernel) == "2 of 8"
    assert os.strerror(number) in enforced(kernel)
    assert enforced(kernel).startswith("none" if what == quotactl.STATE else "in part")
    kernel.fails = {}
    assert put(kernel)
    assert (fact(kernel), enforced(kernel)) == ("2 of 8", "of each tenant")


def test_a_file_system_without_projects_at_all(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*words: object) -> bytes:
        raise OSError(errno.ENOTTY, os.strerror(errno.ENOTTY))

    monkeypatch.setattr(projects, "ioctl", refuses)
    put(kernel)
    assert fact(kernel) == "2 of 8"
    assert os.strerror(errno.ENOTTY) in enforced(kernel)


# The number by which a tenant is counted.


@pytest.mark.parametrize("known", ["70000", None, [], 70000.5, {}])
def test_a_number_that_is_none_is_found_out_at_once(kernel: Kernel, known: object) -> None:
    put(kernel)
    (kernel.root / RECORD).write_text(json.dumps({**record(kernel), "project": known}))
    assert fact(kernel) == "unreadable"
    assert put(kernel) and fact(kernel) == "2 of 8"


def test_nobody_can_tell_by_which_number_a_tenant_is_counted(kernel: Kernel) -> None:
    """Who could, would have files of its own count against a neighbour: not by its uid, nor by what
    is told of the host, the digest of its record included.
    """
    put(kernel)
    assert number(kernel) in quota_shares.PROJECTS and number(kernel) not in UIDS
    assert re.fullmatch(r"[0-9a-f]{32}", record(kernel)["salt"])
    probes = Probes(str(kernel.root))
    told = [quota_facts.read_quotas(probes), quota_facts.read_enforcement(probes)]
    paths = platform_state.read_paths(probes)
    assert paths[f"/{RECORD}"].startswith("file 0600 sha256:")
    assert str(number(kernel)) not in json.dumps([told, paths])
    readable = [
        path for path in kernel.root.rglob("*") if path.is_file() and path.stat().st_mode & 4
    ]
    assert readable and not any(str(number(kernel)) in path.read_text() for path in readable)


def test_a_number_is_that_of_no_other_and_none_of_the_hosts_own(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(kernel)
    other = kernel.root / f"etc/gpuaas/quotas/{OTHER}.json"
    other.write_text(json.dumps({**record(kernel), "uid": OTHER}))
    numbers = iter([0, 1, 2 * UID, number(kernel) * 2 + 1, 2 * 77_777_777])
    monkeypatch.setattr(
        quotas.os, "urandom", lambda size: next(numbers, 7).to_bytes(size, "little")
    )
    kernel.limits[PROJECT, 0] = NO_LIMITS
    shared = number(kernel)
    assert put(kernel), "two of the same number, as of a copied file"
    assert number(kernel) == 77_777_777
    assert kernel.limits[PROJECT, shared] == SHARE, "which is the other's as well"
    assert (PROJECT, UID) not in kernel.limits


@pytest.mark.parametrize("known", [{}, {"project": UID}, {"project": 0}, {"project": -1}])
def test_who_was_counted_by_its_uid_gets_a_number_by_the_next_provide(
    kernel: Kernel, known: dict[str, int]
) -> None:
    """Neither is given to it by a look, or where storage comes or goes."""
    counted_by_its_uid(kernel, known)
    told = f"2 of 8, but counted at {kernel.root} by a number that others know"
    assert fact(kernel) == told
    assert not done(kernel, quotas.renew) and fact(kernel) == told
    assert put(kernel, dry=True) and kernel.limits[PROJECT, UID] == SHARE
    assert put(kernel) and not put(kernel)
    assert (fact(kernel), enforced(kernel)) == ("2 of 8", "of each tenant")
    assert number(kernel) in quota_shares.PROJECTS
    assert kernel.limits[PROJECT, UID] == NO_LIMITS
    assert kernel.limits[PROJECT, number(kernel)] == SHARE
    for path in (*PLACES, f"{HOME[1:]}/old/deep", f"{HOME[1:]}/old/deep/file"):
        assert kernel.project(path)[0] == number(kernel), path


def test_who_was_counted_by_its_uid_is_released_by_it(kernel: Kernel) -> None:
    counted_by_its_uid(kernel, {})
    assert done(kernel, quotas.lift, UID)
    assert kernel.limits == {(PROJECT, UID): NO_LIMITS, (USER, UID): NO_LIMITS}


def counted_by_its_uid(kernel: Kernel, known: dict[str, int]) -> None:
    put(kernel)
    told = {key: value for key, value in record(kernel).items() if key not in ("project", "salt")}
    kernel.limits[PROJECT, UID] = kernel.limits.pop((PROJECT, number(kernel)))
    kernel.attributes = {
        inode: (UID if project == number(kernel) else project, flags)
        for inode, (project, flags) in kernel.attributes.items()
    }
    (kernel.root / RECORD).write_text(json.dumps({**told, **known}))


def test_who_is_broken_off_goes_on_with_the_same_number(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is written before anything belongs to it, and so can be lifted."""

    def killed(*words: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quotas, "put_tree", killed)
        with pytest.raises(KeyboardInterrupt):
            put(kernel)
    first = number(kernel)
    assert fact(kernel) == f"2 of 8, but nothing yet at {kernel.root}"
    put(kernel)
    assert number(kernel) == first


def test_another_number_is_drawn_for_whoever_lost_its_record(kernel: Kernel) -> None:
    """So an operator has it drawn anew, where a neighbour has learnt it."""
    put(kernel)
    first = number(kernel)
    (kernel.root / RECORD).unlink()
    assert put(kernel) and number(kernel) != first
    assert kernel.project(f"{HOME[1:]}/old/deep/file") == (number(kernel), False)
    (kernel.root / RECORD).write_text(json.dumps({**record(kernel), "id": "bbbbbbbbbb"}))
    assert put(kernel) and number(kernel) != first, "it was another allocation's"


# Read back.


def away(kernel: Kernel) -> None:
    kernel.limits[PROJECT, number(kernel)] = NO_LIMITS


def away_by_uid(kernel: Kernel) -> None:
    del kernel.limits[USER, UID]


def lower(kernel: Kernel) -> None:
    kernel.limits[PROJECT, number(kernel)] = Limits(64, 5)


def uncounted(kernel: Kernel) -> None:
    del kernel.attributes[(kernel.root / SCRATCH[1:]).stat().st_ino]


def not_handed_on(kernel: Kernel) -> None:
    kernel.attributes[(kernel.root / HOME[1:]).stat().st_ino] = (number(kernel), 0x40)


def forgotten(kernel: Kernel) -> None:
    (kernel.root / RECORD).unlink()


def spoilt(kernel: Kernel) -> None:
    (kernel.root / RECORD).write_text("{]")


def of_another(kernel: Kernel) -> None:
    told = json.loads((kernel.root / RECORD).read_text())
    (kernel.root / RECORD).write_text(json.dumps({**told, "slots": 8}))


OF_SHARE = f"{SHARE.kib} KiB and {SHARE.files} files"


@pytest.mark.parametrize(
    ("deed", "told"),
    [
        (away, f"2 of 8, but no limit at / by project, not {OF_SHARE}"),
        (away_by_uid, f"2 of 8, but no limit at / by uid, not {OF_SHARE}"),
        (lower, f"2 of 8, but 64 KiB and 5 files at / by project, not {OF_SHARE}"),
        (uncounted, f"2 of 8, but {SCRATCH} is not counted"),
        (not_handed_on, f"2 of 8, but {HOME} is not counted"),
        (forgotten, None),
        (spoilt, "unreadable"),
        (of_another, "8 of 8"),
    ],
)
def test_what_somebody_has_changed_shows_and_is_put_right(
    kernel: Kernel, deed: Callable[[Kernel], None], told: str | None
) -> None:
    put(kernel)
    deed(kernel)
    shown = fact(kernel)
    assert (shown and shown.replace(str(kernel.root), "/")) == told
    assert put(kernel, dry=True) and put(kernel)
    assert (fact(kernel), enforced(kernel)) == ("2 of 8", "of each tenant")
    assert not put(kernel)


@pytest.mark.parametrize(
    "text",
    ["[]", "{}", '{"rooms": []}', '{"id": 1}', "null", '{"rooms": {"/": 1}, "failed": {}}'],
)
def test_a_record_of_any_other_form_is_unreadable(kernel: Kernel, text: str) -> None:
    put(kernel)
    (kernel.root / RECORD).write_text(text)
    assert fact(kernel) == "unreadable"
    assert enforced(kernel).endswith(f"not of {LOGIN}: unreadable")


@pytest.mark.parametrize("limit", [1 << 64, -1, float("inf"), "many", None])
def test_limits_that_no_kernel_takes_are_unreadable(kernel: Kernel, limit: object) -> None:
    """They would else be asked for wherever storage comes or goes."""
    put(kernel)
    rooms = {str(kernel.root): [kernel.blocks * BLOCK, [limit, 1]]}
    (kernel.root / RECORD).write_text(json.dumps({**record(kernel), "rooms": rooms}))
    assert not done(kernel, quotas.renew)
    assert fact(kernel) == "unreadable"
    assert put(kernel) and fact(kernel) == "2 of 8"


# Storage.


def test_data_of_storage_is_nobodys_share(kernel: Kernel) -> None:
    """By uid its owner would be held to it there as well."""
    put(kernel)
    record = kernel.root / "etc/gpuaas/volumes/vvvvvvvvvv.json"
    record.parent.mkdir()
    where = str(kernel.root / "srv")
    record.write_text(json.dumps({"backend": {"loop": {"path": where, "filesystem": "ext4"}}}))
    assert not done(kernel, quotas.renew), "what is in a disk of root's counts for nobody"
    record.write_text(json.dumps({"backend": {"directory": {"path": where, "shared": False}}}))
    assert "by uid" in str(fact(kernel))
    assert done(kernel, quotas.renew) and not done(kernel, quotas.renew)
    assert kernel.limits == {(PROJECT, number(kernel)): SHARE, (USER, UID): NO_LIMITS}
    alone = "by project alone, as storage lies on it, which owners of files can change"
    assert (fact(kernel), enforced(kernel)) == ("2 of 8", f"in part: ext4 at / {alone}")
    record.unlink()
    assert done(kernel, quotas.renew)
    assert (kernel.limits[USER, UID], enforced(kernel)) == (SHARE, "of each tenant")


def test_storage_that_comes_hides_nothing_that_is_wrong(kernel: Kernel) -> None:
    """Its record stays: a home that its owner took out is not `late` from then on."""
    put(kernel)
    not_handed_on(kernel)
    before = record(kernel)
    done(kernel, quotas.renew)
    assert (record(kernel), fact(kernel)) == (before, f"2 of 8, but {HOME} is not counted")
    kernel.fails = {quotactl.GET: errno.EIO}
    assert not done(kernel, quotas.renew), "what a kernel refuses holds up no storage"


def test_verbs_of_storage_look_at_shares_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once it is written down that the host has it, and once that is gone."""
    known: list[bool] = []
    root = volumes.host(tmp_path / "host")
    record = root / volumes.RECORD[1:]
    monkeypatch.setattr(quotas, "renew", lambda tree: known.append(record.exists()))
    volumes.attached(root, volumes.had())
    volumes.detached(root)
    volumes.wiped(root)
    assert known == [True, False]
    record.touch()
    volumes.forgotten(root)
    assert known == [True, False, False]


# Files that were there before.


def test_a_broken_off_walk_is_told_and_goes_on(kernel: Kernel) -> None:
    """What is done with all that it holds is not entered again."""
    for one in range(5):
        folder = kernel.root / HOME[1:] / f"many{one}"
        folder.mkdir()
        (folder / "file").touch()
    left = [4]

    def late() -> float:
        left[0] -= 1
        return 0.0 if left[0] > 0 else 1e9

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(projects.time, "monotonic", late)
        put(kernel)
    assert kernel.project(HOME[1:]) == (0, False)
    assert fact(kernel) == "2 of 8"
    assert f"not of {LOGIN}: {quotas.LATE}" in enforced(kernel)
    before = len(kernel.given)
    assert put(kernel)
    assert kernel.project(HOME[1:]) == (number(kernel), True)
    again = kernel.given[before:]
    assert len(set(again)) == len(again) and not set(again) & set(kernel.given[:before])
    assert enforced(kernel) == "of each tenant"


def test_many_files_in_one_place_keep_no_other_from_being_counted(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    done(kernel, quotas.put, share(), 0)
    assert kernel.project(HOME[1:]) == (0, False)
    for place in PLACES[1:]:
        assert kernel.project(place) == (number(kernel), True), place
    assert f"not of {LOGIN}: {quotas.LATE}" in enforced(kernel)


def test_a_file_of_somebody_elses_is_no_tenants_by_another_name(kernel: Kernel) -> None:
    """Where a host lets people link files of others, a tenant would else have root charge them."""
    foreign, mine = kernel.root / "etc/foreign", kernel.root / HOME[1:] / "mine"
    foreign.write_text("x")
    os.link(foreign, kernel.root / HOME[1:] / "linked")
    mine.write_text("x")
    put(kernel)
    assert kernel.project("etc/foreign") == (0, False)
    assert kernel.project(f"{HOME[1:]}/mine") == (number(kernel), False)
    os.link(mine, kernel.root / HOME[1:] / "again")
    with tree(kernel) as root:
        folder = os.open(f"{root.path}{HOME}", os.O_RDONLY)
        projects.put_tree(folder, projects.Owned(7, mine.stat().st_uid), 1e12)
        os.close(folder)
    assert kernel.project(f"{HOME[1:]}/mine") == (7, False), "its own, by however many names"


@pytest.mark.parametrize("name", ["link", "pipe", "gone", "old"])
def test_what_is_swapped_meanwhile_is_not_followed(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Each was a folder, or a file, when it was listed."""
    was_folder = name != "old"
    monkeypatch.setattr(projects, "_names", lambda folder, until: iter([(name, was_folder)]))
    with tree(kernel) as root:
        folder = os.open(f"{root.path}{HOME}", os.O_RDONLY)
        projects.put_tree(folder, projects.Owned(UID, UID), 1e12)
        os.close(folder)
    assert [path.rpartition("/")[2] for path in kernel.given] == [HOME.rpartition("/")[2]]


def test_nothing_is_entered_that_somebody_has_mounted_there(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = Mount(f"{HOME}/fuse", "0:99", "/", "fuse.x", ())
    monkeypatch.setattr(quotas, "mounts", lambda: [*kernel.mounts(), inner])
    put(kernel)
    home = f"{kernel.root}{HOME}"
    assert kernel.given and not any(one.startswith(home) for one in kernel.given)
    assert f"something is mounted at {HOME}/fuse" in enforced(kernel)


# Taken away.


def test_a_release_lifts_it_and_its_record_is_the_last_word(kernel: Kernel) -> None:
    put(kernel)
    kernel.limits[PROJECT, OTHER] = SHARE
    assert (
        done(kernel, quotas.lift, UID, dry=True) and kernel.limits[PROJECT, number(kernel)] == SHARE
    )
    assert done(kernel, quotas.lift, UID) and not done(kernel, quotas.lift, UID)
    assert kernel.limits == {
        (PROJECT, number(kernel)): NO_LIMITS,
        (USER, UID): NO_LIMITS,
        (PROJECT, OTHER): SHARE,
    }
    (kernel.root / RECORD).unlink()
    assert fact(kernel) is None


@pytest.mark.parametrize("text", ["{]", None])
def test_a_release_needs_no_record(kernel: Kernel, text: str | None) -> None:
    """Nobody has the number any more, nor gets it: by uid it is lifted all the same."""
    put(kernel)
    path = kernel.root / RECORD
    if text is None:
        path.unlink()
        path.parent.rmdir()
        path.parent.write_text("no folder")
    else:
        path.write_text(text)
    kernel.limits[PROJECT, UID] = SHARE
    assert done(kernel, quotas.lift, UID)
    assert (kernel.limits[USER, UID], kernel.limits[PROJECT, UID]) == (NO_LIMITS, SHARE)


def test_a_kernel_that_refuses_holds_up_no_release(kernel: Kernel) -> None:
    put(kernel)
    kernel.fails = {quotactl.SET: errno.EIO}
    assert not done(kernel, quotas.lift, UID)


def test_a_home_of_many_projects_is_removed(kernel: Kernel) -> None:
    """Nothing is moved into a folder that hands its project on unless it is of the same."""
    put(kernel)
    assert done(kernel, wipe.remove_folder, HOME)
    assert kernel.given[-1] == f"{kernel.root}{HOME}"
    assert not (kernel.root / HOME[1:]).exists()


# The verbs.


def test_verbs_put_it_in_force_before_the_account_and_lift_it(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    steps = {
        "wanted_of": lambda item: account.Wanted(LOGIN, UID, UID, "p", "g"),
        "check_free": lambda *words: None,
        "put_account": lambda *words: order.append("account"),
    }
    for name, deed in steps.items():
        monkeypatch.setattr(account, name, deed)
    for name in ("cron_deny", "subids"):
        for deed in ("deny", "forget", "check", "check_free", "put"):
            monkeypatch.setattr(getattr(provide, name), deed, lambda *words: None, raising=False)
    monkeypatch.setattr(provide, "confine", lambda *words: order.append("confined"))
    monkeypatch.setattr(quotas, "put", lambda tree, one: order.append(f"{one.slots}/{one.of}"))
    of = {"uid": UID, "shmBytes": 1, "subids": 0, "slots": 2, "nodeSlots": 8}
    item = {**provide_item(), "directories": [], "id": ID, "login": LOGIN, "account": of}
    done(kernel, provide.run, item, dry=True)
    assert order == ["2/8", "confined", "account"]


def test_a_release_asks_for_it(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    lifted: list[int] = []
    for name in ("check_ours", "end_everything", "unconfine", "take_up", "_remove_account"):
        monkeypatch.setattr(release, name, lambda *words: None)
    monkeypatch.setattr(release.network, "take_up", lambda *words: None)
    monkeypatch.setattr(release.quotas, "lift", lambda tree, uid: lifted.append(uid))
    put(kernel)
    absent = [*RELEASE["absent"], f"/{RECORD}"]
    done(kernel, release.run, {"id": ID, "login": LOGIN, "uid": UID, "gid": UID, "absent": absent})
    assert lifted == [UID]
    assert not (kernel.root / RECORD).exists()


# The kernel itself.


def test_the_kernel_knows_these_calls() -> None:
    """That it is no block device is said by the call that was meant."""
    with pytest.raises(OSError) as refused:
        quotactl.enforced("/dev/null")
    assert refused.value.errno in (errno.ENOTBLK, errno.ENOSYS)


def test_a_device_is_one_by_its_number(tmp_path: Path) -> None:
    """Whatever is said to be mounted; the root may be said to be of no device that there is."""
    for source in ("/dev/root", "/dev/null", str(tmp_path), "none"):
        with pytest.raises(OSError) as refused:
            quotactl.device_of(Mount("/", "0:4242", "/", "ext4", (), source=source))
        assert refused.value.errno == errno.ENOTBLK
