"""The system's bus: shut to tenants by what they are told there, and by no other failure."""

from __future__ import annotations

import pwd
import subprocess
from types import SimpleNamespace

import pytest
from gpuaas import dbus_access
from gpuaas.probes import ProbeError, Probes


@pytest.mark.parametrize(
    ("code", "said", "fact"),
    [
        (0, "", "open"),
        (1, "Call failed: Transport endpoint is not connected", "closed"),
        (1, "Failed to set bus address: Connection reset by peer", "closed"),
        (1, "Call failed: Access denied", "closed"),
        (1, "Failed to connect to bus: No such file or directory", ""),
        (127, "setpriv: failed to execute busctl: No such file or directory", ""),
        (1, "setpriv: setresuid failed: Operation not supported", ""),
    ],
)
def test_only_who_is_hung_up_on_is_shut_out(
    code: int, said: str, fact: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def call(*words: str) -> subprocess.CompletedProcess[str]:
        asked.append(words)
        return subprocess.CompletedProcess(words, code, "", said)

    probe = SimpleNamespace(pw_uid=990, pw_gid=991)
    monkeypatch.setattr(pwd, "getpwnam", lambda name: probe)
    monkeypatch.setattr(dbus_access, "call", call)
    if fact:
        assert dbus_access.read_bus(Probes("/")) == {"tenants": fact}
    else:
        with pytest.raises(ProbeError):
            dbus_access.read_bus(Probes("/"))
    (words,) = asked
    assert words[:6] == ("setpriv", "--reuid", "990", "--regid", "991", "--clear-groups")


def test_a_host_that_is_not_prepared_says_nothing_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(name: str) -> None:
        raise KeyError(name)

    monkeypatch.setattr(pwd, "getpwnam", nobody)
    assert dbus_access.read_bus(Probes("/")) == {}
