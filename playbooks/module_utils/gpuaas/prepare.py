"""node.prepare: the walls of a host are set up before anybody is placed on it.

The most dangerous of the verbs, since a wrong file of sshd or PAM shuts everybody out. So all is
judged before it lives, what was there is saved, and a timer puts it back unless somebody comes
through a new connection and keeps it.
"""

from __future__ import annotations

import grp
import os
import pwd
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Optional

from . import network, reserve, settle
from .candidates import check_bus, check_pam, check_sshd, check_units
from .files import put_file, put_folder, put_link, read_bytes
from .items import FILE, FOLDER, check_form, text
from .pam import VENDOR, with_block, without_users_own
from .passwd import SHELL
from .paths import PRIVATE, Refusal, Tree, owned
from .probes import ProbeError, call, lines_of
from .saved_files import arm, save

UNDO_AFTER = range(2, 3601)
CGROUP2 = "cgroup2fs"
TENANTS, PROBE = "gpuaas-tenants", "gpuaas-probe"

SLICES = "/etc/systemd/system/user-{}.slice.d"
OPEN = "60-gpuaas-open.conf"
WANTS = "/etc/systemd/system/multi-user.target.wants"

FILES = {
    "/etc/dbus-1/system.d/gpuaas.conf": "dbus",
    "/etc/gpuaas/network.nft": "network",
    "/etc/polkit-1/rules.d/00-gpuaas.rules": "",
    "/etc/security/limits.d/60-gpuaas.conf": "",
    "/etc/security/namespace.d/gpuaas-private-proc": "",
    "/etc/security/namespace.d/gpuaas.conf": "",
    "/etc/ssh/sshd_config.d/10-gpuaas.conf": "sshd",
    "/etc/sysctl.d/60-gpuaas.conf": "",
    "/etc/systemd/logind.conf.d/60-gpuaas.conf": "logind",
    "/etc/systemd/system/gpuaas-devices.service": "systemd",
    "/etc/systemd/system/gpuaas-network.service": "systemd",
    "/etc/systemd/system/gpuaas-seal@.service": "systemd",
    "/etc/systemd/system/gpuaas-settle.service": "systemd",
    "/etc/systemd/system/gpuaas-stage@.service": "systemd",
    "/etc/systemd/system/gpuaas.slice": "systemd",
    "/etc/systemd/system/user-.slice.d/50-gpuaas.conf": "systemd",
    "/etc/sysusers.d/gpuaas.conf": "",
    "/etc/tmpfiles.d/gpuaas.conf": "",
    "/usr/local/bin/gpuaas-runtime": "",
    "/usr/local/libexec/gpuaas/devices": "",
    "/usr/local/libexec/gpuaas/network": "network",
    "/usr/local/libexec/gpuaas/session-opened": "",
    "/usr/local/libexec/gpuaas/stage": "",
}
"""The only files that are written whole, and how the host takes each of them up."""

SESSIONS = ("/etc/pam.d/sshd", "/etc/pam.d/systemd-user")
"""Stacks that tenants pass; those of jobs stop them at their first line."""

BLOCKS = ("/etc/login.defs", "/etc/pam.d/atd", "/etc/pam.d/cron", *SESSIONS)
UNITS = ("gpuaas-devices.service", "gpuaas-network.service", "gpuaas-settle.service")
INSTANCES = "/var/lib/gpuaas/instances"
FOLDERS = (
    "/etc/gpuaas/allocations",
    "/etc/gpuaas/devices",
    "/etc/gpuaas/loopback",
    "/etc/gpuaas/runtime/allocations",
    "/etc/gpuaas/session",
    "/etc/gpuaas/volumes",
    "/home",
    *(f"{INSTANCES}/{name}" for name in PRIVATE),
)


def undo_after(value: Any, what: str) -> None:
    check_form(value, int, what)
    if value not in UNDO_AFTER:
        raise Refusal("item_invalid", f"{what}: {value} s is no time to come back in")


def start_or_end(value: Any, what: str) -> None:
    if value not in ("start", "end"):
        raise Refusal("item_invalid", f"{what} is neither start nor end")


KEYS = {
    "login": str,
    "undoAfter": undo_after,
    "directories": [FOLDER],
    "files": [FILE],
    "blocks": [{"path": str, "content": text, "place": start_or_end}],
    "openSlice": text,
    "units": [str],
}


@dataclass(frozen=True)
class Wanted:
    """One path as it should be: a folder, a link to `target`, or a file of this content."""

    path: str
    mode: str = "0644"
    content: Optional[str] = None
    target: str = ""
    action: str = ""

    def make(self, tree: Tree) -> None:
        if self.target:
            put_link(tree, self.path, self.target)
        elif self.content is None:
            put_folder(tree, self.path, self.mode)
        else:
            put_file(tree, self.path, self.content, self.mode)


def run(tree: Tree, item: dict[str, Any]) -> None:
    _refuse_unfit(tree)
    if settle.status() == "pending":
        tree.changed = True
        if tree.dry:
            return
        if why := _take_back():
            raise Refusal("prepare_rolled_back", f"an earlier preparation was not kept; {why}")
    if why := check_sshd({}):
        raise Refusal("sshd_config_broken", f"{why}; put it right by hand, nothing was touched")
    wanted = [one for one in _wanted(tree, item) if _differs(tree, one)]
    if not wanted and _has_accounts() and not network.is_stale("/"):
        return
    if not tree.dry:
        _refuse_unsound({one.path: one.content for one in wanted if one.content is not None})
        _prepare(tree, wanted, item["undoAfter"])
    tree.changed = True


def _refuse_unfit(tree: Tree) -> None:
    """What no file of ours could make good; nothing has been touched yet."""
    if not tree.whole_host:
        raise Refusal("item_invalid", "only a whole host can be prepared, not a folder on it")
    if not os.path.isdir("/run/systemd/system"):
        raise Refusal("systemd_required", "systemd does not run this host")
    try:
        found = " ".join(lines_of("stat", "-f", "-c", "%T", "/sys/fs/cgroup"))
    except ProbeError as error:
        raise Refusal("cgroup_v2_required", str(error)) from error
    if found != CGROUP2:
        raise Refusal(
            "cgroup_v2_required",
            f"/sys/fs/cgroup is {found}, not {CGROUP2}: boot it with"
            " systemd.unified_cgroup_hierarchy=1",
        )


def _take_back() -> str:
    """Why not all could be put back; empty if it could."""
    try:
        settle.restore()
    except (settle.SettleError, OSError, ValueError, KeyError) as error:
        return f"not all could be put back, see {settle.FOLDER} on the host: {error}"
    return ""


def _wanted(tree: Tree, item: dict[str, Any]) -> list[Wanted]:
    """All that should stand, each judged to be a place of a node."""
    wanted = [
        Wanted(path=owned(one["path"], FOLDERS), mode=one["mode"]) for one in item["directories"]
    ]
    for one in item["files"]:
        path = owned(one["path"], tuple(FILES))
        wanted.append(Wanted(path, one["mode"], one["content"], action=FILES[path]))
    for uid in sorted({0, _uid_of(item["login"])}):
        path = f"{SLICES.format(uid)}/{OPEN}"
        wanted.append(Wanted(path, content=item["openSlice"], action="systemd"))
    for one in item["blocks"]:
        before = _stack(tree, owned(one["path"], BLOCKS))
        if before is not None:
            before = without_users_own(before) if one["path"] in SESSIONS else before
            content = _with_block(before, one)
            wanted.append(Wanted(one["path"], content=content))
    for unit in item["units"]:
        path = f"{WANTS}/{owned(unit, UNITS)}"
        wanted.append(Wanted(path, target=f"/etc/systemd/system/{unit}", action="systemd"))
    return wanted


def _with_block(before: str, one: dict[str, Any]) -> str:
    try:
        return with_block(before, one["content"], one["place"])
    except ValueError as error:
        hint = "take the lines that mark ours, and what is between them, out by hand"
        why = f"{one['path']}: {error}; {hint}; nothing was touched"
        raise Refusal("prepare_refused", why) from None


def _stack(tree: Tree, path: str) -> Optional[str]:
    """As it is, or one that reads the vendor's; None if the host has no such service."""
    before = read_bytes(tree, path)
    if before is not None:
        try:
            return before.decode("utf-8")
        except UnicodeDecodeError as error:
            raise Refusal("path_unsafe", f"{path} is no text: {error}") from error
    vendors = VENDOR + os.path.basename(path)
    return f"@include {vendors}\n" if os.path.exists(vendors) else None


def _uid_of(login: str) -> int:
    try:
        return pwd.getpwnam(login).pw_uid
    except KeyError:
        raise Refusal("item_invalid", f"no account of the name {login!r} on the host") from None


def _has_accounts() -> bool:
    """The group of tenants, and the account by which sshd is asked what holds for them."""
    try:
        return PROBE in grp.getgrnam(TENANTS).gr_mem and bool(pwd.getpwnam(PROBE))
    except KeyError:
        return False


def _differs(tree: Tree, one: Wanted) -> bool:
    dry = Tree(tree.root, dry=True)
    one.make(dry)
    return dry.changed


def _refuse_unsound(files: dict[str, str]) -> None:
    rules = files.get("/etc/gpuaas/network.nft")
    for why in (
        check_bus(files),
        check_pam(files),
        check_sshd(files),
        network.check(rules) if rules is not None else "",
    ):
        if why:
            raise Refusal("prepare_refused", f"{why}; nothing was touched")


def _prepare(tree: Tree, wanted: list[Wanted], undo_after: int) -> None:
    """Saved, armed, written, judged again and taken up; or all as it was."""
    unloaded = {"network"} if network.is_stale("/") else set()
    actions = sorted({one.action for one in wanted} - {""} | unloaded)
    save([*(one.path for one in wanted), *reserve.missing()], actions)
    tree.changed = True
    try:
        arm(undo_after)
        with settle.alone():
            _refuse_late()
            for one in wanted:
                one.make(tree)
            reserve.make_whole()
        _make_accounts()
        if why := check_sshd({}) or check_units(UNITS):
            raise Refusal("prepare_rolled_back", why)
        said = settle.take_up(actions)
        _harden()
        if said:
            raise Refusal("prepare_rolled_back", "; ".join(said))
        _refuse_late()
    except (Refusal, OSError, ProbeError) as error:
        why = error.message if isinstance(error, Refusal) else str(error)
        end = _take_back() or "all is as it was before"
        raise Refusal("prepare_rolled_back", f"{why}; {end}") from error


def _refuse_late() -> None:
    if settle.status() == "none":
        raise Refusal("prepare_rolled_back", "it took longer than the time to come back in")


def _make_accounts() -> None:
    """The probe has what tenants have, or what is refused to it would say nothing of them."""
    lines_of("systemd-sysusers", "/etc/sysusers.d/gpuaas.conf")
    if pwd.getpwnam(PROBE).pw_shell != SHELL:
        lines_of("usermod", "--shell", SHELL, PROBE)
    unaged = ("--maxdays", "-1", "--inactive", "-1", "--expiredate", "-1")
    lines_of("chage", *unaged, PROBE)


def _harden() -> None:
    """A kernel that refuses is read back as it is, and reported as not enforced."""
    with suppress(ProbeError):
        call("/usr/lib/systemd/systemd-sysctl", "/etc/sysctl.d/60-gpuaas.conf")
