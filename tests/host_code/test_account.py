"""Accounts and lists of those denied, in a folder: made, put back, taken away, never taken over."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from gpuaas import access, account, converge, cron_deny, subids
from gpuaas.home import put_home
from gpuaas.passwd import Accounts, ageing_of
from gpuaas.paths import Places, Refusal, Tree, mount_unit

from reconciler.kinds.allocation import allocation as kind
from reconciler.model.codec import encode
from tests import privileges
from tests.fleets import public_key
from tests.harness.directory_host import (
    HOME,
    ID,
    KEYS,
    LOGIN,
    RELEASE,
    folder,
    keys_item,
    provide_item,
)
from tests.kinds.allocation.test_account import tenant

UID, GID, GROUP = 20000, 20100, "p-vision-20100"
OURS = {
    "uid": UID,
    "gid": GID,
    "group": GROUP,
    "gecos": f"gpuaas {ID}",
    "shmBytes": 1 << 30,
    "subids": 0,
    "slots": 2,
    "nodeSlots": 8,
}
SLICE = f"/etc/systemd/system/user-{UID}.slice.d/60-gpuaas.conf"

as_root = privileges.needs(privileges.giving_away)

PASSWD = "root:x:0:0:root:/root:/bin/bash\nana:x:1000:1000:Ana:/home/ana:/bin/bash\n"
GROUPS = "root:x:0:\nana:x:1000:\ngpuaas-tenants:x:990:\n"
SHADOW = "root:*:19000:0:99999:7:::\nana:$y$j9T$x:19000:0:99999:7:::\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A host's own files of accounts, with people and the tenants' group in them."""
    etc = tmp_path / "etc"
    etc.mkdir()
    for name, text in (("passwd", PASSWD), ("group", GROUPS), ("shadow", SHADOW)):
        (etc / name).write_text(text)
    (etc / "gshadow").write_text("gpuaas-tenants:!::\n")
    shutil.copy("/etc/login.defs", etc)
    (etc / "skel/.config").mkdir(parents=True)
    (etc / "skel/.profile").write_text("umask 077\n")
    (etc / "skel/.config/app").write_text("x")
    (etc / "skel/link").symlink_to(".profile")
    return tmp_path


def wanted(**changes: Any) -> account.Wanted:
    return account.wanted_of({"id": ID, "login": LOGIN, "account": {**OURS, **changes}})


def tree(root: Path, dry: bool = False) -> Tree:
    return Tree(os.open(root, os.O_RDONLY | os.O_DIRECTORY), dry)


def add(root: Path, name: str, line: str) -> None:
    with (root / "etc" / name).open("a") as file:
        file.write(line + "\n")


def fact(root: Path) -> str:
    accounts = Accounts(str(root))
    user = accounts.user(LOGIN)
    return accounts.fact(user) if user else "absent"


MADE = (
    f"uid={UID} gid={GID} group={GROUP} groups=gpuaas-tenants home={HOME} shell=/bin/bash"
    " password=locked"
)


@as_root
def test_an_account_is_made_with_the_numbers_given(root: Path) -> None:
    account.put_account(tree(root), wanted())
    assert fact(root) == MADE
    again = tree(root)
    account.put_account(again, wanted())
    assert not again.changed
    assert [user.login for user in Accounts(str(root)).tenants()] == [LOGIN]


@as_root
@pytest.mark.parametrize(
    "spoil",
    [
        lambda root: swap(root, "passwd", "/bin/bash\n", "/bin/sh\n", LOGIN),
        lambda root: swap(root, "passwd", HOME, "/root", LOGIN),
        lambda root: swap(root, "shadow", ":!:", ":$y$j9T$x:", LOGIN),
        lambda root: swap(root, "group", f":990:{LOGIN}", ":990:", "gpuaas-tenants"),
        lambda root: add(root, "group", f"docker:x:991:{LOGIN}"),
        lambda root: aged(root, last=0),
        lambda root: aged(root, most=90),
        lambda root: aged(root, inactive=0),
        lambda root: aged(root, expires=1),
        lambda root: aged(root, last=0, most=90, inactive=30, expires=99999),
    ],
)
def test_what_was_changed_of_it_by_hand_is_put_back(root: Path, spoil: Any) -> None:
    account.put_account(tree(root), wanted())
    spoil(root)
    assert fact(root) != MADE
    account.put_account(tree(root), wanted())
    assert fact(root) == MADE


def aged(root: Path, last: int = 20000, most: int = 99999, **more: int) -> None:
    """As tools for hardening, or somebody, have written it behind our back."""
    inactive, expires = more.get("inactive", ""), more.get("expires", "")
    file = root / "etc/shadow"
    others = [line for line in file.read_text().splitlines() if not line.startswith(LOGIN)]
    line = f"{LOGIN}:!:{last}:0:{most}:7:{inactive}:{expires}:"
    file.write_text("\n".join([*others, line, ""]))


@as_root
@pytest.mark.parametrize(
    "hardened",
    ["PASS_MAX_DAYS 90", "PASS_MAX_DAYS 1\nPASS_MIN_DAYS 1\nPASS_WARN_AGE 14"],
)
def test_an_account_without_a_password_never_grows_old(root: Path, hardened: str) -> None:
    """F-REAL-12: login.defs, and what useradd is told to do by itself, are for people's own."""
    defs = root / "etc/login.defs"
    kept = [line for line in defs.read_text().splitlines() if not line.startswith("PASS_M")]
    defs.write_text("\n".join([*kept, hardened, ""]))
    (root / "etc/default").mkdir()
    (root / "etc/default/useradd").write_text("INACTIVE=30\nEXPIRE=2026-01-01\n")
    account.put_account(tree(root), wanted())
    assert fact(root) == MADE


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ("!:20000:0:99999:7:::", ()),
        ("!:::::::", ()),
        ("!:20000:0:-1:7:-1:-1:", ()),
        ("!:20000", ()),
        ("!:0:0:99999:7:::", ("change=demanded",)),
        ("!:20000:0:90:7:::", ("max=90",)),
        ("!:20000:0:0:7:0:0:", ("max=0", "inactive=0", "expires=0")),
        ("!:20000:0:99999:7:30:20500:", ("inactive=30", "expires=20500")),
        ("!:x:0:y:7:z::", ()),
    ],
)
def test_what_will_shut_an_account_is_told(fields: str, told: tuple[str, ...]) -> None:
    """F-REAL-12: read back as the programs that let people in read it."""
    assert ageing_of(["a-aaaa", *fields.split(":")]) == told


def swap(root: Path, name: str, old: str, new: str, of: str) -> None:
    lines = (root / "etc" / name).read_text().splitlines(True)
    changed = [line.replace(old, new) if line.startswith(of + ":") else line for line in lines]
    assert changed != lines
    (root / "etc" / name).write_text("".join(changed))


@as_root
def test_a_project_under_a_new_name_keeps_its_number(root: Path) -> None:
    account.put_account(tree(root), wanted())
    renamed = wanted(group=f"p-seeing-{GID}")
    account.check_free(tree(root), renamed)
    account.put_account(tree(root), renamed)
    assert f"group=p-seeing-{GID}" in fact(root)


@as_root
def test_it_goes_alone_and_its_group_with_the_last_of_it(root: Path) -> None:
    before = {name: (root / "etc" / name).read_text() for name in ("passwd", "group", "shadow")}
    account.put_account(tree(root), wanted())
    add(root, "passwd", f"other-b-wxyz:x:20001:{GID}:gpuaas bbbbbbbbbb:/home/other:/bin/bash")
    account.remove_account(tree(root), LOGIN, GID)
    assert Accounts(str(root)).group(GID) is not None
    account.remove_account(tree(root), "other-b-wxyz", GID)
    account.remove_account(tree(root), LOGIN, GID)
    assert {name: (root / "etc" / name).read_text() for name in before} == before


@as_root
def test_a_dry_run_makes_no_account(root: Path) -> None:
    dry = tree(root, dry=True)
    account.put_account(dry, wanted())
    assert dry.changed
    assert fact(root) == "absent"


CONFLICTS = {
    "login": ("passwd", f"{LOGIN}:x:1001:1001:Train:/home/x:/bin/bash"),
    "login with our uid": ("passwd", f"{LOGIN}:x:{UID}:{GID}:Train:/home/x:/bin/bash"),
    "login of another allocation": (
        "passwd",
        f"{LOGIN}:x:{UID}:{GID}:gpuaas zzzzzzzzzz:/x:/bin/sh",
    ),
    "uid": ("passwd", f"eve:x:{UID}:1001:Eve:/home/eve:/bin/bash"),
    "gid": ("group", f"staff:x:{GID}:"),
    "group": ("group", f"{GROUP}:x:1234:"),
}


@pytest.mark.parametrize("what", CONFLICTS)
def test_nothing_of_somebody_else_is_taken_over(root: Path, what: str) -> None:
    add(root, *CONFLICTS[what])
    before = (root / "etc/passwd").read_text()
    item = {**provide_item(), "id": ID, "login": LOGIN, "account": OURS}
    entry = {"step": "1", "verb": "allocation.provide", "ref": "r", "item": item}
    (receipt,) = converge.converge(str(root), "", [entry])
    assert receipt["problem"]["code"] == "account_conflict"
    assert (root / "etc/passwd").read_text() == before
    assert not (root / "home").exists(), "nothing was touched before it was known to be ours"


@pytest.mark.parametrize("what", ["login with our uid", "login of another allocation", "uid"])
def test_nothing_of_somebody_else_is_ended_or_removed(root: Path, what: str) -> None:
    """What was never ours to make is not ours to take away, by whichever number."""
    add(root, *CONFLICTS[what])
    crontab = root / "var/spool/cron/crontabs" / LOGIN
    crontab.parent.mkdir(parents=True)
    crontab.touch()
    before = snapshot(root)
    item = {**RELEASE, "id": ID, "login": LOGIN, "uid": UID, "gid": GID}
    entry = {"step": "1", "verb": "allocation.release", "ref": "r", "item": item}
    (receipt,) = converge.converge(str(root), "", [entry])
    assert receipt["problem"]["code"] == "account_conflict"
    assert not receipt["changed"]
    assert snapshot(root) == before


@pytest.mark.parametrize(
    "changes",
    [
        {"gecos": "gpuaas bbbbbbbbbb"},
        {"group": "root"},
        {"group": f"p-vision-{GID + 1}"},
        {"gid": 0, "group": "p-vision-0"},
    ],
)
def test_an_order_that_contradicts_itself_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(Refusal) as refused:
        wanted(**changes)
    assert refused.value.code == "item_invalid"


# Home.


@as_root
def test_a_fresh_home_has_the_skeleton_and_all_of_it_is_the_tenants(root: Path) -> None:
    """F-GRT-04: owners and modes are the tenant's own, whatever the umask of whoever works."""
    before = os.umask(0)
    try:
        put_home(tree(root), HOME, "0700", (UID, GID))
    finally:
        os.umask(before)
    home = root / HOME[1:]
    assert {path.relative_to(home).as_posix() for path in home.rglob("*")} == {
        ".config",
        ".config/app",
        ".profile",
        "link",
    }
    for path in (home, *home.rglob("*")):
        assert (path.lstat().st_uid, path.lstat().st_gid) == (UID, GID), path
    assert home.stat().st_mode & 0o7777 == 0o700
    assert home.parent.stat().st_mode & 0o7777 == 0o755
    assert (home / "link").readlink() == Path(".profile")


@as_root
def test_a_home_is_filled_once(root: Path) -> None:
    put_home(tree(root), HOME, "0700", (UID, GID))
    (root / HOME[1:] / ".profile").unlink()
    again = tree(root)
    put_home(again, HOME, "0700", (UID, GID))
    assert not again.changed
    os.chown(root / HOME[1:], 0, 0)
    put_home(tree(root), HOME, "0700", (UID, GID))
    assert (root / HOME[1:] / ".profile").exists(), "one that was broken off is made to the end"


@as_root
def test_a_loose_home_is_closed_again(root: Path) -> None:
    """F-GRT-04: the owner may open it; the next apply says so and closes it."""
    put_home(tree(root), HOME, "0700", (UID, GID))
    (root / HOME[1:]).chmod(0o777)
    loose = tree(root)
    put_home(loose, HOME, "0700", (UID, GID))
    assert loose.changed
    assert (root / HOME[1:]).stat().st_mode & 0o7777 == 0o700


@as_root
def test_a_home_of_somebody_else_is_not_taken_over(root: Path) -> None:
    (root / HOME[1:]).mkdir(parents=True)
    os.chown(root / HOME[1:], 1000, 1000)
    with pytest.raises(Refusal) as refused:
        put_home(tree(root), HOME, "0700", (UID, GID))
    assert refused.value.code == "account_conflict"


# Keys.


@pytest.mark.parametrize("place", ["etc", "etc/gpuaas", "etc/gpuaas/ssh"])
@pytest.mark.parametrize("mode", [0o777, 0o775])
def test_a_way_that_others_may_write_to_is_said(tmp_path: Path, place: str, mode: int) -> None:
    """F-GRT-04: sshd would refuse everybody without a word; we name the folder and its mode."""
    (tmp_path / "etc/gpuaas/ssh").mkdir(parents=True)
    for each in ("etc", "etc/gpuaas", "etc/gpuaas/ssh"):
        (tmp_path / each).chmod(0o755)
    (tmp_path / place).chmod(mode)
    item = {"id": ID, "login": LOGIN, **keys_item(public_key("ana") + "\n")}
    with pytest.raises(Refusal) as refused:
        access.run(tree(tmp_path), item)
    assert refused.value.code == "login_refused"
    assert f"login will be refused: /{place} is {mode:04o}" in refused.value.message


@as_root
def test_a_way_that_belongs_to_a_tenant_is_said(tmp_path: Path) -> None:
    """F-GRT-04: a parent that was given to the last one written."""
    (tmp_path / "etc/gpuaas/ssh").mkdir(parents=True)
    os.chown(tmp_path / "etc/gpuaas/ssh", UID, GID)
    with pytest.raises(Refusal, match="of uid 20000"):
        access.run(tree(tmp_path), {"id": ID, "login": LOGIN, **keys_item("# nobody\n")})


@as_root
def test_a_key_file_that_is_the_tenants_becomes_roots_again(tmp_path: Path) -> None:
    """F-GRT-04: with a umask of 000 too, it is readable for sshd and writable for root alone."""
    item = {"id": ID, "login": LOGIN, **keys_item("# nobody\n")}
    before = os.umask(0)
    try:
        access.run(tree(tmp_path), item)
        os.chown(tmp_path / KEYS[1:], UID, GID)
        access.run(tree(tmp_path), item)
    finally:
        os.umask(before)
    status = (tmp_path / KEYS[1:]).stat()
    assert (status.st_uid, status.st_gid, status.st_mode & 0o7777) == (0, 0, 0o644)
    assert (tmp_path / KEYS[1:]).parent.stat().st_mode & 0o7777 == 0o755


# Lists of those who may not use cron and at.


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"", b"train-a-abcd\n"),
        (b"guest\n", b"guest\ntrain-a-abcd\n"),
        (b"guest", b"guest\ntrain-a-abcd\n"),
        (b"# note \xff\n\nguest\r\n", b"# note \xff\n\nguest\r\ntrain-a-abcd\n"),
        (b"train-a-abcde\nx", b"train-a-abcde\nx\ntrain-a-abcd\n"),
    ],
)
def test_only_our_own_line_is_added_and_taken_away(
    tmp_path: Path, before: bytes, after: bytes
) -> None:
    """F-GRT-08: a last line without an end stays a line of its own; all else stays to the byte."""
    (tmp_path / "etc").mkdir()
    lists = [tmp_path / f"etc/{word}.deny" for word in ("cron", "at")]
    for one in lists:
        one.write_bytes(before)
        one.chmod(0o640)
    cron_deny.deny(tree(tmp_path), LOGIN)
    assert [one.read_bytes() for one in lists] == [after] * 2
    again = tree(tmp_path)
    cron_deny.deny(again, LOGIN)
    assert not again.changed
    assert {one.stat().st_mode & 0o7777 for one in lists} == {0o640}
    cron_deny.forget(tree(tmp_path), LOGIN)
    ended = before if before.endswith(b"\n") or not before else before + b"\n"
    assert [one.read_bytes() for one in lists] == [ended] * 2


def test_no_list_is_made_that_would_let_others_in(tmp_path: Path) -> None:
    """Without lists cron serves everybody and at serves root; a list of ours must not open at."""
    (tmp_path / "etc").mkdir()
    assert not cron_deny.is_denied(str(tmp_path), "cron", LOGIN)
    assert cron_deny.is_denied(str(tmp_path), "at", LOGIN)
    cron_deny.deny(tree(tmp_path), LOGIN)
    assert sorted(path.name for path in (tmp_path / "etc").iterdir()) == ["cron.deny"]
    assert all(cron_deny.is_denied(str(tmp_path), word, LOGIN) for word in ("cron", "at"))


def test_a_list_of_those_allowed_decides(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/cron.allow").write_text("guest\n")
    assert cron_deny.is_denied(str(tmp_path), "cron", LOGIN)
    (tmp_path / "etc/cron.allow").write_text(f"guest\n{LOGIN}\n")
    (tmp_path / "etc/cron.deny").write_text(f"{LOGIN}\n")
    assert not cron_deny.is_denied(str(tmp_path), "cron", LOGIN)


# The whole of it.


def provided() -> dict[str, Any]:
    item = provide_item()
    return {
        **item,
        "id": ID,
        "login": LOGIN,
        "account": OURS,
        "directories": [folder(HOME, uid=UID, gid=GID)],
        "files": [*item["files"], {"path": SLICE, "mode": "0644", "content": "[Slice]\n"}],
    }


@as_root
def test_a_life_in_a_folder_leaves_nothing(root: Path) -> None:
    """What systemd and the kernel add on a whole host is tried in the lab."""

    def do(verb: str, item: dict[str, Any]) -> dict[str, Any]:
        entry = {"step": "1", "verb": verb, "ref": "r", "item": item}
        (receipt,) = converge.converge(str(root), "", [entry])
        assert receipt["ok"], receipt["problem"]
        return receipt

    before = snapshot(root)
    assert do("allocation.provide", provided())["changed"]
    assert not do("allocation.provide", provided())["changed"]
    assert fact(root) == MADE
    (root / "var/lib/systemd/linger").mkdir(parents=True)
    (root / "var/lib/systemd/linger" / LOGIN).touch()
    for spool in ("crontabs", "atjobs"):
        (root / "var/spool/cron" / spool).mkdir(parents=True)
        for name, uid in ((LOGIN, UID), ("ana", 1000)):
            (root / "var/spool/cron" / spool / name).touch()
            os.chown(root / "var/spool/cron" / spool / name, uid, 0)
    absent = [*RELEASE["absent"][:-1], f"/etc/systemd/system/user-{UID}.slice.d"]
    release = {"absent": [*absent, RELEASE["absent"][-1]], "uid": UID, "gid": GID}
    item = {"id": ID, "login": LOGIN, **release}
    assert do("allocation.release", item)["changed"]
    assert not do("allocation.release", item)["changed"]
    after = snapshot(root)
    assert {path: after.get(path) for path in before} == before
    left = [path for path in after if LOGIN in path or str(UID) in path or ID in path]
    assert left == []
    for spool in ("crontabs", "atjobs"):
        assert [one.name for one in (root / "var/spool/cron" / spool).iterdir()] == ["ana"]


def snapshot(root: Path) -> dict[str, str]:
    files = (path for path in sorted(root.rglob("*")) if path.is_file())
    kept = (path for path in files if not path.name.endswith("-") and path.name != "cron.deny")
    return {path.relative_to(root).as_posix(): path.read_text() for path in kept}


def test_every_place_of_the_plan_is_one_that_the_host_takes_for_the_allocations_own() -> None:
    bound, around = tenant()
    login = bound.login
    places = Places(bound.id, login, bound.uid)
    (provide, write, sync), (_, release) = (
        kind.steps(bound, around),
        kind.steps(replace(bound, resource=None), around),
    )
    assert {file.path for file in provide.item.files} <= set(places.files)
    assert {one.path for one in provide.item.directories} <= set(places.folders)
    assert {file.path for file in sync.item.files} <= set(places.keys)
    assert set(release.item.absent) <= set(places.folders + places.files)
    assert any(path.endswith("/" + mount_unit(login)) for path in release.item.absent)
    assert {file.path for file in write.item.files} == set(places.environments)
    for step in (provide, write, sync, release):
        for key in encode(step.item).keys() ^ converge.VERBS[step.verb].KEYS.keys():
            raise AssertionError(f"{step.verb}: {key}")


def test_units_are_named_as_systemd_escapes_them() -> None:
    assert mount_unit("a-b-abcd") == "var-lib-gpuaas-instances-shm-a\\x2db\\x2dabcd.mount"


# Numbers inside of containers.

FIRST = UID << 16


def listed(root: Path) -> dict[str, str]:
    return {name: (root / "etc" / name).read_text() for name in ("subuid", "subgid")}


@pytest.mark.parametrize("before", ["", "ana:100000:65536\n", "ana:100000:65536", "# odd\n\n"])
def test_numbers_inside_are_written_and_taken_away_and_nothing_else(
    root: Path, before: str
) -> None:
    (root / "etc/subuid").write_text(before)
    whole = before + "\n" * (before[-1:] not in ("", "\n"))
    ours = f"{LOGIN}:{FIRST}:65536\n"
    subids.put(tree(root), LOGIN, FIRST)
    assert listed(root) == {"subuid": whole + ours, "subgid": ours}
    assert subids.given(str(root))[LOGIN] == f"uid={FIRST}+65536 gid={FIRST}+65536"
    again = tree(root)
    subids.put(again, LOGIN, FIRST)
    assert not again.changed
    subids.put(tree(root), LOGIN, 0)
    assert listed(root) == {"subuid": whole, "subgid": ""}
    assert LOGIN not in subids.given(str(root))


def test_numbers_that_somebody_added_by_hand_go(root: Path) -> None:
    """ACC-11: a second range, or one in a single list, is told and put right."""
    add(root, "subuid", f"{LOGIN}:{FIRST}:65536")
    add(root, "subuid", f"{LOGIN}:0:1000")
    assert subids.given(str(root))[LOGIN] == f"uid={FIRST}+65536,0+1000 gid=none"
    subids.put(tree(root), LOGIN, FIRST)
    assert subids.given(str(root))[LOGIN] == f"uid={FIRST}+65536 gid={FIRST}+65536"


@pytest.mark.parametrize("given", [1, FIRST + 1, FIRST + 65536, 100000])
def test_only_its_own_numbers_are_given_to_it(given: int) -> None:
    """SEC-04: judged on the host again, whoever asks."""
    subids.check(UID, 0)
    subids.check(UID, FIRST)
    with pytest.raises(Refusal, match="none of uid"):
        subids.check(UID, given)


@pytest.mark.parametrize(
    ("first", "size", "taken"),
    [
        (FIRST - 1, 1, False),
        (FIRST - 1, 2, True),
        (FIRST + 65535, 1, True),
        (FIRST + 65536, 9, False),
    ],
)
def test_numbers_of_somebody_else_are_not_given_twice(
    root: Path, first: int, size: int, taken: bool
) -> None:
    add(root, "subgid", f"ana:{first}:{size}")
    add(root, "subuid", f"{LOGIN}:{FIRST}:65536")
    if taken:
        with pytest.raises(Refusal, match="to ana") as refused:
            subids.check_free(tree(root), LOGIN, UID)
        assert refused.value.code == "account_conflict"
    else:
        subids.check_free(tree(root), LOGIN, UID)
