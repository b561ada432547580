"""Logins: whether each tenant could log in, and whether each key opens what it is given for.

What is tried is what people do: PAM is asked about every account as sshd asks it, and somebody who
is a tenant and nobody's really logs in, once a look.
"""

from __future__ import annotations

import base64
import os
import struct
import time
from contextlib import contextmanager
from typing import Iterable, Iterator, Optional

from . import trial_login
from .connections import CONFIG, Connection, criteria
from .files import put_file, read_by, remove_file
from .host_lock import is_ours
from .pam_check import admitted
from .passwd import Accounts, User
from .paths import Refusal, Tree
from .patience import comes_true
from .probes import BUDGET, OPEN_FOLDER, ProbeError, Probes, call, printable
from .processes import slice_folder
from .sessions import told_sessions
from .sshd import PROBE, Told, ask, connection, lets_in, value_of

ADMITTED, ACCEPTED, REFUSED = "admitted", "accepted", "refused: "
LOCK, LOCK_SECONDS = "/run/gpuaas-trial_login.lock", 20.0
BOOTING, BOOT_SECONDS = ("initializing", "starting"), 15.0
END_SECONDS = 3.0
MAX_TOLD = 5
LEAST_BITS = 1024
"""What sshd itself insists on where it has no word for it."""

SIGNED_BY = {"ssh-rsa": ("rsa-sha2-512", "rsa-sha2-256", "ssh-rsa")}
ALGORITHMS = ("pubkeyacceptedalgorithms", "pubkeyacceptedkeytypes")


def read_logins(probes: Probes) -> dict[str, str]:
    """`admitted`, or `refused: why`, of each tenant and of the probe, which really logs in."""
    accounts = Accounts(probes.root)
    probe = accounts.user(PROBE)
    users = [*accounts.tenants(), *([probe] if probe else [])]
    # Without a folder for keys nobody gets in, and a look is not what makes one.
    if not users or not os.path.isdir(probes.at(trial_login.KEYS[1:])):
        return {}
    _await_boot()
    found = {login: _fact(why) for login, why in _hindrances(probes.root, users).items()}
    if found.get(PROBE) == ADMITTED:
        found[PROBE] = _fact(_enter_as_probe())
    return found


def read_keys(probes: Probes) -> dict[str, str]:
    """`accepted`, or which keys sshd does not take from each tenant's people, and why."""
    found = {}
    for user in Accounts(probes.root).tenants():
        path = probes.at(trial_login.KEYS[1:], user.login)
        if os.path.isfile(path):
            with open(path, encoding="utf-8", errors="replace") as file:
                lines = [line for line in file.read().splitlines() if line and line[0] != "#"]
            told = _answer(probes.root, user.login, _tells_apart(probes.root))
            odd = [why for line in lines for why in [refused(line, told)] if why]
            more = [f"and {len(odd) - MAX_TOLD} more"] if len(odd) > MAX_TOLD else []
            found[user.login] = _fact("; ".join([*odd[:MAX_TOLD], *more]), ACCEPTED)
    return found


def refused(line: str, told: Told) -> str:
    """Why sshd takes no signature of the key in this line of a key file; '' where it does."""
    words = line.split()
    at = next((at for at, word in enumerate(words[:-1]) if words[at + 1].startswith("AAAA")), None)
    if at is None:
        return ""
    kind, whose = words[at], printable(words[-1])
    taken = next((value_of(told, name) for name in ALGORITHMS if name in told), "").split(",")
    if not set(SIGNED_BY.get(kind, (kind,))) & set(taken):
        return f"{whose} is {kind}, which PubkeyAcceptedAlgorithms of this sshd leaves out"
    least = int((told.get("requiredrsasize") or [str(LEAST_BITS)])[0])
    bits = _bits(words[at + 1]) if kind == "ssh-rsa" else None
    if bits is not None and bits < least:
        return f"{whose} is {kind} of {bits} bits, and RequiredRSASize of this sshd is {least}"
    return ""


def try_door(tree: Tree, login: str, path: str) -> None:
    """Somebody logs in by a key of one use, before people's own keys lie there.

    Raises Refusal where nobody would get in; then there is no key file.
    """
    user = Accounts("/").user(login)
    if user is None:
        return
    # Whoever is at work there goes on: only what the login itself has begun is ended.
    lives, why = os.path.isdir(slice_folder("/", user.uid)), ""
    try:
        _await_boot()
        why = _hindrances("/", [user])[login]
        with _alone():
            owner = read_by(user.gid)
            why = why or _entered(login, lambda line: put_file(tree, path, line, "0640", owner))
            if not lives:
                _end(login)
    except ProbeError:
        # Where no login can be tried, what PAM says has to do.
        pass
    if why and not why.startswith("unknown"):
        remove_file(tree, path)
        raise Refusal("login_refused", f"nobody would get in as {login}: {why}")


def _hindrances(root: str, users: Iterable[User]) -> dict[str, str]:
    """Login → what keeps it out before it is anybody's turn to log in; '' for nothing."""
    apart = _tells_apart(root)
    told = {user.login: _answer(root, user.login, apart) for user in users}
    one = connection(PROBE)
    service = next((v for t in told.values() for v in t.get("pamservicename", ())), "sshd")
    said = admitted(told, service, one.addr)
    return {
        user.login: _hindrance(user, told[user.login], one._replace(user=user.login))
        or said[user.login]
        for user in users
    }


def _hindrance(user: User, told: Told, one: Connection) -> str:
    if not os.access(user.shell, os.X_OK):
        return f"its shell {printable(user.shell)} is no program"
    lists = "AllowUsers, AllowGroups, DenyUsers or DenyGroups"
    return "" if lets_in(told, one, user.login) else f"sshd keeps it out by {lists}"


def _tells_apart(root: str) -> bool:
    """Whether sshd's files have other settings for some accounts than for others."""
    return any(one.word in ("user", "group") for one in criteria(root))


def _answer(root: str, login: str, apart: bool) -> Told:
    return ask(connection(login if apart else PROBE), os.path.join(root, CONFIG))


def _enter_as_probe() -> str:
    """Its key file is there for as long as it takes, and its session leaves nothing."""
    tree = Tree(os.open("/", OPEN_FOLDER), dry=False)
    path = f"{trial_login.KEYS}/{PROBE}"
    try:
        with _alone():
            try:
                return _entered(PROBE, lambda line: put_file(tree, path, line, "0644"))
            finally:
                remove_file(tree, path)
                _end(PROBE)
                trial_login.forget_folders(PROBE)
    except ProbeError as error:
        return f"unknown: {error}"
    except Refusal as refusal:
        return f"unknown: {refusal.message}"
    finally:
        os.close(tree.root)


def _entered(login: str, put: trial_login.Door) -> str:
    one = connection(login)
    told = ask(connection(PROBE))
    accepted = next((value_of(told, name) for name in ALGORITHMS if name in told), "")
    return trial_login.why_refused(login, one.laddr, one.lport, accepted, put)


def _end(login: str) -> None:
    trial_login.end(login)
    comes_true(lambda: not _has_session(login), END_SECONDS, 0.05)


def _has_session(login: str) -> bool:
    return any(told.get("USER") == login for _, told in told_sessions("/"))


def _fact(why: str, sound: str = ADMITTED) -> str:
    return sound if not why else why if why.startswith("unknown") else f"{REFUSED}{why}"


def _bits(blob: str) -> Optional[int]:
    """Of an RSA key's modulus: the third field of its blob; None where it cannot be read."""
    try:
        data = base64.b64decode(blob + "=" * (-len(blob) % 4))
    except ValueError:
        return None
    fields: list[bytes] = []
    while len(data) >= 4 and len(fields) < 3:
        (length,) = struct.unpack(">I", data[:4])
        fields.append(data[4 : 4 + length])
        data = data[4 + length :]
    return int.from_bytes(fields[2], "big").bit_length() if len(fields) == 3 else None


def _await_boot() -> None:
    """While a host starts it lets nobody in, and says so by a file of its own; that passes."""
    until = time.monotonic() + BUDGET.left(BOOT_SECONDS)
    while os.path.exists("/run/nologin") and time.monotonic() < until:
        if call("systemctl", "is-system-running").stdout.strip() not in BOOTING:
            return
        time.sleep(0.5)


@contextmanager
def _alone() -> Iterator[None]:
    """One tries at a time; nobody but root could hold the lock."""
    lock = os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(lock, 0o600)
        if not comes_true(lambda: is_ours(lock), BUDGET.left(LOCK_SECONDS), 0.1):
            raise ProbeError("somebody else is trying a login")
        yield
    finally:
        os.close(lock)
