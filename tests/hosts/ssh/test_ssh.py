"""What ssh and sudo say, taken for what it means, and what is asked of them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from reconciler.hosts.ssh.ssh import (
    fingerprint,
    needs_sudo,
    ssh_command,
    why_no_root,
    why_not_begun,
    why_not_reached,
)
from reconciler.model.plan.work import Host

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICGTOlRUwaDq+FdLAFLwgIUBSEeAHTydCJP5usGjjrwN"
SHOWN = "SHA256:aahEc0O1s8H3wxtpFzXewvJQ311F+210ERiFRuYE+sA"
CHANGED = f"""@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@\r
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\r
The fingerprint for the ED25519 key sent by the remote host is
{SHOWN}.\r
Host key for {{node}} has changed and you have requested strict checking.\r
Host key verification failed."""
UNKNOWN = """No ECDSA host key is known for {node} and you have requested strict checking.
Host key verification failed."""


def host(**more: str) -> Host:
    given = {"address": "10.0.0.1", "root": "/", "isolation": "account", "user": "gpuaas"}
    return Host(node="gpu01", host_keys=(KEY,), **{**given, **more})


def test_a_fingerprint_is_what_ssh_keygen_says(tmp_path: Path) -> None:
    (tmp_path / "key.pub").write_text(KEY + "\n")
    told = subprocess.run(
        ["ssh-keygen", "-l", "-f", tmp_path / "key.pub"], capture_output=True, text=True, check=True
    )
    assert fingerprint(KEY) == f"ED25519 {told.stdout.split()[1]}"
    assert fingerprint("ssh-rsa no/base64!") == "RSA (not readable)"


def test_another_key_is_named_beside_the_pinned_ones() -> None:
    code, said = why_not_reached(host(), CHANGED.format(node="gpu01"))
    assert code == "host_identity_changed"
    assert said == f"host key shown: ED25519 {SHOWN}; pinned: {fingerprint(KEY)}"


def test_a_key_of_a_type_that_is_not_pinned_is_another_key() -> None:
    code, said = why_not_reached(host(), UNKNOWN.format(node="gpu01"))
    assert code == "host_identity_changed"
    assert "type ECDSA, which is not pinned" in said and fingerprint(KEY) in said


@pytest.mark.parametrize("said", [CHANGED.format(node="jump"), UNKNOWN.format(node="jump"), "what"])
def test_no_other_word_is_about_this_host(said: str) -> None:
    """The key of a host that we jump over says nothing about the machine behind it."""
    assert why_not_reached(host(), said) == ("host_unreachable", said)


GONE = "ssh: connect to host 10.0.0.1 port 22: No route to host"


@pytest.mark.parametrize(
    ("said", "short"),
    [
        (GONE, GONE),
        (f"mux_client_request_session: read from master failed: Broken pipe\r\n{GONE}", GONE),
        (f"Data could not be sent. Make sure this host can be reached over ssh: {GONE}", GONE),
        (
            "Data could not be sent. Make sure this host can be reached over ssh:",
            "the connection broke off",
        ),
        ("mux_client_hello: broken", "mux_client_hello: broken"),
    ],
)
def test_a_silent_host_is_told_of_in_the_words_of_ssh(said: str, short: str) -> None:
    assert why_not_reached(host(), said) == ("host_unreachable", short)


@pytest.mark.parametrize(
    ("said", "is_refusal"),
    [
        ("sudo: a password is required", True),
        ("sudo: ein Passwort ist notwendig", True),
        ("bash: line 1: /usr/bin/sudo: No such file or directory", True),
        ("/bin/sh: 1: /usr/bin/sudo: not found", True),
        ("gpuaas is not in the sudoers file.", True),
        ("Sorry, user gpuaas may not run sudo on gpu01.", True),
        ("Task failed: Missing sudo password", True),
        ("Traceback: no module named sudo", False),
        ("nvidia-smi is not there", False),
        ("sudo: unable to resolve host gpu17: Name or service not known\nbroken", False),
        ("sudo: unable to resolve host gpu17: Name or service not known", False),
        ("sudo: kann Host gpu17 nicht aufl\u00f6sen\nSyntaxError: invalid syntax", False),
        ("sudo: unable to resolve host gpu17\nsudo: a password is required\n", True),
        ("sudo: a terminal is required\nsudo: a password is required", True),
        ("sudo: unable to send audit message: Operation not permitted\nTraceback: x", False),
        ("sudo: /usr/bin/python3: command not found", False),
        ("sudo: /usr/bin/python3: Befehl nicht gefunden", False),
    ],
)
def test_a_refusal_of_sudo_is_known_by_its_words(said: str, is_refusal: bool) -> None:
    assert bool(why_no_root(host(), said)) is is_refusal
    assert why_no_root(host(user="root"), said) == "", "nobody asked sudo"


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("sudo: /usr/bin/python3: command not found", "no_python_on_host"),
        (
            "sudo: unable to resolve host a\nsudo: /usr/bin/python3: Befehl fehlt",
            "no_python_on_host",
        ),
        ("bash: line 1: /usr/bin/python3: No such file or directory", "no_python_on_host"),
        ("/bin/sh: 1: /usr/bin/python3: not found", "no_python_on_host"),
        ("/usr/bin/python3: Permission denied", "no_python_on_host"),
        ("sudo: unable to resolve host a\nbroken", ""),
        ("/usr/bin/python3: can't open file 'x': [Errno 2]", ""),
        ("sudo: a password is required", "no_root_on_host"),
        (
            "Sorry, user gpuaas is not allowed to execute '/usr/bin/python3 -IS' as root.",
            "no_root_on_host",
        ),
    ],
)
def test_a_host_without_python_lacks_no_root(said: str, code: str) -> None:
    """F-REAL-20: what sudo says beside is no refusal, and what follows it was said by root."""
    found = why_not_begun(host(), said)
    assert (found[0] if found else "") == code
    assert found is None or said in found[1]


def test_a_folder_is_worked_on_as_whoever_logs_in() -> None:
    assert needs_sudo(host()) and not needs_sudo(host(user="root"))
    assert not needs_sudo(host(isolation="directory"))


def test_a_connection_of_its_own_shares_no_socket(tmp_path: Path) -> None:
    kept, own = (ssh_command(host(), tmp_path, sockets) for sockets in (tmp_path, None))
    assert "ControlMaster=auto" in kept and "ControlPath=none" not in kept
    assert "ControlMaster=no" in own and "ControlPath=none" in own
