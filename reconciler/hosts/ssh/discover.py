"""Discovery: hosts that no spec describes yet, their keys and their hardware.

What is found here is a proposal for people to read and approve; nothing is believed by it.
"""

from __future__ import annotations

import base64
import binascii
import re
from datetime import datetime

from reconciler.hosts.ansible.executor import RunOptions
from reconciler.hosts.ansible.receipts import plain
from reconciler.hosts.evidence import Question, ask, run_bounded
from reconciler.model.host.evidence import Observation
from reconciler.model.plan.work import Host
from reconciler.model.problem import refuse
from reconciler.stops import around

SCAN_SECONDS = 10
ADDRESS = re.compile(r"[0-9A-Za-z:]([0-9A-Za-z.:-]*[0-9A-Za-z:])?", re.ASCII)
LINE = re.compile(
    r"\S+ (?P<sort>ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(?:256|384|521)) (?P<blob>[0-9A-Za-z+/]+=*)",
    re.ASCII,
)


def scan(address: str, port: int) -> tuple[str, ...]:
    """The host keys that an address shows to anybody, each type and key, in order.

    Raises ProblemError `host_unreachable` where none is shown.
    """
    if not ADDRESS.fullmatch(address):
        raise refuse("host_unreachable", f"{address!r} is no address", "give a name or an IP")
    command = ("ssh-keyscan", "-T", str(SCAN_SECONDS), "-t", "ed25519,ecdsa,rsa", "-p", str(port))
    with around("scan"):
        ended = run_bounded((*command, "--", address), b"", 3 * SCAN_SECONDS)
    lines = ended.output.decode("ascii", "replace").splitlines()
    keys = sorted({key for line in lines if (key := key_of(line))})
    if not keys:
        told = ended.errors.decode("utf-8", "replace").splitlines()
        said = plain("; ".join(dict.fromkeys(line for line in told if line[:1] != "#")))
        raise refuse(
            "host_unreachable",
            f"{address} port {port} shows no host key: {said or 'no answer'}",
            "does sshd run there, and may this machine reach it?",
        )
    return tuple(keys)


def discover(host: Host, options: RunOptions, *, at: datetime) -> Observation:
    """What a host is made of, told through a new connection and by the keys in `host` alone."""
    (found,) = ask([(host, Question(topology=True, fresh=True))], options, at=at)
    return found


def key_of(line: str) -> str:
    """A key of a type that a spec may hold; empty for anything else that a network may send."""
    match = LINE.fullmatch(line)
    if match is None:
        return ""
    sort = match["sort"].encode("ascii")
    try:
        raw = base64.b64decode(match["blob"], validate=True)
    except binascii.Error:
        return ""
    return f"{match['sort']} {match['blob']}" if raw[4 : 4 + len(sort)] == sort else ""
