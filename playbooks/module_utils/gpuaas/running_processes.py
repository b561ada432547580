"""What runs for each tenant now, in words: whom ending it would interrupt."""

from __future__ import annotations

from .passwd import Accounts
from .probes import Probes, printable, shortened
from .processes import alive
from .residue import user_mounts
from .sessions import opened_with, told_sessions
from .tenants import fingerprint


def read_running(probes: Probes) -> dict[str, list[str]]:
    """Login → its sessions with their keys, what it has mounted, and its processes by name."""
    tenants = {str(user.uid): user.login for user in Accounts(probes.root).tenants()}
    found: dict[str, list[str]] = {login: [] for login in tenants.values()}
    for id, told in told_sessions(probes.root):
        login = tenants.get(told.get("UID", ""))
        if login and told.get("CLASS", "").startswith("user"):
            keys = sorted(fingerprint(blob) for blob in opened_with(id) if blob)
            found[login].append(" ".join((f"session {printable(id)}", *keys)))
    for owner, what in user_mounts():
        if str(owner) in tenants:
            found[tenants[str(owner)]].append(what)
    for pid, name, uids in sorted(alive(probes.root)):
        if uids[0] in tenants and name not in MANAGERS:
            found[tenants[uids[0]]].append(f"process {pid} {name}")
    return {login: shortened(what) for login, what in found.items()}


MANAGERS = frozenset({"systemd", "(sd-pam)", "sshd", "sshd-session"})
"""What every session has, whatever is done in it."""
