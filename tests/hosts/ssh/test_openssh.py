"""What users' own ssh is told: lines and files that log in, to the pinned host and no other."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.hosts.ssh.openssh import (
    MAX_ANSWER,
    answer_of,
    become,
    known_hosts,
    login_command,
    plain_command,
    ssh_config,
)
from reconciler.model.host.endpoint import Endpoint
from reconciler.model.problem import ProblemError
from tests.harness.sshd import Sshd, needs_sshd, sshd
from tests.model.host.test_endpoint import KEY, PLAIN


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with sshd(tmp_path_factory.mktemp("door"), recorded=False) as running:
        yield running


def endpoint(door: Sshd, **changes: object) -> Endpoint:
    here = {"address": "127.0.0.1", "port": door.port, "login": "root", "jump": ""}
    return replace(PLAIN, **{**here, "host_keys": (door.host_key,), **changes})  # type: ignore[arg-type]


def said(line: str, folder: Path, *, code: int = 0) -> str:
    """A line as it is pasted into a shell, by somebody whose home holds no settings of ssh."""
    ended = subprocess.run(
        ["bash", "-c", line],
        capture_output=True,
        text=True,
        timeout=60,
        env={"PATH": os.environ["PATH"], "HOME": str(folder)},
        check=False,
    )
    assert ended.returncode == code, ended.stderr
    return ended.stdout if code == 0 else ended.stderr


def with_key(line: str, door: Sshd) -> str:
    return line.replace("ssh ", f"ssh -o IdentitiesOnly=yes -i {door.login_key} ", 1)


@needs_sshd
def test_the_line_works_as_pasted(door: Sshd, tmp_path: Path) -> None:
    """ALC-07, ACC-01: own keys, the pins inside the line, and the host's shell reads the words."""
    line = shlex.join(login_command(endpoint(door), ("echo", "it is $((40+2))")))
    assert said(with_key(line, door), tmp_path) == "it is 42\n"
    assert not (tmp_path / ".ssh").exists(), "nothing is left behind"


@needs_sshd
def test_only_the_pinned_host_is_believed(door: Sshd, tmp_path: Path) -> None:
    """INV-14: whatever else a person's own settings say, another key ends it."""
    careless = tmp_path / "config"
    careless.write_text("Host *\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n")
    line = shlex.join(login_command(endpoint(door, host_keys=(KEY,)), ("true",)))
    line = line.replace("ssh ", f"ssh -F {careless} ", 1)
    assert "Host key verification failed" in said(with_key(line, door), tmp_path, code=255)
    two = endpoint(door, host_keys=(KEY.replace("AAAAIEJ8", "AAAAIEJ9"), door.host_key))
    assert said(with_key(shlex.join(login_command(two, ("echo", "in"))), door), tmp_path) == "in\n"


@needs_sshd
@pytest.mark.parametrize("folder", ["plain", "with spaces and 100%"])
def test_a_published_file_works_by_both_names(door: Sshd, tmp_path: Path, folder: str) -> None:
    """Rule 5: the pins stand in a file beside it, whatever its folder is called."""
    place = tmp_path / folder
    place.mkdir()
    one = endpoint(door)
    (place / "known_hosts").write_text(known_hosts([one]))
    (place / "ssh_config").write_text(ssh_config([one], str(place / "known_hosts")))
    for name in ("train-a.vision", "train-a.vision.gpu"):
        line = shlex.join(("ssh", "-F", str(place / "ssh_config"), name, "echo", name))
        assert said(with_key(line, door), tmp_path) == f"{name}\n"
    (place / "known_hosts").write_text("")
    line = shlex.join(("ssh", "-F", str(place / "ssh_config"), "train-a.vision", "true"))
    assert "Host key verification failed" in said(with_key(line, door), tmp_path, code=255)


@needs_sshd
def test_an_included_file_needs_no_other(door: Sshd, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text(f"Include {tmp_path}/gpuaas\nHost *\n    User nobody\n")
    (tmp_path / "gpuaas").write_text(ssh_config([endpoint(door)]))
    line = f"ssh -F {tmp_path}/mine train-a.vision id -un"
    assert said(with_key(line, door), tmp_path) == "root\n"


def test_a_file_names_each_endpoint_once_and_by_the_node_that_is_pinned() -> None:
    neighbour = replace(
        PLAIN, ref=PLAIN.ref._replace(name="eval"), host="eval.vision", login="eval-2"
    )
    text = ssh_config([PLAIN, neighbour], "/srv/vision/known_hosts")
    assert text.splitlines()[:11] == [
        "Host train-a.vision.gpu train-a.vision",
        "    HostName gpu01.corp.example",
        "    Port 2222",
        "    User train-a-k7q2",
        "    HostKeyAlias gpu01",
        "    StrictHostKeyChecking yes",
        "    UpdateHostKeys no",
        "    VerifyHostKeyDNS no",
        "    NoHostAuthenticationForLocalhost no",
        '    UserKnownHostsFile "/srv/vision/known_hosts"',
        "    GlobalKnownHostsFile /dev/null",
    ]
    assert "    ProxyJump ops@jump.corp.example:2200\n" in text
    assert "\nHost eval.vision\n" in text, "one name where there is no suffix"
    assert known_hosts([PLAIN, neighbour]) == f"gpu01 {KEY}\n"


def test_the_short_line_is_short() -> None:
    assert plain_command(PLAIN) == (
        "ssh -J ops@jump.corp.example:2200 -p 2222 train-a-k7q2@gpu01.corp.example"
    )
    assert plain_command(replace(PLAIN, port=22, jump="")) == "ssh train-a-k7q2@gpu01.corp.example"


@pytest.mark.parametrize("tell", [login_command, plain_command, lambda e: ssh_config([e])])
def test_nothing_is_told_of_an_endpoint_that_is_not_plain(tell) -> None:
    with pytest.raises(ProblemError) as refused:
        tell(replace(PLAIN, address="x\nProxyCommand sh"))
    assert refused.value.problems[0].code == "endpoint_unsound"


@pytest.mark.parametrize("path", ['/a"b', "/a\nb", "/${HOME}/x", "/a\\b"])
def test_a_path_that_cannot_be_quoted_is_refused(path: str) -> None:
    with pytest.raises(ProblemError) as refused:
        ssh_config([PLAIN], path)
    assert refused.value.problems[0].code == "publish_failed"


def test_without_ssh_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ProblemError) as refused:
        become(("ssh", "x"))
    assert refused.value.problems[0].code == "ssh_missing"


def test_ssh_ends_when_nobody_reads_it() -> None:
    """F-CLI-03: Python's own deafness to a closed pipe is not handed on."""
    become = "from reconciler.hosts.ssh.openssh import become; become(('cat', '/proc/self/status'))"
    told = subprocess.run(
        [sys.executable, "-c", become], capture_output=True, text=True, check=True
    )
    (ignored,) = re.findall(r"^SigIgn:\t([0-9a-f]+)$", told.stdout, re.MULTILINE)
    assert not int(ignored, 16) >> (signal.SIGPIPE - 1) & 1


def test_an_answer_has_an_end_and_may_be_of_any_bytes() -> None:
    """Whoever has the allocation answers as they like: neither memory nor a traceback is theirs."""
    assert answer_of(("printf", r"\377\n")) == "\ufffd\n"
    assert len(answer_of(("head", "-c", str(MAX_ANSWER), "/dev/zero"))) == MAX_ANSWER
    for command, why in ((("cat", "/dev/zero"), "64 KiB"), (("false",), "ended with 1")):
        with pytest.raises(ProblemError, match=why) as refused:
            answer_of(command)
        assert refused.value.problems[0].code == "ssh_failed"
