"""Hosts behind a real sshd: who is believed, who becomes root, and what a cut link leaves."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from reconciler.hosts.ansible.executor import RunOptions, run_wave
from reconciler.hosts.evidence import observe
from reconciler.hosts.ssh.ssh import fingerprint
from reconciler.model.host.evidence import Observation
from reconciler.model.plan.work import Host, HostWork, Receipt
from reconciler.model.problem import Problem
from tests import privileges
from tests.harness.directory_host import (
    DESCRIPTOR,
    Wish,
    ignore,
    options,
    provide_item,
    step,
    tree,
)
from tests.harness.sshd import MACHINE_ID, Sshd, cutting, make_key, needs_sshd, public_half, sshd

pytestmark = [pytest.mark.walk, needs_sshd]

AT = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Sshd]:
    with sshd(tmp_path / "sshd", ("127.0.0.1", "127.0.0.2")) as running:
        yield running


def provide(one: Host, chosen: RunOptions) -> Receipt:
    work = HostWork(host=one, steps=(step("allocation.provide", provide_item(), node=one.node),))
    (receipt,) = run_wave([work], chosen, ignore, Wish())
    return receipt


def look(one: Host, chosen: RunOptions) -> Observation:
    (seen,) = observe([one], chosen, at=AT)
    return seen


def problem_of(receipt: Receipt) -> Problem:
    assert receipt.problem is not None
    return receipt.problem


def test_another_host_key_is_another_machine(
    server: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real executor, from a user who turned the check off: nothing is asked of it, let alone
    done, and both keys are named.
    """
    monkeypatch.setenv("ANSIBLE_HOST_KEY_CHECKING", "False")
    make_key(tmp_path / "other")
    pinned = public_half(tmp_path / "other")
    one = server.host(tmp_path / "root", host_keys=(pinned,))
    before = tree(tmp_path / "root")
    receipt, seen = provide(one, options(tmp_path)), look(one, options(tmp_path))
    assert (problem_of(receipt).code, receipt.ok) == ("host_identity_changed", False)
    assert (seen.problem, seen.facts) == ("host_identity_changed", None)
    for said in (problem_of(receipt).message, seen.message):
        assert f"shown: {fingerprint(server.host_key)}; pinned: {fingerprint(pinned)}" in said
    assert server.sessions == [] and "Accepted" not in server.log
    assert tree(tmp_path / "root") == before


def test_another_machine_id_is_another_machine(server: Sshd, tmp_path: Path) -> None:
    one = replace(server.host(tmp_path / "root"), machine_id="6" * 32)
    before = tree(tmp_path / "root")
    receipt, seen = provide(one, options(tmp_path)), look(one, options(tmp_path))
    for code, said in (
        (problem_of(receipt).code, problem_of(receipt).message),
        (seen.problem, seen.message),
    ):
        assert code == "host_identity_changed"
        assert MACHINE_ID in said and "6" * 32 in said
    assert not receipt.unknown
    assert tree(tmp_path / "root") == before


def test_a_connection_is_kept_and_a_fresh_one_is_not_it(server: Sshd, tmp_path: Path) -> None:
    """The observe pass costs one login a host; who asks for a new connection gets a new one."""
    one = server.host(tmp_path / "root")
    for _ in range(3):
        assert look(one, options(tmp_path)).facts is not None
    assert server.log.count("Accepted publickey") == 1
    for _ in range(2):
        (seen,) = observe([one], options(tmp_path), at=AT, fresh={one.node})
        assert seen.facts is not None
    assert server.log.count("Accepted publickey") == 3
    assert len(server.sessions) == 5


WORKING_SUDO = """#!/bin/sh
while [ "$1" != "${1#-}" ]; do
    [ "$1" = -u ] && shift
    shift
done
exec "$@"
"""
REFUSALS = {
    "password": "sudo: a password is required",
    "stranger": "gpuaas is not in the sudoers file.",
    "forbidden": "Sorry, user gpuaas is not allowed to execute '/bin/sh' as root on gpu01.",
    "gone": "",
}


def seen_instead_of_sudo(folder: Path, script: str) -> str:
    """Shell that puts another sudo in the place of /usr/bin/sudo; none at all for no script."""
    privileges.have(privileges.overlays)
    folder.mkdir()
    if script:
        (folder / "sudo").write_text(script)
        (folder / "sudo").chmod(0o755)
    else:
        os.mknod(folder / "sudo", 0o020600, os.makedev(0, 0))
    return f"mount -t overlay -o lowerdir='{folder}':/usr/bin overlay /usr/bin"


@pytest.mark.parametrize("why", REFUSALS)
def test_who_cannot_become_root_touches_nothing(tmp_path: Path, why: str) -> None:
    """F-ANS-03: sudo asks for a password, knows nobody, forbids it or is not there: no facts."""
    said = REFUSALS[why]
    script = said and f'#!/bin/sh\necho "{said}" >&2\nexit 1\n'
    with sshd(tmp_path / "sshd", before=seen_instead_of_sudo(tmp_path / "bin", script)) as server:
        one = server.host(tmp_path / "root", isolation="account", user="")
        before = tree(tmp_path / "root")
        receipt, seen = provide(one, options(tmp_path)), look(one, options(tmp_path))
    assert (problem_of(receipt).code, receipt.ok) == ("no_root_on_host", False)
    assert not receipt.unknown
    assert (seen.problem, seen.facts) == ("no_root_on_host", None)
    assert "cannot become root" in seen.message and said in seen.message
    assert tree(tmp_path / "root") == before


def test_who_becomes_root_works(tmp_path: Path) -> None:
    """A whole host through sudo -n, by a module call and by an observation."""
    folder = tmp_path / "bin"
    with sshd(tmp_path / "sshd", before=seen_instead_of_sudo(folder, WORKING_SUDO)) as server:
        one = server.host(tmp_path / "root", isolation="account", user="")
        assert provide(one, options(tmp_path)).ok
        assert look(one, options(tmp_path)).facts is not None
        asked = [command for _, command in server.sessions]
    assert len(asked) == 2
    assert all("/usr/bin/sudo " in command and " -n " in command for command in asked)


def test_a_link_that_drops_is_not_fine_and_stops_nobody(server: Sshd, tmp_path: Path) -> None:
    """F-ANS-02: of three hosts one refuses connections, and one drops the link when all is done.

    Nobody knows what that one did, although it did it; the third is done and believed.
    """
    good = server.host(tmp_path / "good", "gpu01")
    lost = server.host(tmp_path / "cut", "gpu02", address="127.0.0.2")
    away = server.host(tmp_path / "away", "gpu03", port=1)
    works = [
        HostWork(
            host=one, steps=(step("allocation.provide", provide_item(one.node), node=one.node),)
        )
        for one in (away, lost, good)
    ]
    chosen = options(tmp_path, playbooks=cutting(tmp_path / "playbooks", "/cut"))
    of_away, of_lost, of_good = run_wave(works, chosen, ignore, Wish())
    assert of_good.ok
    assert (tmp_path / "good" / DESCRIPTOR.lstrip("/")).read_text() == "gpu01"
    for receipt in (of_away, of_lost):
        assert (receipt.ok, receipt.unknown) == (False, True)
        assert problem_of(receipt).code == "host_unreachable"
    assert (tmp_path / "cut" / DESCRIPTOR.lstrip("/")).read_text() == "gpu02"
    assert tree(tmp_path / "away").keys() == {"etc", "etc/machine-id"}
