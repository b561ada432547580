"""The platform's settings on a host, as named facts: what is in force, not what was written.

A wall is read back where its owner says what holds: sshd of its own effective settings, systemd
of its slices, the kernel of its switches.
"""

from __future__ import annotations

import grp
import os
import re
import stat

from .dbus_access import read_bus
from .digests import sha256
from .driver import read_driver
from .free_space import read_disk
from .listeners import read_startups
from .network import read_walls
from .pam import USERS_OWN, VENDOR, block_of, included, unclear
from .probes import Probes, found_in_path, lines_of, path_fact, printable, unless_gone
from .sshd import TENANTS, read_sshd

NOBODYS_UID = 19999
"""No tenant's and nobody's: what holds in its slice is what holds where nothing was said."""

SYSCTLS = (
    "kernel.dmesg_restrict",
    "kernel.io_uring_disabled",
    "kernel.kptr_restrict",
    "kernel.perf_event_paranoid",
    "kernel.yama.ptrace_scope",
    "user.max_user_namespaces",
)
ROOTLESS = ("crun", "newgidmap", "newuidmap", "podman")
"""What a tenant needs to run containers of its own."""

STACKS = ("sshd", "systemd-user")
BLOCKS = ("login.defs", *(f"pam.d/{stack}" for stack in STACKS))
DOORS = {"at": "usr/sbin/atd", "cron": "usr/sbin/cron"}
MAILERS = ("usr/sbin/exim4", "usr/sbin/postfix", "usr/sbin/sendmail")

PROGRAMS = (
    *("usr/bin", "usr/sbin", "usr/local/bin", "usr/local/sbin", "usr/libexec"),
    *("usr/lib/openssh", "usr/lib/dbus-1.0", "usr/lib/polkit-1"),
)
DISTRIBUTIONS_OWN = frozenset(
    (
        *("at", "bsd-write", "chage", "chfn", "chsh", "crontab", "dbus-daemon-launch-helper"),
        *("dotlockfile", "expiry", "fusermount", "fusermount3", "gpasswd", "mount", "mount.cifs"),
        *("mount.nfs", "newgidmap", "newgrp", "newuidmap", "ntfs-3g", "nvidia-modprobe"),
        *("pam_extrausers_chkpwd", "passwd", "pkexec", "plocate", "polkit-agent-helper-1", "pppd"),
        *("ssh-agent", "ssh-keysign", "su", "sudo", "umount", "unix_chkpwd", "wall", "write"),
    )
)
"""Programs that distributions give more rights than their callers have."""


def read_platform(probes: Probes) -> dict[str, str]:
    return probes.words(
        {
            "block": read_blocks,
            "bus": read_bus,
            "cgroup": read_cgroup,
            "controllers": read_controllers,
            "containers": read_containers,
            "devices": read_devices,
            "disk": read_disk,
            "door": read_doors,
            "driver": read_driver,
            "environment": read_environments,
            "folder": read_folders,
            "group": read_group,
            "mail": read_mail,
            "network": read_walls,
            "numbers": read_limits,
            "setuid": read_setuid,
            "sshd": lambda probes: {**read_sshd(probes), **read_startups(probes)},
            "sysctl": read_sysctls,
        }
    )


def read_blocks(probes: Probes) -> dict[str, str]:
    """Digest of our lines in each file of the distribution that has some."""
    texts = {f"/etc/{file}": text_in(probes, file) for file in BLOCKS}
    told = {path: f"unclear: {why}" for path in texts if (why := unclear(texts[path]))}
    blocks = {path: block_of(text) for path, text in texts.items()}
    return {**{path: digest(block) for path, block in blocks.items() if block}, **told}


def block_in(probes: Probes, file: str) -> str:
    return block_of(text_in(probes, file))


def text_in(probes: Probes, file: str) -> str:
    try:
        return probes.text("etc", file)
    except FileNotFoundError:
        return ""


def read_environments(probes: Probes) -> dict[str, str]:
    """Whether files of a tenant's own speak to programs that PAM starts as root."""
    found = {}
    for stack in STACKS:
        texts = texts_of(probes, stack)
        speaking = sorted(printable(path) for path in texts if USERS_OWN.search(texts[path]))
        found[stack] = f"open: {', '.join(speaking)}" if speaking else "closed"
    return found


def texts_of(probes: Probes, stack: str) -> dict[str, str]:
    """Path → text of a stack and of all that it is made of, as PAM finds them."""
    texts: dict[str, str] = {}
    todo = [stack]
    while todo:
        name = todo.pop()
        places = [name] if name.startswith("/") else [f"/etc/pam.d/{name}", VENDOR + name]
        path = next((one for one in places if os.path.exists(probes.at(one[1:]))), "")
        if path and path not in texts:
            texts[path] = probes.text(path[1:])
            todo += included(texts[path])
    return texts


def digest(text: str) -> str:
    return "sha256:" + sha256(text.encode("utf-8")).hexdigest()


def read_cgroup(probes: Probes) -> dict[str, str]:
    """By the file system's own type; a process's own cgroup file does not tell."""
    (kind,) = lines_of("stat", "-f", "-c", "%T", probes.at("sys/fs/cgroup"))
    return {"fs": "cgroup2" if kind == "cgroup2fs" else kind}


def read_controllers(probes: Probes) -> dict[str, str]:
    """What the kernel can bound; `none` in a container that was given none."""
    names = probes.text("sys/fs/cgroup/cgroup.controllers").split()
    return {"root": " ".join(sorted(names)) or "none"}


def read_containers(probes: Probes) -> dict[str, str]:
    missing = [name for name in ROOTLESS if found_in_path(name) is None]
    return {"missing": ", ".join(missing) or "none"}


def read_devices(probes: Probes) -> dict[str, str]:
    """What whoever logs in may open, and what the platform itself may."""
    control = os.environ.get("SUDO_UID") or str(os.getuid())
    uids = {"default": str(NOBODYS_UID), "control": control}
    return {name: rules_of(f"user-{uid}.slice") for name, uid in uids.items()}


def rules_of(unit: str) -> str:
    """`closed: /dev/tty rw, …`, in the order of the names; `auto` is everything."""
    lines = lines_of("systemctl", "show", unit, "--property=DevicePolicy,DeviceAllow")
    pairs = [line.partition("=") for line in lines]
    (policy,) = [value for key, _, value in pairs if key == "DevicePolicy"]
    allowed = sorted(value for key, _, value in pairs if key == "DeviceAllow" and value)
    return printable(f"{policy}: {', '.join(allowed)}" if allowed else policy)


def read_doors(probes: Probes) -> dict[str, str]:
    """Ways to start something outside of one's slice: shut, or not there at all."""
    open_ones = [
        door
        for door, program in DOORS.items()
        if os.path.lexists(probes.at(program))
        and f"notingroup {TENANTS}" not in block_in(probes, f"pam.d/{os.path.basename(program)}")
    ]
    return {door: "open" if door in open_ones else "shut" for door in DOORS}


def read_folders(probes: Probes) -> dict[str, str]:
    root = os.open(probes.root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return {"/home": path_fact(root, "home")}
    finally:
        os.close(root)


def read_group(probes: Probes) -> dict[str, str]:
    try:
        return {TENANTS: "present"} if grp.getgrnam(TENANTS) else {}
    except KeyError:
        return {}


LIMIT = re.compile(r"^\s*(UID_MAX|GID_MAX)\s+(\d+)", re.MULTILINE)
UNLIMITED = "60000"
"""What the tools go by where nobody has said anything."""


def read_limits(probes: Probes) -> dict[str, str]:
    """Up to which numbers `useradd` and `groupadd` give: the last word on each counts."""
    try:
        said = dict(LIMIT.findall(probes.text("etc/login.defs")))
    except FileNotFoundError:
        said = {}
    limits = [int(said.get(name, UNLIMITED)) for name in ("UID_MAX", "GID_MAX")]
    return {"others": f"up to {max(limits)}"}


def read_mail(probes: Probes) -> dict[str, str]:
    """A mailer runs what a person's own .forward says, outside of any slice."""
    there = [name for name in MAILERS if os.path.exists(probes.at(name))]
    return {"pipes": f"possible: /{', /'.join(there)}" if there else "none"}


def read_setuid(probes: Probes) -> dict[str, str]:
    """Programs with more rights than their callers, beyond those every distribution has.

    Looked for where programs stand, not on the whole disk.
    """
    found = []
    for place in PROGRAMS:
        try:
            entries = list(os.scandir(probes.at(place)))
        except FileNotFoundError:
            continue
        for entry in entries:
            with unless_gone():
                mode = entry.stat(follow_symlinks=False).st_mode
                raised = stat.S_ISREG(mode) and mode & (stat.S_ISUID | stat.S_ISGID)
                if raised and entry.name not in DISTRIBUTIONS_OWN:
                    found.append(f"/{place}/{printable(entry.name)}")
    return {"extra": ", ".join(sorted(found)) or "none"}


def read_sysctls(probes: Probes) -> dict[str, str]:
    """A switch that this kernel has not is not there."""
    found = {}
    for name in SYSCTLS:
        try:
            found[name] = probes.text("proc/sys", *name.split(".")).strip()
        except FileNotFoundError:
            continue
    return found
