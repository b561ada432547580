"""The platform's own settings on a host, as named facts: what is in force, not what was written."""

from __future__ import annotations

from .probes import Probes


def read_platform(probes: Probes) -> dict[str, str]:
    return probes.words({})
