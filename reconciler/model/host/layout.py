"""Layout of a host: every folder and file there that is the platform's, each said once.

The host's own programs state theirs again, as they import nothing of this; a test holds both
against each other.
"""

from __future__ import annotations

from reconciler.model.records import dataclass

SETTINGS, HOMES, DATA = "/etc/gpuaas", "/home", "/var/lib/gpuaas"
SCRATCH, VOLUMES, INSTANCES = f"{DATA}/scratch", f"{DATA}/volumes", f"{DATA}/instances"
"""Below the last stands what a tenant sees as /tmp, /var/tmp, /dev/shm, its session's settings, and
the folders in which storage is mounted.
"""

PRIVATE = ("shm", "tmp", "var-tmp", "session", "data", "datasets", "mnt", "workspace")
"""One for each of these, by login; the last four are where mount paths begin."""

MOUNTS = "/gpuaas"
"""Where volumes are really mounted, by allocation; nobody but root comes in."""

KEYS, SESSION = f"{SETTINGS}/ssh", f"{SETTINGS}/session"
RUNTIMES, PROGRAMS = "/opt/gpuaas/runtimes", "/usr/local/libexec/gpuaas"
RUNTIME_COMMAND = "/usr/local/bin/gpuaas-runtime"

UNITS, RUNTIME_UNITS = "/etc/systemd/system", "/run/systemd/system"
WANTS = f"{UNITS}/multi-user.target.wants"
DROP_IN = "60-gpuaas.conf"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPath:
    """A path of which there is one for each name: `before` it and `after` it never change."""

    before: str
    after: str = ""

    def of(self, name: str | int) -> str:
        return f"{self.before}{name}{self.after}"

    def name_in(self, path: str) -> str:
        """Whose path that is; empty where it is none of these."""
        if not path.startswith(self.before) or not path.endswith(self.after):
            return ""
        name = path[len(self.before) : len(path) - len(self.after)]
        return "" if "/" in name else name

    @property
    def folder(self) -> str:
        return self.before.rpartition("/")[0]


def instance(top: str) -> HostPath:
    """What a tenant sees as one of its PRIVATE folders, by login."""
    return HostPath(before=f"{INSTANCES}/{top}/")


HOME, KEY_FILE = HostPath(before=f"{HOMES}/"), HostPath(before=f"{KEYS}/")
"""By login."""

OWN_SCRATCH = HostPath(before=f"{SCRATCH}/")
DESCRIPTOR = HostPath(before=f"{SETTINGS}/allocations/", after=".json")
ENVIRONMENT, RESTART_MARK = (
    HostPath(before=f"{SETTINGS}/runtime/allocations/", after=after)
    for after in (".env", ".restart")
)
"""By the allocation's id."""

DEVICES = HostPath(before=f"{SETTINGS}/devices/", after=".json")
LOOPBACK = HostPath(before=f"{SETTINGS}/loopback/", after=".nft")
QUOTA = HostPath(before=f"{SETTINGS}/quotas/", after=".json")
SLICE = HostPath(before=f"{UNITS}/user-", after=".slice.d")
RUNTIME_SLICE = HostPath(before=f"{RUNTIME_UNITS}/user-", after=".slice.d")
USER_MANAGER = HostPath(before=f"{UNITS}/user@", after=".service.d")
"""By uid."""

VOLUME_RECORD = HostPath(before=f"{SETTINGS}/volumes/", after=".json")
VOLUME_MOUNT = HostPath(before=f"{VOLUMES}/")
"""By the volume's id."""


def mount_unit(place: str) -> str:
    """systemd names a mount unit by its place, and writes a dash in there as `\\x2d`."""
    name = place.strip("/").replace("-", "\\x2d").replace("/", "-")
    return f"{UNITS}/{name}.mount"
