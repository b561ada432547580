"""The image all hosts share: Debian trixie with systemd, sshd, sudo, cron and at.

The packages come from the machine's own package sources and are kept as a tarball by the hash of
their list; what `image/` and this recipe lay over them is cheap, and kept as a tree by its own.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.lab import place, server

SUITE = "trixie"
PACKAGES = (
    *("systemd", "systemd-sysv", "dbus", "dbus-user-session", "libpam-systemd", "polkitd"),
    *("openssh-server", "sudo", "cron", "at", "python3", "acl", "procps"),
    *("ca-certificates", "iproute2", "iputils-ping", "kmod", "nftables"),
    # File systems of volumes, and environments of bundles.
    *("e2fsprogs", "xfsprogs", "python3-venv"),
    # A control machine of the lab follows commits.
    "git",
)

UNKNOWN = {"bookworm": ("PerSourcePenalties",)}

KEPT_SECONDS = 7 * 24 * 3600
OVERLAY = Path(__file__).with_name("image")
UNWANTED = (
    *("apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "fstrim.timer"),
    *("systemd-networkd-wait-online.service", "systemd-firstboot.service", "ldconfig.service"),
    *("systemd-pstore.service", "getty.target", "getty-static.service"),
    *("sys-kernel-debug.mount", "sys-kernel-tracing.mount", "dev-hugepages.mount"),
)
WANTED = {
    "systemd-networkd.service": "/usr/lib/systemd/system/systemd-networkd.service",
    "lab-hostkeys.service": "../lab-hostkeys.service",
}


def image(suite: str = SUITE) -> Path:
    """The tree of the image; the first call of a machine takes about a minute."""
    base = _digest(suite, *PACKAGES)
    tree = place.folder() / "images" / f"{base}-{_digest(base, *_layers())}"
    with place.alone("image"):
        if not tree.exists():
            unfinished = tree.with_suffix(".new")
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir(parents=True)
            unpack = ("tar", "--numeric-owner", "--xattrs", "--xattrs-include=*")
            place.order(*unpack, "-C", unfinished, "-xf", _packages(base, suite))
            _lay_over(unfinished, suite)
            unfinished.rename(tree)
        os.utime(tree)
        _clear_out()
    return tree


def _packages(base: str, suite: str) -> Path:
    """The tarball of Debian itself."""
    tarball = place.folder() / "images" / f"{base}.tar"
    if tarball.exists():
        os.utime(tarball)
    else:
        unfinished = tarball.with_suffix(".new.tar")
        include = f"--include={','.join(PACKAGES)}"
        place.order("mmdebstrap", "--quiet", "--variant=minbase", include, suite, unfinished)
        unfinished.rename(tarball)
    return tarball


def _clear_out() -> None:
    """Trees and tarballs that nobody has used for a week."""
    disks = {file.read_text() for file in place.hosts_folder().glob("*/image")}
    for old in (place.folder() / "images").iterdir():
        if time.time() - old.stat().st_mtime > KEPT_SECONDS and str(old) not in disks:
            shutil.rmtree(old) if old.is_dir() else old.unlink()


def _lay_over(tree: Path, suite: str) -> None:
    for file, text in _files().items():
        known = [line for line in text.splitlines(keepends=True) if not _is_unknown(line, suite)]
        write(tree / file, "".join(known), 0o755 if "/bin/" in file else 0o644)
    for name, target in server.links_of_every_host().items():
        link(tree / name, target)
    units = tree / "etc/systemd/system"
    for unit in UNWANTED:
        link(units / unit, "/dev/null")
    for unit, target in WANTED.items():
        link(units / "multi-user.target.wants" / unit, target)
    link(units / "default.target", "/usr/lib/systemd/system/multi-user.target")
    _let_us_in(tree)
    # No name server is asked, and each host makes an identity of its own when it first starts.
    for empty in ("etc/resolv.conf", "etc/machine-id"):
        (tree / empty).write_bytes(b"")
    for own in ("var/lib/dbus/machine-id", *(tree / "etc/ssh").glob("ssh_host_*")):
        (tree / own).unlink(missing_ok=True)


def _is_unknown(line: str, suite: str) -> bool:
    """Whether it is a setting that the programs of this suite refuse to read."""
    return line.startswith(UNKNOWN.get(suite, ()))


def _files() -> Mapping[str, str]:
    files = {
        path.relative_to(OVERLAY).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(OVERLAY.rglob("*"))
        if path.is_file()
    }
    return {**files, **server.every_host()}


def _layers() -> Iterator[str]:
    """All that decides what lies over the packages."""
    for pair in (*_files().items(), *server.links_of_every_host().items()):
        yield from pair
    yield place.public(place.key())
    yield Path(__file__).read_text(encoding="utf-8")


def _let_us_in(tree: Path) -> None:
    """The control login, and root for what a test does behind the platform's back."""
    key = place.public(place.key()) + "\n"
    place.order("chroot", tree, "useradd", "--create-home", "--shell", "/bin/bash", "gpuaas")
    for home in ("root", "home/gpuaas"):
        write(tree / home / ".ssh/authorized_keys", key)
        (tree / home / ".ssh").chmod(0o700)
    place.order("chroot", tree, "chown", "-R", "gpuaas:gpuaas", "/home/gpuaas/.ssh")
    (tree / "etc/sudoers.d/lab-control").chmod(0o440)


def write(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)


def link(path: Path, target: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.symlink_to(target)


def _digest(*words: str) -> str:
    return hashlib.sha256("\0".join(words).encode()).hexdigest()[:12]
