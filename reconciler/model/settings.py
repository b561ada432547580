"""`gpuaas.yaml`: the settings of one fleet's repository."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from reconciler.model.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SshSettings:
    identity_file: str = ""
    user: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnershipRule:
    """Files that match `path` (a glob below the spec root) may hold only these kinds, projects."""

    path: str
    kinds: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishSettings:
    dir: str = ""
    ssh_host_suffix: str = ""
    proxy_jump: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PosixSettings:
    first_uid: int = 20000
    first_gid: int = 20000


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSettings:
    """Networks closed to tenants' logins: the control machine, consoles of the hosts."""

    closed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSettings:
    """Where the loop takes specs from: a branch or a tag of a repository, else what is checked out.

    `url` is empty for the repository that the fleet's folder lies in; of another one `path` leads
    from its top to the folder that holds the spec root. Whose signatures count stands in the file
    `allowed_signers` (ssh-keygen(1)), and in the keyring of the folder `gnupg_home`.
    """

    url: str = ""
    branch: str = ""
    tag: str = ""
    path: str = ""
    allowed_signers: str = ""
    gnupg_home: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSettings:
    """Where the loop shows its figures: a file for node_exporter, a port of this machine alone."""

    textfile: str = ""
    listen: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopSettings:
    """`observe_seconds` is how old what a host has shown may become before it is asked again."""

    interval_seconds: int = 60
    observe_seconds: int = 300
    source: SourceSettings = field(default_factory=SourceSettings)
    metrics: MetricsSettings = field(default_factory=MetricsSettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepSettings:
    """How much of what was is kept: folders of logs, runs and events in the state, snapshots."""

    logs: int = 20
    runs: int = 1000
    events: int = 10_000
    snapshots: int = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSettings:
    """Where Litestream copies the state to; the two files are those of a `sftp` place."""

    url: str = ""
    key_file: str = ""
    host_key_file: str = ""


TOLD_OF = ("contested", "degraded", "failed", "held", "problem", "refused")
"""Events of the loop that somebody should know of, unless they say otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSettings:
    """Where the address stands that takes messages: it may be a secret, so it is never here."""

    url_file: str = ""
    url_variable: str = ""
    format: str = "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationSettings:
    """Somebody who is told of events: by a `command`, or else by a `webhook`."""

    name: str
    command: tuple[str, ...] = ()
    webhook: WebhookSettings | None = None
    events: tuple[str, ...] = TOLD_OF
    projects: tuple[str, ...] = ()
    template: str = "[$fleet] $text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Paths are relative to `folder`, the absolute path of the folder that holds gpuaas.yaml."""

    folder: str
    operators: tuple[str, ...]
    spec_root: str = "specs"
    state: str = "state"
    descriptor_key: str = ".gpuaas/descriptor.key"
    ssh: SshSettings = field(default_factory=SshSettings)
    ownership: tuple[OwnershipRule, ...] = ()
    publish: PublishSettings = field(default_factory=PublishSettings)
    posix: PosixSettings = field(default_factory=PosixSettings)
    network: NetworkSettings = field(default_factory=NetworkSettings)
    loop: LoopSettings = field(default_factory=LoopSettings)
    keep: KeepSettings = field(default_factory=KeepSettings)
    replica: ReplicaSettings = field(default_factory=ReplicaSettings)
    notifications: tuple[NotificationSettings, ...] = ()
    index: Mapping[str, str] = field(default_factory=dict)
