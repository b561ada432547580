"""One supervised Ansible run: started in a clean environment, read, and ended on request."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from reconciler.hosts.ansible.events import Heard, Played, RunListener
from reconciler.hosts.folders import workplace, write_private
from reconciler.hosts.workdir import MARK, end_workers
from reconciler.model.records import dataclass

GUARD = Path(__file__).with_name("supervisor.py")
KEPT_ENVIRONMENT = ("HOME", "USER", "LOGNAME", "TZ", "SSH_AUTH_SOCK", "KRB5CCNAME")
MAX_EVENT_BYTES = 8 * 1024 * 1024
MAX_LINE = 4 * MAX_EVENT_BYTES
GRACE_SECONDS = 15.0
TICK_SECONDS = 0.2
ERRORS = "guard.log"
LAST_WORDS = 64 * 1024
"""Of what a guard that broke down said last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayRequest:
    """`place` goes with the run and holds the inventory in a folder.

    `playbooks` may be read-only. `budgets` are the seconds that each node may take from its start
    on; a run ends when every node has answered or has used them up.
    """

    place: Path
    playbooks: Path
    inventory: Path
    forks: int
    budgets: Mapping[str, float]


def play(request: PlayRequest, listener: RunListener, forced: Callable[[], bool]) -> Played:
    """Run to the end, until no node is waited for, or until `forced`; afterwards nothing is left.

    A node that has used up its budget is told as one that has timed out. What it says later is
    not listened to; the other nodes go on.
    """
    heard = Heard(listener=listener, budgets=request.budgets)
    with _guarded(request) as guard:
        for line in _lines(guard):
            heard.take(line)
            heard.give_up(time.monotonic())
            if forced() or (heard.late and heard.ended >= request.budgets.keys()):
                heard.status = heard.status or ("killed" if forced() else "timeout")
                break
    if not heard.status:
        heard.status = "broken"
        heard.log.extend(_last_words(request.inventory.parent))
    logs = {node: "\n".join(lines) for node, lines in heard.logs.items()}
    return Played(status=heard.status, answers=heard.answers, log="\n".join(heard.log), logs=logs)


def _last_words(folder: Path) -> list[str]:
    try:
        with open(folder / ERRORS, "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - LAST_WORDS))
            return file.read(LAST_WORDS).decode("utf-8", "replace").splitlines()
    except FileNotFoundError:
        return ["the guard process ended without a word"]


def environment(playbooks: Path, place: Path) -> dict[str, str]:
    """All that Ansible gets to see. Nothing of a user's own Ansible or Python settings is in it."""
    kept = {name: os.environ[name] for name in KEPT_ENVIRONMENT if name in os.environ}
    beside = str(Path(sys.executable).parent)
    return {
        **kept,
        MARK: str(place),
        "PATH": f"{beside}:{os.environ.get('PATH', os.defpath)}",
        "LC_ALL": "C.UTF-8",
        "SSH_ASKPASS_REQUIRE": "never",
        "ANSIBLE_CONFIG": str(playbooks / "ansible.cfg"),
        "ANSIBLE_ACTION_PLUGINS": str(playbooks / "action_plugins"),
        "ANSIBLE_HOME": str(place / "home"),
        # Unset, ansible-runner would turn it off, and a host with a wrong key would be believed.
        "ANSIBLE_HOST_KEY_CHECKING": "True",
        # Above this many characters a result would arrive as {}.
        "MAX_EVENT_RES": str(MAX_EVENT_BYTES),
    }


@contextmanager
def _guarded(request: PlayRequest) -> Iterator[subprocess.Popen[bytes]]:
    """A guard at work, in a session of its own, so that a terminal's Ctrl-C is ours to judge.

    However this is left, its stdin is closed, which makes it kill what still runs below it. Where
    it was itself killed we do so.
    """
    folder = request.inventory.parent
    work = {
        "folder": str(folder),
        "playbook": str(request.playbooks / "converge.yml"),
        "inventory": str(request.inventory),
        "forks": request.forks,
        "leavings": str(request.place),
    }
    with workplace():
        write_private(folder / ERRORS)
    with open(folder / ERRORS, "r+b") as errors:
        guard = subprocess.Popen(
            [sys.executable, "-I", str(GUARD)],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment(request.playbooks, request.place),
            cwd=folder,
            start_new_session=True,
        )
    assert guard.stdin is not None and guard.stdout is not None
    with guard.stdout:
        try:
            with guard.stdin, suppress(BrokenPipeError):
                guard.stdin.write(json.dumps(work).encode() + b"\n")
                yield guard
        finally:
            _wait(guard)
            if guard.returncode != 0:
                end_workers(request.place)


def _wait(guard: subprocess.Popen[bytes]) -> None:
    try:
        guard.wait(timeout=GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        guard.kill()
        guard.wait()


def _lines(guard: subprocess.Popen[bytes]) -> Iterator[object]:
    """The guard's lines until it closes, and None whenever it has said nothing for a moment.

    After one that cannot be read no other is believed.
    """
    assert guard.stdout is not None
    rest = b""
    with selectors.DefaultSelector() as ready:
        ready.register(guard.stdout, selectors.EVENT_READ)
        while len(rest) <= MAX_LINE:
            if not ready.select(timeout=TICK_SECONDS):
                yield None
                continue
            chunk = os.read(guard.stdout.fileno(), 1 << 20)
            if not chunk:
                return
            *whole, rest = (rest + chunk).split(b"\n")
            try:
                yield from [json.loads(line) for line in whole]
            except ValueError:
                yield {"event": "log", "text": "what the guard process said cannot be read"}
                return
