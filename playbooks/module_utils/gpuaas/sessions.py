"""Open sessions of a tenant, and the key that each was opened with."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import Iterator, NamedTuple

from .paths import Refusal, Tree
from .probes import call
from .processes import slice_folder

OPEN, OPENED_WITH = "/run/systemd/sessions", "/run/gpuaas/sessions"
PATIENCE_SECONDS = 10.0


class Session(NamedTuple):
    """`keys` are the blobs of what it was opened with; empty where nobody wrote that down."""

    id: str
    scope: str
    keys: frozenset[str]


def sessions_of(login: str, uid: int) -> list[Session]:
    """Logins alone: the user manager, which keeps what was started to stay, is none."""
    return [
        Session(id, told.get("SCOPE", f"session-{id}.scope"), opened_with(id))
        for id, told in told_sessions("/")
        if (told.get("USER"), told.get("UID")) == (login, str(uid))
        and told.get("CLASS", "").startswith("user")
    ]


def told_sessions(root: str) -> Iterator[tuple[str, dict[str, str]]]:
    """As logind keeps them. Raises OSError where it keeps none at all."""
    folder = os.path.join(root, OPEN[1:])
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".ref") and not name.startswith("."):
            with suppress(FileNotFoundError), open(os.path.join(folder, name)) as file:
                yield name, dict(line.rstrip("\n").partition("=")[::2] for line in file)


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
    call("loginctl", "terminate-session", session.id)
    scope = os.path.join(slice_folder("/", uid), session.scope)
    until = time.monotonic() + PATIENCE_SECONDS
    while _populated(scope):
        if time.monotonic() > until:
            raise Refusal("processes_left", f"session {session.id} does not end")
        with suppress(OSError), open(f"{scope}/cgroup.kill", "w") as file:
            file.write("1")
        time.sleep(0.05)


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
