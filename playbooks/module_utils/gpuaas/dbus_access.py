"""The system bus: whether a tenant who has dropped all groups has access, by trying it."""

from __future__ import annotations

import pwd

from .probes import ProbeError, Probes, call, failure
from .sshd import PROBE

ASK = (
    *("busctl", "--system", "--timeout=5", "call"),
    *("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "GetId"),
)
SHUT = ("not connected", "reset by peer", "ccess denied", "ermission denied")
"""What is said by whom the bus hangs up on; any other failure says nothing of that."""


def read_bus(probes: Probes) -> dict[str, str]:
    """`closed`, if the probe, who is a tenant and nobody's, may not connect."""
    try:
        user = pwd.getpwnam(PROBE)
    except KeyError:
        return {}
    numbers = ("--reuid", str(user.pw_uid), "--regid", str(user.pw_gid))
    done = call("setpriv", *numbers, "--clear-groups", *ASK)
    if done.returncode == 0:
        return {"tenants": "open"}
    if any(word in done.stderr for word in SHUT):
        return {"tenants": "closed"}
    raise ProbeError(failure("busctl", done))
