"""Whether somebody would get in: keys against what this sshd takes, and what PAM is asked."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from gpuaas import filters, logins, pam_check, trial_login
from gpuaas.probes import ProbeError, Probes
from gpuaas.tenants import slice_fact

from tests.fleets import public_key

ALL = {"pubkeyacceptedalgorithms": ["ssh-ed25519,rsa-sha2-512,rsa-sha2-256,ecdsa-sha2-nistp256"]}


@pytest.fixture(scope="module")
def rsa(tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    folder = tmp_path_factory.mktemp("keys")
    for bits in (1024, 2048):
        command = [
            "ssh-keygen",
            "-q",
            "-t",
            "rsa",
            "-b",
            str(bits),
            "-N",
            "",
            "-f",
            folder / f"{bits}",
        ]
        subprocess.run(command, check=True)
    return {
        bits: " ".join((folder / f"{bits}.pub").read_text().split()[:2]) for bits in (1024, 2048)
    }


@pytest.mark.parametrize(
    ("bits", "told", "why"),
    [
        (2048, {}, ""),
        (1024, {}, ""),
        (
            1024,
            {"requiredrsasize": ["2048"]},
            "1024 bits, and RequiredRSASize of this sshd is 2048",
        ),
        (2048, {"requiredrsasize": ["2048"]}, ""),
        (2048, {"requiredrsasize": ["3072"]}, "2048 bits"),
        (2048, {"pubkeyacceptedalgorithms": ["ssh-ed25519"]}, "PubkeyAcceptedAlgorithms"),
        (2048, {"pubkeyacceptedalgorithms": ["ssh-rsa"]}, ""),
    ],
)
def test_a_key_that_this_sshd_leaves_out_is_named(
    rsa: dict[int, str], bits: int, told: dict[str, list[str]], why: str
) -> None:
    """F-REAL-12: by whose it is, and by the setting that leaves it out."""
    for line in (f"{rsa[bits]} ana/laptop", f'from="10.0.0.0/8" {rsa[bits]} ana/laptop'):
        found = logins.refused(line, {**ALL, **told})
        assert bool(found) is bool(why) and why in found
        assert not why or found.startswith("ana/laptop is ssh-rsa")


def test_types_are_judged_by_their_own_names() -> None:
    line = f"{public_key('ana')} ana/laptop"
    assert logins.refused(line, ALL) == ""
    assert "ssh-ed25519" in logins.refused(line, {"pubkeyacceptedalgorithms": ["rsa-sha2-512"]})
    assert logins.refused("ssh-rsa AAAA! ana/odd", ALL) == "", "a line that is none costs no other"
    older = {"pubkeyacceptedkeytypes": ["ssh-ed25519"]}
    assert logins.refused(line, older) == ""


@pytest.mark.parametrize(
    ("why", "fact"),
    [("", "admitted"), ("PAM: no", "refused: PAM: no"), ("unknown: late", "unknown: late")],
)
def test_what_is_told(why: str, fact: str) -> None:
    assert logins._fact(why) == fact


def test_pam_is_asked_by_somebody_who_may_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """F-REAL-12: a module that never answers, or takes whoever asks down, costs this fact alone."""
    monkeypatch.setattr(pam_check, "SECONDS", 0.3)
    monkeypatch.setattr(pam_check, "_why_not", lambda *told: __import__("time").sleep(30))
    assert pam_check.admitted(["a"], "sshd", "10.0.0.1") == {"a": "unknown: PAM does not answer"}
    monkeypatch.setattr(pam_check, "_why_not", lambda *told: __import__("os")._exit(9))
    found = pam_check.admitted(["a", "b"], "sshd", "10.0.0.1")
    assert set(found.values()) == {"unknown: PAM ended whoever asked"}


@pytest.mark.skipif(shutil.which("ssh") is None, reason="no ssh")
def test_nothing_of_a_login_that_fails_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-REAL-12: the key, its folder, and what somebody who was killed left before."""
    monkeypatch.setattr(trial_login, "FOLDER", str(tmp_path))
    monkeypatch.setattr(trial_login, "STALE_SECONDS", -1)
    (tmp_path / "gpuaas-entry-old").mkdir()
    lines: list[str] = []
    with pytest.raises(ProbeError, match="sshd hears nobody just now: ssh: connect to host"):
        trial_login.why_refused("nobody-aaaa", "127.0.0.1", "9", "ssh-ed25519", lines.append)
    (line,) = lines
    assert line.startswith('restrict,command="internal-sftp",from="127.0.0.1",expiry-time="2')
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("said", "is_known"),
    [
        ("nobody-aaaa@127.0.0.1: Permission denied (publickey).", True),
        ("Connection closed by 127.0.0.1 port 22", True),
        ("kex_exchange_identification: Connection closed by remote host", False),
        ("kex_exchange_identification: read: Connection reset by peer", False),
        ("ssh_exchange_identification: Connection closed by remote host", False),
    ],
)
def test_a_door_that_others_stand_in_refuses_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, is_known: bool
) -> None:
    """F-REAL-12: whoever fills MaxStartups makes it unknown who would get in, not refused."""
    monkeypatch.setattr(trial_login, "FOLDER", str(tmp_path))
    monkeypatch.setattr(trial_login, "SAFE_PATH", str(tmp_path))
    (tmp_path / "ssh").write_text(f"#!/bin/sh\necho '{said}' >&2\nexit 255\n")
    (tmp_path / "ssh").chmod(0o755)
    try:
        why = trial_login.why_refused(
            "nobody-aaaa", "127.0.0.1", "22", "ssh-ed25519", lambda line: None
        )
    except ProbeError as error:
        assert not is_known and str(error) == f"sshd hears nobody just now: {said}"
    else:
        assert is_known and why == f"a login comes to nothing: {said}"


def test_without_a_client_no_login_can_be_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial_login, "found_in_path", lambda program: None)
    with pytest.raises(ProbeError, match="no ssh"):
        trial_login.why_refused("a", "127.0.0.1", "9", "", print)


CARDS = {0: "GPU-a", 1: "GPU-b"}
TOLD = {
    "DevicePolicy": ["closed"],
    "DeviceAllow": [
        *("/dev/tty rw", "/dev/ptmx rw", "char-pts rw", "/dev/fuse rw", "/dev/net/tun rw"),
        *("/dev/nvidiactl rw", "/dev/nvidia-uvm rw", "/dev/nvidia0 rw"),
    ],
}


@pytest.mark.parametrize(
    ("opened", "devices"),
    [
        (None, "devices=GPU-a "),
        (frozenset({"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia0"}), "devices=GPU-a "),
        (frozenset({"/dev/nvidiactl", "/dev/nvidia0"}), "devices=GPU-a,-/dev/nvidia-uvm rw "),
        (
            frozenset({"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia0", "/dev/nvidia1"}),
            "devices=GPU-a,GPU-b ",
        ),
        (frozenset(), "devices= "),
    ],
)
def test_devices_are_those_that_the_kernel_lets_through(
    opened: frozenset[str] | None, devices: str
) -> None:
    """F-REAL-12: whatever systemd was told; a neighbour's card that is open shows as well."""
    assert devices in slice_fact(TOLD, CARDS, opened)


def test_a_slice_that_cannot_be_tried_is_unknown() -> None:
    assert slice_fact(TOLD, CARDS, "unknown: no such thing") == "unknown: no such thing"


def test_in_a_folder_no_slice_lives(tmp_path: Path) -> None:
    assert filters.let_through(str(tmp_path), [20000]) == {}
    assert filters.is_of_gpus("/dev/nvidia12") and not filters.is_of_gpus("/dev/tty")
    assert not filters.is_of_gpus("/dev/nvidia-uvm-tools")


@pytest.mark.parametrize("what", ["ends", "hangs", "is refused"])
def test_a_slice_in_which_nobody_can_look_costs_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """F-REAL-12: by a tenant who has used up all of its memory, say; all others are known."""
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidia0").touch()
    for uid in (20000, 20001, 20002):
        (tmp_path / f"sys/fs/cgroup/user.slice/user-{uid}.slice").mkdir(parents=True)

    def enter(group: str) -> None:
        if "20001" in group and what == "ends":
            os._exit(1)
        if "20001" in group and what == "hangs":
            time.sleep(60)
        if "20001" in group:
            raise PermissionError(13, "not here")

    monkeypatch.setattr(filters, "_enter", enter)
    monkeypatch.setattr(filters, "ONE_SECONDS", 0.5)
    found = filters.let_through(str(tmp_path), [20000, 20001, 20002])
    odd = found.pop(20001)
    assert isinstance(odd, str) and odd.startswith("unknown: ")
    assert found == dict.fromkeys((20000, 20002), frozenset({"/dev/nvidia0"}))
    assert not list(tmp_path.glob("sys/fs/cgroup/user.slice/*/*"))


def test_a_look_makes_no_folder_for_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """F-REAL-12: a host whose preparation was taken back has the account and no such folder."""
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text("gpuaas-probe:x:999:999::/:/bin/sh\n")
    (tmp_path / "etc/shadow").write_text("")
    (tmp_path / "etc/group").write_text("")

    def never(*told: object) -> dict[str, str]:
        raise AssertionError("a login is tried")

    monkeypatch.setattr(logins, "_hindrances", never)
    assert logins.read_logins(Probes(str(tmp_path))) == {}
    assert not (tmp_path / "etc/gpuaas").exists()
