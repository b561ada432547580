"""A port of this machine: whose it is, and that nobody is led to a stranger's."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time

from reconciler.hosts.ssh.local_port import free_port, listener
from tests.privileges import FOREIGN, giving_away, needs

GOING_ON = """
import os, sys
from reconciler.hosts.ssh.local_port import tell_when_ours
tell_when_ours(int(sys.argv[1]), lambda: print("told", flush=True))
os.execv(sys.executable, [sys.executable, "-c", sys.argv[2], sys.argv[1]])
"""
LISTEN = "import socket, sys, time; s = socket.create_server(('127.0.0.1', int(sys.argv[1])));"


def test_whoever_listens_is_known() -> None:
    port = free_port()
    assert listener(port) is None
    with socket.create_server(("127.0.0.1", port)):
        assert listener(port) == os.geteuid()
    with socket.create_server(("127.0.0.2", port)):
        assert listener(port) is None, "at another address"


def going_on(port: int, program: str) -> str:
    words = [sys.executable, "-c", GOING_ON, str(port), program]
    return subprocess.run(words, capture_output=True, text=True, check=True, timeout=20).stdout


def test_it_is_told_when_the_program_that_we_go_on_as_listens() -> None:
    assert going_on(free_port(), f"{LISTEN} time.sleep(1)") == "told\n"


def test_nothing_is_told_of_a_program_that_ends_before() -> None:
    assert going_on(free_port(), "import time; time.sleep(0.3)") == ""


@needs(giving_away)
def test_nothing_is_told_while_the_port_is_a_strangers() -> None:
    port = free_port()
    words = ["setpriv", f"--reuid={FOREIGN}", "--clear-groups", "/usr/bin/python3", "-c"]
    with subprocess.Popen([*words, f"{LISTEN} time.sleep(20)", str(port)]) as stranger:
        until = time.monotonic() + 10
        while listener(port) is None and time.monotonic() < until:
            time.sleep(0.02)
        assert listener(port) == FOREIGN
        assert going_on(port, "import time; time.sleep(0.5)") == ""
        stranger.kill()
