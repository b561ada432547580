"""Where sshd listens, whoever told it to, and whether one address can hold all of its places."""

from __future__ import annotations

import json

import pytest
from gpuaas import listeners, network
from gpuaas.probes import ProbeError, Probes

from reconciler import shipped
from reconciler.kinds.node import host as node_host

SOCKETS = """\
Listen=[::]:2200 (Stream)
Listen=/run/ssh-unix-local/socket (Stream)
Listen=10.0.0.7:2201 (Stream)

Listen=2202 (Datagram)
"""
PROCESSES = """\
LISTEN 0 128 0.0.0.0:22   0.0.0.0:* users:(("sshd",pid=9,fd=3)) ino:7 sk:1 cgroup:/x <->
LISTEN 0 128 [fe80::1]%eth0:2203 [::]:* users:(("sshd",pid=10,fd=3)) ino:7 sk:1 <->
LISTEN 0 128 *:9000 *:* users:(("sshd",pid=11,fd=3)) uid:20001 ino:8 sk:2 <->
LISTEN 0 128 *:80 *:* users:(("nginx",pid=12,fd=3)) ino:9 sk:3 <->
"""
FILES = {"port": ["22", "2204"], "listenaddress": ["[::]:22", "10.0.0.7:2205 rdomain blue"]}
LIMITS = {"maxstartups": ["500:30:1000"], "persourcemaxstartups": ["10"]}
ALONE = {"persourcenetblocksize": ["32:128"]}


@pytest.fixture(autouse=True)
def host(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What the tools of the host say."""
    said = {"systemctl": SOCKETS, "ss": PROCESSES, "nft": nft(22)}

    def lines_of(program: str, *arguments: str, given: str = "") -> list[str]:
        if program not in said:
            raise ProbeError(f"{program} is not there")
        return said[program].splitlines()

    told = {**FILES, **LIMITS, **ALONE}
    monkeypatch.setattr(listeners, "lines_of", lines_of)
    monkeypatch.setattr(network, "lines_of", lines_of)
    monkeypatch.setattr(listeners, "ask", lambda one, config: told)
    monkeypatch.setattr(listeners.os.path, "isdir", lambda path: True)
    monkeypatch.setattr(network, "_listed", lambda: "listed")
    return said


def nft(*ports: int) -> str:
    return json.dumps({"nftables": [{"metainfo": {}}, {"set": {"elem": list(ports)}}]})


def test_every_way_in_which_a_port_is_given_counts(host: dict[str, str]) -> None:
    """Files, sockets of systemd, and whatever root's sshd listens on; a tenant's own is its own."""
    assert listeners.ports(Probes("/")) == {22, 2200, 2201, 2203, 2204, 2205}


def test_a_port_that_tenants_reach_shows_and_is_mended_by_loading_anew(
    host: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "_loaded", lambda root: ["r", "f", "listed"])
    monkeypatch.setattr(network, "_files", lambda root: "f")
    probes = Probes("/")
    assert network.read_walls(probes)["sshd"] == "open: 2200, 2201, 2203, 2204, 2205"
    assert network.is_stale("/")
    host["nft"] = nft(22, 2200, 2201, 2203, 2204, 2205, 9)
    assert network.read_walls(probes)["sshd"] == node_host.IN_FORCE["network sshd"]
    assert not network.is_stale("/")
    del host["ss"]
    assert network.read_walls(probes)["sshd"] == "unknown: ss is not there"
    assert not network.is_stale("/"), "loading anew tells nobody where it listens"


@pytest.mark.parametrize(
    ("changes", "is_shared"),
    [
        ({}, True),
        ({"maxstartups": ["600:10:600"], "persourcemaxstartups": ["4"]}, True),
        ({"maxstartups": ["10:30:100"]}, False),
        ({"persourcemaxstartups": ["none"]}, False),
        ({"persourcemaxstartups": ["0"]}, False),
        ({"persourcenetblocksize": ["32:64"]}, False),
        ({"persourcenetblocksize": ["24:128"]}, False),
    ],
)
def test_no_address_can_hold_all_places(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, list[str]], is_shared: bool
) -> None:
    """What an earlier file of the host's own says wins in sshd, and is judged as it is."""
    told = {**LIMITS, **ALONE, **changes}
    monkeypatch.setattr(listeners, "ask", lambda one, config: told)
    said = listeners.read_startups(Probes("/"))["startups"]
    assert (said == node_host.IN_FORCE["sshd startups"]) is is_shared
    assert is_shared or said.startswith(f"open: maxstartups={told['maxstartups'][0]} ")


def test_who_starts_an_sshd_for_each_connection_counts_by_other_rules(
    host: dict[str, str],
) -> None:
    units = "Accept={}\nId=ssh.socket\nActiveState={}\n\nAccept=no\nId=sshd.socket\nActiveState=x\n"
    for accept, state, starts in (
        ("yes", "active", "open: ssh.socket"),
        ("yes", "inactive", "shared"),
        ("no", "active", "shared"),
    ):
        host["systemctl"] = units.format(accept, state)
        assert listeners.read_startups(Probes("/"))["startups"].startswith(starts)
    del host["systemctl"]
    assert listeners.read_startups(Probes("/"))["startups"].startswith("unknown: systemctl")


def test_what_is_shipped_is_what_is_wanted() -> None:
    """SEC-04: our own file bounds each address, for all and not for tenants alone."""
    text = shipped.templates()["node/sshd.conf"]
    before = text.partition("Match ")[0]
    words = [line.split(None, 1) for line in before.splitlines() if not line.startswith("#")]
    told = {name.lower(): [value] for name, value in words}
    assert listeners.are_shared_out(told)
