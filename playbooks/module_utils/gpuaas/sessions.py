"""Sessions: the open sessions of a tenant, and the key that opened each."""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from typing import Iterator, NamedTuple

from .paths import Refusal, Tree
from .probes import ProbeError, call
from .processes import slice_folder

OPEN, OPENED_WITH = "/run/systemd/sessions", "/run/gpuaas/sessions"
PATIENCE_SECONDS = 10.0
SCOPE = re.compile(r"session-[0-9A-Za-z]+\.scope")


class Session(NamedTuple):
    """`keys` are the blobs of what it was opened with; empty where nobody wrote that down."""

    id: str
    scope: str
    keys: frozenset[str]


def sessions_of(login: str, uid: int) -> list[Session]:
    """Logins alone: the user manager, which keeps what was started to stay, is none."""
    return [
        Session(id, _scope(id, told), opened_with(id))
        for id, told in told_sessions("/")
        if (told.get("USER"), told.get("UID")) == (login, str(uid))
        and told.get("CLASS", "").startswith("user")
    ]


def told_sessions(root: str) -> Iterator[tuple[str, dict[str, str]]]:
    """As logind keeps them. Raises OSError where it keeps none at all.

    The first word on each counts: what whoever is logged in may set comes after what logind knows,
    and is written down with whatever line breaks are in it.
    """
    folder = os.path.join(root, OPEN[1:])
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".ref") and not name.startswith("."):
            with suppress(FileNotFoundError), open(os.path.join(folder, name)) as file:
                told: dict[str, str] = {}
                for line in file:
                    key, _, value = line.rstrip("\n").partition("=")
                    told.setdefault(key, value)
                yield name, told


def _scope(id: str, told: dict[str, str]) -> str:
    """Its own and no other's, as all that is in it is killed."""
    named = told.get("SCOPE", "")
    return named if SCOPE.fullmatch(named) else f"session-{id}.scope"


def end_others(tree: Tree, login: str, uid: int, keys: frozenset[str]) -> None:
    """Ends every session but those opened with nothing else than these keys.

    Raises Refusal where one does not end.
    """
    for session in sessions_of(login, uid):
        if not session.keys or not session.keys <= keys:
            tree.changed = True
            if not tree.dry:
                _end(uid, session)


def _end(uid: int, session: Session) -> None:
    scope = os.path.join(slice_folder("/", uid), session.scope)
    _kill(scope)
    # It only writes down that it is over, and may be late where many talk to it.
    with suppress(ProbeError):
        call("loginctl", "terminate-session", session.id)
    until = time.monotonic() + PATIENCE_SECONDS
    while _populated(scope):
        if time.monotonic() > until:
            raise Refusal("processes_left", f"session {session.id} does not end")
        _kill(scope)
        time.sleep(0.05)


def _kill(scope: str) -> None:
    with suppress(OSError), open(f"{scope}/cgroup.kill", "w") as file:
        file.write("1")


def _populated(scope: str) -> bool:
    try:
        with open(f"{scope}/cgroup.events") as file:
            return "populated 1" in file.read()
    except (FileNotFoundError, OSError):
        return False


def opened_with(session: str) -> frozenset[str]:
    """Lines as `publickey ssh-ed25519 AAAA…`; other ways in have no blob, so no key of ours."""
    try:
        with open(os.path.join(OPENED_WITH, session)) as file:
            words = [line.split() for line in file]
    except FileNotFoundError:
        return frozenset()
    return frozenset(line[2] if len(line) > 2 else "" for line in words if line)
