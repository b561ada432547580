"""SSH: whatever people have set for their own terminals, connections are as gpuaas states them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from reconciler.hosts.answers import AnswerError, read_answer, split_noise
from reconciler.hosts.ssh.openssh import forward_command, login_command, program_command
from reconciler.hosts.ssh.ssh import options_since, ssh_command
from reconciler.hosts.workdir import marked
from reconciler.model.host.endpoint import Endpoint
from reconciler.model.plan.work import Host
from reconciler.model.ref import Ref

FAR = Host(
    node="gpu02",
    address="10.0.0.12",
    root="/",
    isolation="account",
    host_keys=("ssh-ed25519 AAAA",),
    identity_file="/keys/ours",
)
THEIRS = (
    *("LogLevel QUIET", "LogVerbose *", "RemoteCommand tmux new -A -s main", "RequestTTY force"),
    *("PermitLocalCommand yes", "StdinNull yes", "ForkAfterAuthentication yes", "SessionType none"),
    *("BatchMode no", "StrictHostKeyChecking no", "UserKnownHostsFile /home/me/known"),
    *(
        "GlobalKnownHostsFile /etc/other",
        "KnownHostsCommand /usr/bin/printf x",
        "UpdateHostKeys yes",
    ),
    *("VerifyHostKeyDNS yes", "NoHostAuthenticationForLocalhost yes", "CheckHostIP yes"),
    *("HostKeyAlias other", "FingerprintHash md5", "VisualHostKey yes", "ConnectTimeout 900"),
    *("ConnectionAttempts 30", "ServerAliveInterval 0", "ServerAliveCountMax 90"),
    *("ForwardAgent yes", "ForwardX11 yes", "Tunnel yes", "GSSAPIDelegateCredentials yes"),
    *("LocalForward 8080 localhost:80", "RemoteForward 8081 localhost:80", "DynamicForward 1080"),
    *("AddKeysToAgent ask", "IdentitiesOnly no", "PubkeyAuthentication no", "SetEnv LC_ALL=de_DE"),
    *("PreferredAuthentications password", "ControlMaster ask", "ControlPath /tmp/theirs-%h"),
    *("ControlPersist yes", "Port 2022"),
)
LEFT = {"user", "identityfile"}
"""Which are theirs to say where no document does: keys beside the one that is stated."""


def settings(command: tuple[str, ...], theirs: tuple[str, ...], folder: Path) -> dict[str, str]:
    """As ssh understands a command line beside the settings of a person."""
    config = folder / "config"
    config.write_text("Host *\n" + "".join(f"  {line}\n" for line in theirs))
    program, *rest = command
    done = subprocess.run(
        [program, "-G", "-F", str(config), *rest], capture_output=True, text=True, check=True
    )
    lines = (line.partition(" ") for line in done.stdout.splitlines())
    return {key: value for key, _, value in lines if key not in LEFT}


@pytest.mark.parametrize("sockets", [None, Path("/tmp/s")])
def test_no_setting_of_a_person_reaches_our_connections(
    tmp_path: Path, sockets: Path | None
) -> None:
    """F-REAL-20: neither what they look like, nor whom they believe, nor what they lend."""
    command = ssh_command(FAR, tmp_path / "pins", sockets)
    assert settings(command, THEIRS, tmp_path) == settings(command, (), tmp_path)


@pytest.mark.parametrize("line", THEIRS)
def test_an_agent_full_of_keys_is_asked_for_ours_alone(tmp_path: Path, line: str) -> None:
    found = settings(ssh_command(FAR, tmp_path / "pins", None), (line,), tmp_path)
    assert (found["identitiesonly"], found["loglevel"]) == ("yes", "INFO")
    assert "remotecommand" not in found or found["remotecommand"] == "none"


def test_earlier_versions_are_told_what_they_know() -> None:
    """F-REAL-20: they end at an option that they do not know."""
    assert options_since((8, 4)) == {}
    assert "KnownHostsCommand" in options_since((8, 5)) and len(options_since((8, 6))) == 2
    assert options_since((9, 2))["SessionType"] == "default"


def test_no_window_and_no_language_go_with_a_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-REAL-20: sudo of a host would say in another language why it refuses."""
    for name in ("DISPLAY", "SSH_ASKPASS", "LANG", "LC_MESSAGES", "LC_ALL"):
        monkeypatch.setenv(name, "de_DE.UTF-8")
    monkeypatch.setenv("SSH_AUTH_SOCK", "/run/agent")
    done = subprocess.run(marked(("env",), tmp_path), capture_output=True, text=True, check=True)
    found = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    assert (found["LC_ALL"], found["SSH_ASKPASS_REQUIRE"]) == ("C.UTF-8", "never")
    assert found["SSH_AUTH_SOCK"] == "/run/agent"
    assert not {"DISPLAY", "SSH_ASKPASS", "LANG", "LC_MESSAGES"} & found.keys()


@pytest.mark.parametrize(
    ("said", "before", "answer"),
    [
        (b'{"a": 1}\n', b"", b'{"a": 1}'),
        (b'Welcome!\n\nIt is Monday\n{"a": 1}\n', b"Welcome!\n\nIt is Monday", b'{"a": 1}'),
        (b'no line end{"a": 1}\n', b"no line end", b'{"a": 1}'),
        (b'\x1b[1m{x}\n> {"a": 1}', b"\x1b[1m{x}\n> ", b'{"a": 1}'),
        (b"{}", b"", b"{}"),
        (b"", b"", b""),
    ],
)
def test_noise_before_an_answer_is_no_part_of_it(said: bytes, before: bytes, answer: bytes) -> None:
    """F-REAL-20: of a .bashrc that prints."""
    assert split_noise(said) == (before, answer)


def test_noise_is_skipped_and_shown() -> None:
    """F-REAL-20."""
    facts = {"source": "host", "machineId": "a" * 32, "probeVersion": 1}
    clean = json.dumps(facts).encode()
    assert not [one for one in read_answer(clean).problems if one.probe == "login"]
    (told,) = [
        one for one in read_answer(b"hi\x1b[2J there\n" + clean).problems if one.probe == "login"
    ]
    assert told.message == "said before the answer, and skipped: hi [2J there"
    with pytest.raises(AnswerError):
        read_answer(b"only noise\n")


def test_a_persons_own_settings_stay_theirs_in_their_own_terminal(tmp_path: Path) -> None:
    """F-REAL-20: what they type into is as they like it; what a program reads is not."""
    endpoint = Endpoint(
        ref=Ref("allocation", "vision", "a"),
        node="gpu02",
        host="a.vision.gpu",
        address="10.0.0.12",
        port=22,
        login="a-k7q2",
        host_keys=("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJDZ",),
    )
    theirs = (
        "RemoteCommand tmux",
        "RequestTTY force",
        "ControlMaster auto",
        "VerifyHostKeyDNS yes",
    )
    own = settings(login_command(endpoint), theirs, tmp_path)
    assert (own["remotecommand"], own["requesttty"]) == ("tmux", "force")
    assert own["verifyhostkeydns"] in ("no", "false")
    program = settings(program_command(endpoint, ("true",)), theirs, tmp_path)
    assert program["requesttty"] in ("no", "false") and "tmux" not in str(program)
    forward = settings(forward_command(endpoint, 8888, "/home/a/s"), theirs, tmp_path)
    assert forward["controlmaster"] in ("no", "false") and "tmux" not in str(forward)
