"""Tenants: their accounts and slices as named facts, their sessions, and keys that are not ours."""

from __future__ import annotations

import os

from .probes import ProbeError, Probes, printable

SESSIONS = "run/systemd/sessions"


def read_tenants(probes: Probes) -> dict[str, str]:
    return probes.words({})


def read_stray_keys(probes: Probes) -> dict[str, list[str]]:
    """Login → keys in files of its own, which open nothing here."""
    raise ProbeError("keys of people's own are not looked for")


def read_sessions(probes: Probes) -> dict[str, int]:
    """Login → open sessions, as logind keeps them."""
    found: dict[str, int] = {}
    for name in os.listdir(probes.at(SESSIONS)):
        if name.endswith(".ref"):
            continue
        try:
            lines = probes.text(SESSIONS, name).splitlines()
        except FileNotFoundError:
            continue
        session = dict(line.partition("=")[::2] for line in lines)
        if session.get("CLASS", "").startswith("user"):
            login = printable(session.get("USER", ""))
            found[login] = found.get(login, 0) + 1
    return found
