"""Allocation on a node of accounts: what it is given there, and what must be gone afterwards."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from ipaddress import ip_address, ip_network
from itertools import pairwise
from typing import Any

import pytest
from gpuaas import paths

from reconciler.kinds.allocation import allocation as kind
from reconciler.kinds.contract import Binding, Context
from reconciler.model.canonical import canonical
from reconciler.model.codec import encode
from reconciler.model.host.posix import LAST_UID, inside, loopback_of
from reconciler.model.ref import Ref
from tests.kinds.allocation.test_allocation import (
    DESCRIPTOR,
    ENVIRONMENT,
    HOME,
    ID,
    KEYS,
    LOGIN,
    MARK,
    SCRATCH,
    binding,
    context,
    files,
    train,
)
from tests.planner import fleet
from tests.planner.fleet import allocation, base_fleet, desired

UID, GID = 20000, 20100
GIB = 1024**3
SLICE = f"/etc/systemd/system/user-{UID}.slice.d/60-gpuaas.conf"
MANAGER = f"/etc/systemd/system/user@{UID}.service.d/60-gpuaas.conf"
MOUNT = "/etc/systemd/system/var-lib-gpuaas-instances-shm-train\\x2dabcd.mount"
DEVICES = f"/etc/gpuaas/devices/{UID}.json"
LOOPBACK = f"/etc/gpuaas/loopback/{UID}.nft"
SESSION = f"/var/lib/gpuaas/instances/session/{LOGIN}"


def tenant(**changes: Any) -> tuple[Binding, Context]:
    bound, around = train()
    return replace(bound, **{"uid": UID, "gid": GID, **changes}), around


def texts() -> dict[str, str]:
    return files(kind.steps(*tenant()))


def test_it_has_an_account_with_the_numbers_it_was_given() -> None:
    provide, _, sync = kind.steps(*tenant())
    assert encode(provide.item.account) == {
        "uid": UID,
        "gid": GID,
        "group": f"p-vision-{GID}",
        "gecos": f"gpuaas {ID}",
        "shmBytes": 64 * GIB,
        "subids": 0,
        "slots": 2,
        "nodeSlots": 8,
    }
    assert encode(provide.item.directories) == [
        {"path": HOME, "mode": "0700", "uid": UID, "gid": GID},
        {"path": SCRATCH, "mode": "0700", "uid": UID, "gid": GID},
        {"path": SESSION, "mode": "0755", "uid": 0, "gid": 0},
    ]
    assert sync.item.uid == UID
    assert next(iter(texts())) == DESCRIPTOR, "whatever else stands there, it says whose it is"


def test_what_it_must_show_is_in_force_and_not_only_written() -> None:
    """Rule 1: the slots' GPUs by UUID, their CPUs together, their NUMA nodes, their memory."""
    facts = kind.expected(*tenant())
    named = {key: fact for key, fact in facts.items() if not key.startswith("/")}
    assert named == {
        f"account {LOGIN}": f"uid={UID} gid={GID} group=p-vision-{GID} groups=gpuaas-tenants"
        f" home={HOME} shell=/bin/bash password=locked",
        f"slice {LOGIN}": "policy=closed devices=GPU-gpu01-1,GPU-gpu01-2 cpus=8-23 mems=0"
        f" memory={128 * GIB} swap=0 tasks=16384",
        f"cron {LOGIN}": "denied",
        f"at {LOGIN}": "denied",
        f"shm {LOGIN}": f"tmpfs {64 * GIB}",
        f"loopback {LOGIN}": f"127.77.78.32 of uid {UID},"
        " 127.77.78.32 of uid 1310720000-1310785535",
        f"subids {LOGIN}": None,
        f"quota {LOGIN}": "2 of 8",
        f"login {LOGIN}": "admitted",
    }
    assert (facts[HOME], facts[SCRATCH]) == (f"dir 0700 {UID}:{GID}",) * 2
    assert facts[SESSION] == "dir 0755"
    for path in (KEYS, ENVIRONMENT):
        mode, owner = "file 0640 ", f" 0:{GID}"
        assert str(facts[path]).startswith(mode) and str(facts[path]).endswith(owner), path
    written = {path.replace("\\", "\\\\") for path in texts()}
    mount = MOUNT.replace("\\", "\\\\")
    link = mount.replace("/system/", "/system/local-fs.target.wants/")
    assert set(facts) - set(named) == {HOME, SCRATCH, SESSION, link, *written}
    assert facts[link] == f"link {mount}", "without it nothing is mounted at the next boot"


def test_limits_are_those_of_all_its_slots() -> None:
    """Slots on two NUMA nodes: both, and all of their CPUs and memory."""
    bound, around = tenant()
    place = replace(bound.placement, slots=("s3", "s4", "s7"))
    provide, *_ = kind.steps(replace(bound, placement=place), around)
    assert f"cpus=24-39,56-63 mems=0-1 memory={192 * GIB}" in str(
        provide.expected[f"slice {LOGIN}"]
    )
    text = files([provide])[SLICE]
    lines = set(text.splitlines())
    assert {
        "DevicePolicy=closed",
        "AllowedCPUs=24-39,56-63",
        "AllowedMemoryNodes=0-1",
        f"MemoryMax={192 * GIB}",
        "MemorySwapMax=0",
        "TasksMax=16384",
        "IOWeight=100",
    } <= lines
    assert "nvidia" not in text, "which nodes are its own is worked out at every boot"


def test_what_a_user_manager_starts_is_confined_too() -> None:
    text = texts()[MANAGER]
    for line in ("ProtectProc=invisible", "UMask=0077", "LimitMEMLOCK=infinity", "LimitCORE=0"):
        assert line in text.splitlines()


def test_shared_memory_is_half_of_its_memory_and_its_own() -> None:
    lines = texts()[MOUNT].splitlines()
    assert f"Where=/var/lib/gpuaas/instances/shm/{LOGIN}" in lines
    assert f"Options=mode=1777,nosuid,nodev,size={64 * GIB}" in lines


def test_devices_are_told_by_uuid() -> None:
    assert json.loads(texts()[DEVICES]) == {
        "id": ID,
        "login": LOGIN,
        "uuids": ["GPU-gpu01-1", "GPU-gpu01-2"],
    }


def test_its_address_on_the_loopback_follows_from_its_uid() -> None:
    """Rule 22: one that nobody else reaches, with all numbers of its own closed to the same."""
    lines = texts()[LOOPBACK].splitlines()
    inside_of = f'127.77.78.32 . 1310720000-1310785535 comment "{LOGIN}"'
    assert lines[3:] == [
        f'add element inet gpuaas own {{ 127.77.78.32 . {UID} comment "{LOGIN}", {inside_of} }}',
        f"add rule inet gpuaas out meta skuid {{ {UID}, 1310720000-1310785535 }} jump closed",
    ]
    addresses = {loopback_of(uid) for uid in range(1000, LAST_UID + 1)}
    assert len(addresses) == LAST_UID - 999
    assert all(ip_address(one) in ip_network("127.77.0.0/16") for one in addresses)
    assert "GPUAAS_LOOPBACK=127.77.78.32" in texts()[ENVIRONMENT].splitlines()


def test_numbers_inside_of_containers_are_nobody_elses() -> None:
    """ACC-11: they follow from the uid, which is given once; none is left without containers."""
    bound, around = tenant()
    rootless = fleet.resource(fleet.policy(containers="rootless"))
    resources = {**around.desired.resources, rootless.ref: rootless}
    of = replace(around, desired=replace(around.desired, resources=resources))
    provide, *_ = kind.steps(bound, of)
    assert provide.item.account.subids == 1310720000
    assert provide.expected[f"subids {LOGIN}"] == "uid=1310720000+65536 gid=1310720000+65536"
    assert canonical(kind.basis(bound, of)) != canonical(kind.basis(*tenant()))
    ranges = [inside(uid) for uid in range(1000, LAST_UID + 1)]
    assert all(last < first for (_, last), (first, _) in pairwise(ranges))
    assert ranges[0][0] > LAST_UID and ranges[-1][1] < 2**32 - 2
    assert {paths.holder(number) for number in (*inside(UID), UID)} == {UID}
    assert paths.inside(UID) == inside(UID)
    assert (paths.holder(0), paths.holder(65534), paths.holder(100000)) == (0, 65534, 100000)


def test_its_session_has_the_environment_that_others_can_read() -> None:
    """Rule 22: the allocation, its project, its end, and its GPUs by UUID."""
    text = texts()[f"{SESSION}/env"]
    assert text == texts()[ENVIRONMENT]
    for line in (
        "GPUAAS_ALLOCATION=train",
        "GPUAAS_PROJECT=vision",
        "GPUAAS_EXPIRES=2126-11-07T12:00:00Z",
        "CUDA_VISIBLE_DEVICES=GPU-gpu01-1,GPU-gpu01-2",
    ):
        assert line in text.splitlines()


def leaving(bound: Binding) -> Binding:
    return replace(bound, resource=None)


def test_after_its_release_nothing_of_it_may_be_left() -> None:
    """ACC-11: account, slice, lists, shared memory, lingering, and every path of its own."""
    bound, around = tenant()
    sync, release = kind.steps(leaving(bound), around)
    assert (sync.item.uid, release.item.uid, release.item.gid) == (UID, UID, GID)
    assert set(sync.expected.values()) | set(release.expected.values()) == {None}
    words = ("account", "slice", "cron", "at", "shm", "loopback", "subids", "quota", "linger")
    assert {f"{word} {LOGIN}" for word in words} <= set(release.expected)
    assert release.item.absent[-1] == DESCRIPTOR
    gone = {*sync.expected, *release.expected}
    for path in (*kind.expected(bound, around), f"/run/systemd/system/user-{UID}.slice.d"):
        folders = {path.rpartition("/")[0], path.rpartition("/")[0].rpartition("/")[0]}
        assert gone & {path, *folders} or path == f"login {LOGIN}", path
    for place in ("tmp", "var-tmp", "shm", "session"):
        assert f"/var/lib/gpuaas/instances/{place}/{LOGIN}" in gone


def test_without_an_account_there_is_none_of_it() -> None:
    steps = [*kind.steps(*train()), *kind.steps(binding(None), train()[1])]
    assert all(key.startswith("/") for step in steps for key in step.expected)
    assert {step.item.account_uid for step in steps} == {0}
    places = {HOME, SCRATCH, DESCRIPTOR, ENVIRONMENT, MARK, KEYS}
    assert {key for step in steps for key in step.expected} == places


def test_the_basis_changes_with_its_numbers_and_limits_and_templates() -> None:
    bound, around = tenant()
    before = canonical(kind.basis(bound, around))
    assert before != canonical(kind.basis(replace(bound, uid=UID + 1), around))
    assert before != canonical(kind.basis(*train()))
    slots = [fleet.slot("gpu01", number, memoryGiB=65) for number in range(8)]
    more = fleet.resource(fleet.node("gpu01", slots))
    of = replace(around.desired, resources={**around.desired.resources, more.ref: more})
    assert before != canonical(kind.basis(bound, context(of)))
    digests = {**around.template_digests, "allocation/slice.conf.j2": "sha256:new"}
    changed = replace(around, template_digests=digests)
    assert before != canonical(kind.basis(bound, changed))
    assert kind.basis(*train()) == kind.basis(train()[0], changed)


def test_groups_have_names_that_every_tool_takes() -> None:
    """At most 32 characters, however long the project is called."""
    name = "a-project-with-a-very-long-name"
    of = desired(
        [
            *base_fleet(),
            fleet.project(name, "ana"),
            allocation("train", "slice-2", project=name),
        ]
    )
    ref = Ref("allocation", name, "train")
    bound = replace(binding(of.resources[ref]), ref=ref, uid=UID, gid=59999)
    group = kind.steps(bound, context(of))[0].item.account.group
    assert group == "p-a-project-with-a-ver-59999"
    assert len(group) <= 32


@pytest.mark.parametrize("path", [SLICE, MANAGER, MOUNT])
def test_units_are_sound(path: str, tmp_path: Any) -> None:
    """As systemd itself judges them, where there is one to ask."""
    name = path.rpartition("/")[2] if path == MOUNT else path.split("/")[-2].removesuffix(".d")
    unit = tmp_path / name
    text = texts()[path]
    extra = "" if path != MANAGER else "ExecStart=/bin/true\n"
    unit.write_text(text + extra)
    try:
        told = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", "--generators=no", str(unit)],
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        pytest.skip("no systemd-analyze here")
    complaints = [line for line in told.stderr.splitlines() if str(unit) in line or name in line]
    assert complaints == []
