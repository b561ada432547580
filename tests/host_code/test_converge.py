"""The fast verbs on a folder, called as the module calls them."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gpuaas import converge as code
from gpuaas.paths import Refusal, Tree
from gpuaas.probes import ProbeError

from tests import privileges
from tests.fleets import public_key
from tests.harness.directory_host import (
    DESCRIPTOR,
    ENVIRONMENT,
    HOME,
    ID,
    KEYS,
    LOGIN,
    NO_KEYS,
    RELEASE,
    folder,
    keys_item,
    provide_item,
    tree,
)

with_mounts = privileges.needs(privileges.mounts)

NOTHING = {**provide_item(), "directories": [], "files": []}


def work(verb: str, item: dict[str, Any], ref: str = "allocation/vision/train-a") -> dict[str, Any]:
    whole = {"id": ID, "login": LOGIN, **item}
    return {"step": f"{verb:.>16}"[:16], "verb": verb, "ref": ref, "item": whole}


def do(root: Path, *entries: dict[str, Any], dry: bool = False) -> list[dict[str, Any]]:
    return code.converge(str(root), "", list(entries), dry=dry)


def one(root: Path, verb: str, item: dict[str, Any], dry: bool = False) -> dict[str, Any]:
    (receipt,) = do(root, work(verb, item), dry=dry)
    return receipt


def below(root: Path, path: str) -> Path:
    return root / path.lstrip("/")


@pytest.fixture
def provided(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    receipts = do(
        root,
        work("allocation.provide", provide_item()),
        work("access.sync", keys_item(public_key("ana") + "\n")),
    )
    assert all(receipt["ok"] and receipt["changed"] for receipt in receipts)
    return root


def test_a_second_run_changes_nothing(provided: Path) -> None:
    """F-ANS-15: the same work again reports no change and touches no file."""
    before = {path: path.lstat().st_mtime_ns for path in provided.rglob("*")}
    receipts = do(
        provided,
        work("allocation.provide", provide_item()),
        work("access.sync", keys_item(public_key("ana") + "\n")),
    )
    assert [receipt["changed"] for receipt in receipts] == [False, False]
    assert {path: path.lstat().st_mtime_ns for path in provided.rglob("*")} == before


def test_modes_do_not_depend_on_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        one(tmp_path, "allocation.provide", provide_item())
    finally:
        os.umask(before)
    assert below(tmp_path, HOME).stat().st_mode & 0o7777 == 0o700
    assert below(tmp_path, DESCRIPTOR).stat().st_mode & 0o7777 == 0o644
    assert below(tmp_path, DESCRIPTOR).parent.stat().st_mode & 0o7777 == 0o755


def test_evidence_is_facts_never_content(provided: Path) -> None:
    """F-ANS-08: a receipt carries digests of what was written, and no text of it."""
    receipt = one(provided, "allocation.provide", provide_item(environment="SECRET=s3cret\n"))
    assert receipt["evidence"][HOME] == "dir 0700"
    assert receipt["evidence"][ENVIRONMENT].startswith("file 0644 sha256:")
    assert "s3cret" not in repr(receipt)


DRIFT = {
    "key file": lambda root: below(root, KEYS).write_text("ssh-ed25519 AAAA intruder\n"),
    "env file": lambda root: below(root, ENVIRONMENT).unlink(),
    "mode": lambda root: below(root, HOME).chmod(0o777),
    "link": lambda root: (
        below(root, DESCRIPTOR).unlink(),
        below(root, DESCRIPTOR).symlink_to("/etc/passwd"),
    ),
}


@pytest.mark.parametrize("what", DRIFT)
def test_a_dry_run_tells_the_truth_and_writes_nothing(provided: Path, what: str) -> None:
    """F-ANS-14: each change by hand is found by a dry run, which leaves it; a real run heals it."""
    entries = (
        work("allocation.provide", provide_item()),
        work("access.sync", keys_item(public_key("ana") + "\n")),
    )
    assert not any(receipt["changed"] for receipt in do(provided, *entries, dry=True))
    DRIFT[what](provided)
    before = tree(provided)
    assert [r["changed"] for r in do(provided, *entries, dry=True)].count(True) == 1
    assert tree(provided) == before
    assert [r["changed"] for r in do(provided, *entries)].count(True) == 1
    assert not any(receipt["changed"] for receipt in do(provided, *entries, dry=True))


def test_a_dry_release_removes_nothing(provided: Path) -> None:
    before = tree(provided)
    assert one(provided, "allocation.release", RELEASE, dry=True)["changed"]
    assert tree(provided) == before


def test_a_dry_run_on_a_bare_root_makes_no_folder(tmp_path: Path) -> None:
    assert one(tmp_path, "allocation.provide", provide_item(), dry=True)["changed"]
    assert list(tmp_path.iterdir()) == []


def test_release_leaves_nothing_of_the_allocation_and_all_of_the_others(provided: Path) -> None:
    other = below(provided, "/home/other-b-wxyz/data")
    other.parent.mkdir()
    other.write_text("theirs")
    below(provided, HOME + "/a/b").mkdir(parents=True)
    below(provided, HOME + "/a/link").symlink_to(other.parent)
    below(provided, HOME + "/a/read-only").mkdir()
    below(provided, HOME + "/a/read-only/file").write_text("x")
    below(provided, HOME + "/a/read-only").chmod(0o555)
    receipts = do(provided, work("access.sync", NO_KEYS), work("allocation.release", RELEASE))
    assert [(r["ok"], r["changed"], r["problem"]) for r in receipts] == [(True, True, None)] * 2
    assert receipts[1]["evidence"] == dict.fromkeys(RELEASE["absent"])
    assert other.read_text() == "theirs"
    assert not any(below(provided, path).exists() for path in (*RELEASE["absent"], KEYS))
    again = do(provided, work("access.sync", NO_KEYS), work("allocation.release", RELEASE))
    assert [(r["ok"], r["changed"]) for r in again] == [(True, False)] * 2


ESCAPES = {
    "parent": "/home/../etc/passwd",
    "another's home": "/home/other-b-wxyz",
    "the folder of homes": "/home",
    "the root": "/",
    "dot": f"/home/./{LOGIN}",
    "double slash": f"/home//{LOGIN}",
    "below its home": f"{HOME}/.ssh",
    "relative": f"home/{LOGIN}",
    "long": "/home/" + "a" * 300,
    "empty": "",
    "nul": f"{HOME}\0",
}


@pytest.mark.parametrize("path", ESCAPES.values(), ids=ESCAPES.keys())
def test_only_places_of_the_allocation_are_touched(provided: Path, path: str) -> None:
    """F-PAR-06: the host's own path builder refuses what is no place of this allocation."""
    before = tree(provided)
    items = {
        "allocation.release": {**RELEASE, "absent": [path]},
        "access.sync": {**NO_KEYS, "absent": [path]},
        "allocation.provide": {**provide_item(), "directories": [folder(path)]},
    }
    for verb, item in items.items():
        assert one(provided, verb, item)["problem"]["code"] == "path_unsafe", verb
    assert tree(provided) == before


@pytest.mark.parametrize("name", ["a/../b", "..", ".", "", "a" * 300, "ABCDEFGHIJ", "abcdefghi1\n"])
def test_ids_and_logins_are_judged_again(tmp_path: Path, name: str) -> None:
    """F-PAR-06: an id or login of another form is refused, whatever was judged before."""
    for bad in ({"id": name}, {"login": name}):
        receipt = one(tmp_path, "allocation.release", {**RELEASE, **bad})
        assert receipt["problem"]["code"] == "item_invalid"


def test_no_way_leads_through_a_link(tmp_path: Path) -> None:
    """F-STO-02: a link in the place of a folder on the way is refused and not followed."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    (outside / LOGIN).mkdir(parents=True)
    root.mkdir()
    (root / "home").symlink_to(outside)
    for verb, item in (("allocation.provide", provide_item()), ("allocation.release", RELEASE)):
        assert one(root, verb, item)["problem"]["code"] == "path_unsafe"
    assert [path.name for path in outside.iterdir()] == [LOGIN]


def test_a_home_swapped_for_a_link_is_not_removed(provided: Path, tmp_path: Path) -> None:
    """F-STO-02: what a swapped link leads to is never deleted, and the release says so."""
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "data").write_text("kept")
    below(provided, HOME).rmdir()
    below(provided, HOME).symlink_to(precious)
    receipt = one(provided, "allocation.release", RELEASE)
    assert receipt["problem"]["code"] == "path_not_removed"
    assert HOME in receipt["problem"]["message"]
    assert (precious / "data").read_text() == "kept"
    assert below(provided, DESCRIPTOR).exists(), "the descriptor stays while anything is left"


@pytest.fixture
def mounted(provided: Path, tmp_path: Path) -> Iterator[Path]:
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "everybody's").write_text("data")
    point = below(provided, HOME + "/odd name/mnt")
    point.mkdir(parents=True)
    below(provided, HOME + "/a-file").write_text("mine")
    subprocess.run(["mount", "--bind", shared, point], check=True)
    yield shared
    subprocess.run(["umount", point], check=True)


@with_mounts
def test_nothing_is_removed_over_a_mount(provided: Path, mounted: Path) -> None:
    """F-STO-02: a bind mount below the home keeps all of the home, and what is mounted."""
    for dry in (True, False):
        receipt = one(provided, "allocation.release", RELEASE, dry=dry)
        assert receipt["problem"]["code"] == "path_not_removed"
        assert "odd name/mnt: something is mounted" in receipt["problem"]["message"]
    assert (mounted / "everybody's").read_text() == "data"
    assert below(provided, HOME + "/a-file").exists()


@privileges.needs(privileges.immutable)
def test_a_file_that_cannot_be_removed_is_named(provided: Path) -> None:
    stuck = below(provided, HOME + "/stuck")
    stuck.write_text("x")
    subprocess.run(["chattr", "+i", stuck], check=True)
    try:
        receipt = one(provided, "allocation.release", RELEASE)
    finally:
        subprocess.run(["chattr", "-i", stuck], check=True)
    assert receipt["problem"]["code"] == "path_not_removed"
    assert receipt["problem"]["message"] == f"{HOME}: stuck: Operation not permitted"
    assert not receipt["ok"] and receipt["changed"]
    assert stuck.exists()


def test_a_tree_of_any_depth_goes(provided: Path) -> None:
    """ACC-11: nobody holds up their end by a nest of folders."""
    deep = below(provided, HOME)
    for _ in range(300):
        deep = deep / "d"
        deep.mkdir()
    assert one(provided, "allocation.release", RELEASE)["ok"]
    assert not below(provided, HOME).exists()


@pytest.mark.parametrize("made", ["folder", "fifo"])
def test_what_is_no_file_is_not_written_over(tmp_path: Path, made: str) -> None:
    place = below(tmp_path, DESCRIPTOR)
    place.parent.mkdir(parents=True)
    place.mkdir() if made == "folder" else os.mkfifo(place)
    assert one(tmp_path, "allocation.provide", provide_item())["problem"]["code"] == "path_unsafe"


def test_a_full_disk_keeps_the_old_file(provided: Path) -> None:
    """F-STA-05: a write that fails half way leaves the old file whole, and no other one."""
    before = tree(provided)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        receipt = one(provided, "allocation.provide", provide_item(descriptor="x" * 5000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert receipt["problem"]["code"] == "verb_failed"
    assert not receipt["changed"]
    assert tree(provided) == before
    assert one(provided, "allocation.provide", provide_item(descriptor="x" * 5000))["ok"]


@pytest.mark.parametrize(
    ("verb", "item"),
    [("allocation.provide", provide_item(descriptor="new\n")), ("allocation.release", RELEASE)],
)
def test_the_rest_of_a_killed_write_is_taken_away(
    provided: Path, verb: str, item: dict[str, Any]
) -> None:
    left = below(provided, DESCRIPTOR).with_name(f".{ID}.json.gpuaas-new")
    left.write_text("half")
    assert one(provided, verb, item)["ok"]
    assert not left.exists()


def test_six_keys_of_three_people_and_files_of_others(provided: Path) -> None:
    """F-GRT-03: the whole set is written at once; a key that a tenant added is not touched."""
    own = below(provided, HOME + "/.ssh/authorized_keys")
    own.parent.mkdir()
    own.write_text("ssh-ed25519 AAAA my-own")
    foreign = below(provided, KEYS).with_name("other-b-wxyz")
    foreign.write_text("ssh-ed25519 BBBB theirs")
    lines = [public_key(f"{name}/{n}") for name in ("ana", "ben", "cleo") for n in ("one", "two")]
    item = keys_item("# Managed\n" + "".join(f"{line}\n" for line in lines))
    assert [one(provided, "access.sync", item)["changed"] for _ in range(2)] == [True, False]
    assert below(provided, KEYS).read_text().splitlines()[1:] == lines
    assert own.read_text() == "ssh-ed25519 AAAA my-own"
    assert foreign.read_text() == "ssh-ed25519 BBBB theirs"


NARROW = "no-agent-forwarding,no-port-forwarding,no-X11-forwarding"
SK = "sk-ssh-ed25519@openssh.com AAAAGnNrLXNzaC1lZDI1NTE5QG9wZW5zc2guY29tAAAA ana/token\n"


@pytest.mark.parametrize(
    ("content", "sound"),
    [
        ("", True),
        ("# nobody\n", True),
        (public_key("ana/laptop") + "\n", True),
        (SK, True),
        (public_key("ana/laptop"), False),
        ('from="10.0.0.0/8,::1/128" ' + public_key("ana") + "\n", True),
        (NARROW + " " + public_key("ana") + "\n", True),
        (f'from="10.0.0.1/32",{NARROW} ' + public_key("ana") + "\n", True),
        ('command="sh" ' + public_key("ana") + "\n", False),
        (f'{NARROW},command="sh" ' + public_key("ana") + "\n", False),
        ('from="*" ' + public_key("ana") + "\n", False),
        ("no-pty " + public_key("ana") + "\n", False),
        ("junk " + public_key("ana") + "\n", False),
        (public_key("a").replace("ssh-ed25519", "ssh-dss") + "\n", False),
        (public_key("a").replace("ssh-ed25519", "ssh-rsa") + "\n", False),
        ("ssh-ed25519 AAAA=A ana\n", False),
        (public_key("a") + "\r\n", False),
        (public_key("a") + "\v" + public_key("b") + "\n", False),
        (public_key("a") + " " + public_key("b") + "\n", False),
        ("# hidden\rssh-ed25519\n", False),
    ],
)
def test_a_key_file_holds_keys_alone(tmp_path: Path, content: str, sound: bool) -> None:
    """F-GRT-01, F-GRT-06, F-GRT-08: odd types and unended lines are refused once more, and all
    options but those by which a grant can be narrowed.
    """
    receipt = one(tmp_path, "access.sync", keys_item(content))
    assert receipt["ok"] is sound
    assert sound or receipt["problem"]["code"] == "item_invalid"
    assert below(tmp_path, KEYS).exists() is sound


def test_one_failure_is_that_items_alone(tmp_path: Path) -> None:
    """Other refs go on; later steps of the same ref are not tried."""
    blocked = tmp_path / "home" / LOGIN
    blocked.parent.mkdir()
    blocked.write_text("in the way")
    other = {"id": "bbbbbbbbbb", "login": "eval-b-bbbb"}
    files = [{"path": "/etc/gpuaas/allocations/bbbbbbbbbb.json", "mode": "0644", "content": "{}"}]
    receipts = do(
        tmp_path,
        work("allocation.provide", provide_item()),
        work("access.sync", keys_item("")),
        work("allocation.provide", {**NOTHING, **other, "files": files}, "allocation/v/b"),
    )
    assert [receipt["ok"] for receipt in receipts] == [False, False, True]
    assert "not tried" in receipts[1]["problem"]["message"]


def test_what_a_failed_run_left_undone_is_done_by_the_next(tmp_path: Path) -> None:
    """F-ANS-05: work follows from what the host shows, so no due part of it is ever lost."""
    blocked = below(tmp_path, KEYS)
    blocked.mkdir(parents=True)
    entries = (
        work("allocation.provide", provide_item()),
        work("access.sync", keys_item("# nobody\n")),
    )
    assert [(r["ok"], r["changed"]) for r in do(tmp_path, *entries)] == [
        (True, True),
        (False, False),
    ]
    blocked.rmdir()
    assert [(r["ok"], r["changed"]) for r in do(tmp_path, *entries)] == [
        (True, False),
        (True, True),
    ]
    assert blocked.read_text() == "# nobody\n"


def test_a_key_that_two_people_hold_stays_for_the_other(tmp_path: Path) -> None:
    """F-GRT-09: after one of them lost access the line stands, and names the one who has it."""
    kind, blob, _ = public_key("shared").split(" ")
    both = "".join(f"{kind} {blob} {who}/laptop\n" for who in ("ana", "ben"))
    assert one(tmp_path, "access.sync", keys_item(both))["ok"]
    assert one(tmp_path, "access.sync", keys_item(both.splitlines(True)[1]))["changed"]
    assert below(tmp_path, KEYS).read_text() == f"{kind} {blob} ben/laptop\n"


ODD: list[tuple[Any, str]] = [
    ("text", "item_invalid"),
    ({}, "item_invalid"),
    ({**work("shell", {}), "verb": "shell"}, "verb_unknown"),
    (work("allocation.provide", {**provide_item(), "command": "id"}), "item_invalid"),
    (work("allocation.release", {}), "item_invalid"),
    (work("allocation.release", {**RELEASE, "absent": [None]}), "item_invalid"),
    (work("allocation.release", {**RELEASE, "absent": HOME}), "item_invalid"),
    (work("allocation.release", {**RELEASE, "uid": 0.5}), "item_invalid"),
    (work("allocation.release", {**RELEASE, "uid": 33}), "item_invalid"),
    ({**work("allocation.release", RELEASE), "become": True}, "item_invalid"),
    (work("access.sync", {**keys_item(""), "files": [{"path": KEYS}]}), "item_invalid"),
    (work("access.sync", {**keys_item("x\0")}), "item_invalid"),
    (work("access.sync", {**keys_item("\udcff\n")}), "item_invalid"),
    (
        work("allocation.provide", {**provide_item(), "directories": [folder(HOME, "7777")]}),
        "item_invalid",
    ),
]


@pytest.mark.parametrize(("entry", "refusal"), ODD)
def test_unknown_work_is_refused(tmp_path: Path, entry: Any, refusal: str) -> None:
    """SEC-04: unknown verbs, keys and shapes are refused by the host too; there is no command."""
    (receipt,) = do(tmp_path, entry)
    assert receipt["problem"]["code"] == refusal
    assert list(tmp_path.iterdir()) == []


def test_another_machine_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/machine-id").write_text("a" * 32 + "\n")
    entries = [work("allocation.provide", provide_item())]
    with pytest.raises(Refusal) as refused:
        code.converge(str(tmp_path), "b" * 32, entries)
    assert refused.value.code == "host_identity_changed"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["etc"]
    assert code.converge(str(tmp_path), "a" * 32, entries)[0]["ok"]


def test_a_whole_host_without_an_identity_is_not_touched() -> None:
    with pytest.raises(Refusal) as refused:
        code.converge("/", "", [])
    assert refused.value.code == "host_identity_changed"


def test_a_root_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(Refusal) as refused:
        code.converge(str(tmp_path / "none"), "", [work("allocation.provide", provide_item())])
    assert refused.value.code == "host_unreachable"
    assert not (tmp_path / "none").exists()


def test_a_tool_that_is_late_fails_its_own_step_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others of the same wave are shut out all the same."""

    def late(tree: Tree, item: dict[str, Any]) -> None:
        raise ProbeError("systemctl stop did not end within 20 s")

    monkeypatch.setattr(code.VERBS["allocation.provide"], "run", late)
    root = tmp_path / "root"
    root.mkdir()
    other = work("allocation.write_env_file", {}, "allocation/vision/other")
    receipts = do(root, work("allocation.provide", provide_item()), other)
    assert len(receipts) == 2, "the other is answered as well"
    assert receipts[0]["problem"]["code"] == "verb_failed"
    assert "did not end" in receipts[0]["problem"]["message"]
