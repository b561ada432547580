"""Whose a path or a named fact on a host is, by its name alone."""

from __future__ import annotations

import pytest

from reconciler.kinds.allocation.account import Account, files, left_paths
from reconciler.kinds.allocation.places import Known, strange_facts, strange_paths, unlisted
from reconciler.kinds.contract import Binding
from reconciler.kinds.node.host import FILES, FOLDERS
from reconciler.model.host.capacity import Placement, Shape
from reconciler.model.ref import Ref

FIRST_UID = 20000
ANA = Known(
    ids=frozenset({"aaaabbbbcc"}), logins=frozenset({"train-aaaa"}), uids=frozenset({20001})
)
NOBODY = Known()
BINDING = Binding(
    ref=Ref("allocation", "vision", "train"),
    id="aaaabbbbcc",
    login="train-aaaa",
    placement=Placement(node="gpu01", slots=("s0",), shape=Shape.GPU_SLICE),
    resource=None,
    recorded=None,
    uid=20001,
    gid=20001,
)
OWN = (
    "/home/train-aaaa",
    "/var/lib/gpuaas/scratch/aaaabbbbcc",
    "/etc/gpuaas/allocations/aaaabbbbcc.json",
    "/etc/gpuaas/runtime/allocations/aaaabbbbcc.env",
    "/etc/gpuaas/runtime/allocations/aaaabbbbcc.restart",
    "/etc/gpuaas/ssh/train-aaaa",
    *left_paths(BINDING),
)


def strange(*paths: str, known: Known = NOBODY, fact: str = "dir 0700 20001:20001") -> list[str]:
    told = {path.replace("\\", "\\\\"): fact for path in paths}
    return [path.replace("\\\\", "\\") for path in strange_paths(told, known, FIRST_UID)]


def test_every_place_of_an_allocation_is_known_by_its_name() -> None:
    """F-PLC-05: what is made for one and not looked for here would be found by nobody."""
    places = [path for path in OWN if not path.endswith("/env")]
    assert sorted(strange(*places)) == sorted(places)
    assert strange(*places, known=ANA) == []


def test_what_is_made_of_files_lies_in_these_places() -> None:
    account = Account(
        login="train-aaaa",
        uid=20001,
        gid=20001,
        group="p-vision-20001",
        gpus=(),
        cpus="",
        mems="",
        memory_bytes=0,
        slots=0,
        node_slots=0,
    )
    for path in files(account, {}, lambda name, values: ""):
        below = [path.rsplit("/", cut)[0] for cut in range(3)]
        assert strange(*below), path


def test_the_platforms_own_files_are_nobodys() -> None:
    """A host that was only prepared is clean."""
    slices = [f"/etc/systemd/system/user-{uid}.slice.d" for uid in (0, 1000)]
    own = [*FILES, *FOLDERS, *slices, "/etc/gpuaas/ssh"]
    assert strange(*own, fact="file 0644 sha256:0") == []


@pytest.mark.parametrize(
    ("path", "fact", "found"),
    [
        ("/home/olga", "dir 0700 1000:1000", False),
        ("/home/anna-lena", "dir 0700 1001:1001", False),
        ("/home/train-zzzz", "dir 0700 20009:20001", True),
        ("/home/train-zzzz", "dir 0700", True),
        ("/etc/gpuaas/ssh/olga", "file 0644 sha256:0", True),
    ],
)
def test_people_of_a_host_have_homes_too(path: str, fact: str, found: bool) -> None:
    assert strange(path, fact=fact, known=ANA) == [path] * found


def test_named_facts_are_of_tenants_and_told_in_full() -> None:
    """F-ANS-03: a word that was not listed says nothing about who is not there."""
    words = ("account", "slice", "cron", "at", "shm", "loopback", "linger")
    listed = {f"{word} *": "listed" for word in words}
    told = {
        **listed,
        "account train-aaaa": "uid=20001",
        "account gone-zzzz": "uid=20002",
        "linger olga": "present",
        "linger gone-zzzz": "present",
        "loopback gone-zzzz": "127.77.78.34 of uid 20002",
        "at www-data": "denied",
        "cron gone-zzzz": "denied",
        "attached *": "listed",
        "attached aaaabbbbcc/data": "zyxwvutsrq rw at /data/data",
        "attached zzzzzzzzzz/data": "zyxwvutsrq rw at /data/data",
        "unit ssh.service": "active",
    }
    gone = [f"{word} gone-zzzz" for word in ("account", "linger", "loopback")]
    assert list(strange_facts(told, ANA)) == [gone[0], "attached zzzzzzzzzz/data", *gone[1:]]
    assert list(unlisted(told)) == []
    del told["slice *"]
    assert list(unlisted(told)) == ["slice"]
