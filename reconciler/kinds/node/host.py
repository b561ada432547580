"""A node on its host: the walls between its tenants, and the hardening beside them.

A wall that does not show makes the host unfit for tenants. What hardens is written and read back
too, but where a kernel does not take it the host is only reported as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from ipaddress import IPv4Network, IPv6Network, collapse_addresses, ip_network
from typing import TypeVar

from reconciler.kinds.allocation.containers import allows_containers, user_namespaces
from reconciler.kinds.contract import Binding, Context
from reconciler.kinds.node.spec import NodeSpec, control_login
from reconciler.model.canonical import text_digest
from reconciler.model.host import layout
from reconciler.model.host.capacity import Isolation
from reconciler.model.host.evidence import Check, CheckResult, NodeFacts
from reconciler.model.host.facts.named_fact import UNKNOWN, is_told_in_full, is_unknown, word_of
from reconciler.model.host.facts.path_fact import file_fact, folder_fact, link_fact
from reconciler.model.host.posix import LAST_UID, numbers
from reconciler.model.plan.items.item import FileItem, PathItem
from reconciler.model.plan.items.node import BlockItem, PrepareItem
from reconciler.model.plan.plan import Order, Step, step_id
from reconciler.model.plan.verb import Verb
from reconciler.model.spec.desired import Desired

UNDO_AFTER = 120
"""Seconds after which a host puts all back by itself."""

PROGRAM_MODE, FILE_MODE = "0755", "0644"
RULES, NETWORK = f"{layout.SETTINGS}/network.nft", "node/network.nft.j2"

FOLDERS: Mapping[str, str] = {
    # What root alone reads of tenants; and where each reads its own, and sees no list of others.
    layout.DESCRIPTOR.folder: "0700",
    layout.DEVICES.folder: "0700",
    layout.LOOPBACK.folder: "0700",
    layout.ENVIRONMENT.folder: "0711",
    layout.SESSION: "0755",
    layout.VOLUME_RECORD.folder: "0700",
    layout.HOMES: "0711",
    # Closed to all but root, or pam_namespace does not use them.
    **{layout.instance(top).folder: "0000" for top in sorted(layout.PRIVATE)},
}
FILES: Mapping[str, tuple[str, str]] = {
    "/etc/dbus-1/system.d/gpuaas.conf": ("node/dbus.conf", FILE_MODE),
    RULES: (NETWORK, FILE_MODE),
    "/etc/polkit-1/rules.d/00-gpuaas.rules": ("node/polkit.rules", FILE_MODE),
    "/etc/security/limits.d/60-gpuaas.conf": ("node/limits.conf", FILE_MODE),
    "/etc/security/namespace.d/gpuaas-private-proc": ("node/private-proc.sh", PROGRAM_MODE),
    "/etc/security/namespace.d/gpuaas.conf": ("node/namespace.conf", FILE_MODE),
    "/etc/ssh/sshd_config.d/10-gpuaas.conf": ("node/sshd.conf", FILE_MODE),
    "/etc/sysctl.d/60-gpuaas.conf": ("node/sysctl.conf.j2", FILE_MODE),
    "/etc/systemd/logind.conf.d/60-gpuaas.conf": ("node/logind.conf", FILE_MODE),
    f"{layout.UNITS}/gpuaas-devices.service": ("node/devices.service", FILE_MODE),
    f"{layout.UNITS}/gpuaas-network.service": ("node/network.service", FILE_MODE),
    f"{layout.UNITS}/gpuaas-seal@.service": ("node/seal.service", FILE_MODE),
    f"{layout.UNITS}/gpuaas-settle.service": ("node/settle.service", FILE_MODE),
    f"{layout.UNITS}/gpuaas-stage@.service": ("node/stage.service.j2", FILE_MODE),
    f"{layout.UNITS}/gpuaas.slice": ("node/gpuaas.slice", FILE_MODE),
    f"{layout.UNITS}/user-.slice.d/50-gpuaas.conf": ("node/slice-closed.conf", FILE_MODE),
    "/etc/sysusers.d/gpuaas.conf": ("node/sysusers.conf", FILE_MODE),
    "/etc/tmpfiles.d/gpuaas.conf": ("node/tmpfiles.conf", FILE_MODE),
    layout.RUNTIME_COMMAND: ("node/gpuaas-runtime.sh", PROGRAM_MODE),
    f"{layout.PROGRAMS}/devices": ("node/devices.py", PROGRAM_MODE),
    f"{layout.PROGRAMS}/network": ("node/network.sh", PROGRAM_MODE),
    f"{layout.PROGRAMS}/session-opened": ("node/session-opened.sh", PROGRAM_MODE),
    f"{layout.PROGRAMS}/stage": ("node/stage.py", PROGRAM_MODE),
}
"""Path → template and mode."""

BLOCKS: Mapping[str, tuple[str, str]] = {
    # The last word on a setting counts there: nobody else is given numbers of tenants.
    "/etc/login.defs": ("node/login.defs.j2", "end"),
    # Whoever must not pass is stopped before anything else of the stack can let them in.
    "/etc/pam.d/atd": ("node/pam-jobs", "start"),
    "/etc/pam.d/cron": ("node/pam-jobs", "start"),
    # What a session is given comes after it has become one.
    "/etc/pam.d/sshd": ("node/pam-sshd", "end"),
    "/etc/pam.d/systemd-user": ("node/pam-systemd-user", "end"),
}
"""Lines of ours in the distribution's file: template and place."""

OPEN_SLICE = "node/slice-open.conf"
UNITS = ("gpuaas-devices.service", "gpuaas-network.service", "gpuaas-settle.service")
TEMPLATES = (*(name for name, _ in (*FILES.values(), *BLOCKS.values())), OPEN_SLICE)

METADATA = ("169.254.0.0/16", "fd00:ec2::254/128", "fd20:ce::254/128")
"""Where clouds tell a machine its secrets."""

AnyNetwork = TypeVar("AnyNetwork", IPv4Network, IPv6Network)

SSHD = (
    "admitted=yes authenticationmethods=publickey authorizedkeyscommand=none"
    f" authorizedkeysfile={layout.KEY_FILE.of('%u')} authorizedprincipalscommand=none"
    " authorizedprincipalsfile=none gssapiauthentication=no hostbasedauthentication=no"
    " kbdinteractiveauthentication=no kerberosauthentication=no passwordauthentication=no"
    " permittunnel=no permituserenvironment=no permituserrc=no pubkeyauthentication=yes"
    " strictmodes=yes trustedusercakeys=none usepam=yes"
)
"""What must hold for a tenant, wherever in sshd's files it is said."""

IN_FORCE: Mapping[str, str] = {
    "bus tenants": "closed",
    "cgroup fs": "cgroup2",
    "devices control": "auto",
    "devices default": (
        "closed: /dev/fuse rw, /dev/net/tun rw, /dev/ptmx rw, /dev/tty rw, char-pts rw"
    ),
    "door at": "shut",
    "door cron": "shut",
    "environment sshd": "closed",
    "environment systemd-user": "closed",
    f"folder {layout.HOMES}": folder_fact("0711"),
    "group gpuaas-tenants": "present",
    "network sshd": "closed to tenants",
    "sshd startups": "shared out by address",
    "sshd tenants": SSHD,
}
CONTROLLERS = frozenset({"cpu", "cpuset", "io", "memory", "pids"})
HARDENING: Mapping[str, str] = {
    "disk quotas": "of each tenant",
    "disk reserve": "whole",
    "disk tenants": "apart from the host's own",
    "driver accounting": "on where cards can",
    "driver module": "at boot",
    "driver persistence": "on",
    "mail pipes": "none",
    "setuid extra": "none",
    "sysctl kernel.dmesg_restrict": "1",
    "sysctl kernel.io_uring_disabled": "1",
    "sysctl kernel.kptr_restrict": "2",
    "sysctl kernel.perf_event_paranoid": "3",
    "sysctl kernel.yama.ptrace_scope": "1",
}
NAMESPACES = "sysctl user.max_user_namespaces"


def basis(binding: Binding, context: Context) -> Mapping[str, object]:
    """The same on every host but for who works on it."""
    spec = _account_node(binding)
    if spec is None:
        return {}
    digests = {name: context.template_digests[name] for name in TEMPLATES}
    return {
        "login": control_login(spec, context.desired.settings),
        "templates": digests,
        "values": _values(context.desired),
        "walls": IN_FORCE,
    }


def steps(binding: Binding, context: Context) -> tuple[Step, ...]:
    """A node that leaves the specs stays as it is: what closes it to tenants harms nobody."""
    spec = _account_node(binding)
    if spec is None:
        return ()
    values = _values(context.desired)
    files = {path: (context.render(name, values), mode) for path, (name, mode) in FILES.items()}
    blocks = {path: (context.render(name, values), place) for path, (name, place) in BLOCKS.items()}
    opened = context.render(OPEN_SLICE, {})
    node = binding.placement.node
    return (
        Step(
            id=step_id(node, Verb.PREPARE, binding.ref),
            verb=Verb.PREPARE,
            node=node,
            ref=binding.ref,
            order=Order.PROVIDE,
            item=PrepareItem(
                login=control_login(spec, context.desired.settings),
                undo_after=UNDO_AFTER,
                directories=tuple(PathItem(path=path, mode=mode) for path, mode in FOLDERS.items()),
                files=tuple(
                    FileItem(path=path, mode=mode, content=content)
                    for path, (content, mode) in files.items()
                ),
                blocks=tuple(
                    BlockItem(path=path, content=content, place=place)
                    for path, (content, place) in blocks.items()
                ),
                open_slice=opened,
                units=UNITS,
            ),
            expected={
                **_expected_paths(files, opened),
                **{
                    f"block {path}": text_digest(content)
                    for path, (content, place) in blocks.items()
                    if place == "end"
                },
                **IN_FORCE,
                "numbers others": f"up to {values['last_of_others']}",
                "network walls": f"in force {text_digest(files[RULES][0])}",
            },
        ),
    )


def expected(binding: Binding, context: Context) -> Mapping[str, str | None]:
    return {key: fact for step in steps(binding, context) for key, fact in step.expected.items()}


def hardening(facts: NodeFacts, *, containers: bool) -> tuple[Check, ...]:
    """What would hold tenants tighter still: where it does not, it is reported as not enforced.

    With containers, what these need is among it.
    """
    named = facts.platform or {}
    wanted = {**HARDENING, NAMESPACES: user_namespaces(containers)}
    if containers:
        wanted["containers missing"] = "none"
    switches = _switches(named, dict(sorted(wanted.items())))
    return (*switches, _controllers(named.get("controllers root", UNKNOWN)))


def _switches(named: Mapping[str, str], switches: Mapping[str, str]) -> Iterator[Check]:
    for name, wanted in switches.items():
        listed = is_told_in_full(named, word_of(name))
        found = named.get(name, "not there" if listed else UNKNOWN)
        if is_unknown(found):
            yield Check(name=name, result=CheckResult.UNKNOWN, value=found)
        elif found == wanted:
            yield Check(name=name, result=CheckResult.PASS, value=found)
        else:
            yield Check(name=name, result=CheckResult.FAIL, value=f"{found}, not {wanted}")


def _controllers(found: str) -> Check:
    """Without a controller the limits of a slice are accepted, and bind nobody."""
    name = "controllers root"
    if is_unknown(found):
        return Check(name=name, result=CheckResult.UNKNOWN, value=found)
    if missing := sorted(CONTROLLERS - set(found.split())):
        return Check(name=name, result=CheckResult.FAIL, value=f"without {', '.join(missing)}")
    return Check(name=name, result=CheckResult.PASS, value=found)


def _values(desired: Desired) -> Mapping[str, object]:
    """What the fleet's settings and its Policy say of every host alike."""
    closed = [
        ip_network(one, strict=False) for one in (*METADATA, *desired.settings.network.closed)
    ]
    return {
        "user_namespaces": user_namespaces(allows_containers(desired)),
        "last_of_others": _last_of_others(desired),
        "tenants": list(numbers(desired.settings.posix.first_uid, LAST_UID)),
        "closed4": _collapsed(one for one in closed if isinstance(one, IPv4Network)),
        "closed6": _collapsed(one for one in closed if isinstance(one, IPv6Network)),
    }


def _last_of_others(desired: Desired) -> int:
    """The highest number that the tools of a host give to anybody else.

    Where tenants begin so low that nobody else had any, the distribution's own limit stays.
    """
    posix = desired.settings.posix
    last = min(posix.first_uid, posix.first_gid) - 1
    return last if last >= LEAST_FOR_OTHERS else DISTRIBUTIONS_LIMIT


LEAST_FOR_OTHERS, DISTRIBUTIONS_LIMIT = 1999, 60000


def _collapsed(networks: Iterable[AnyNetwork]) -> list[str]:
    """No two that overlap, of which no set may have any."""
    return [str(one) for one in collapse_addresses(networks)]


def _account_node(binding: Binding) -> NodeSpec | None:
    """Its spec, if its tenants are kept apart by accounts."""
    spec: NodeSpec | None = binding.resource.spec if binding.resource else None
    return spec if spec is not None and spec.isolation is Isolation.ACCOUNT else None


def _expected_paths(files: Mapping[str, tuple[str, str]], opened: str) -> Mapping[str, str]:
    """`/home` lies beside the platform's paths and is read by name; links say what is enabled."""
    written = {**files, f"{layout.SLICE.of(0)}/60-gpuaas-open.conf": (opened, "0644")}
    return {
        **{path: folder_fact(mode) for path, mode in FOLDERS.items() if path != layout.HOMES},
        **{
            path: file_fact(mode, text_digest(content)) for path, (content, mode) in written.items()
        },
        **{f"{layout.WANTS}/{unit}": link_fact(f"{layout.UNITS}/{unit}") for unit in UNITS},
    }
