"""Whom a real host keeps out, whatever its files say: it shows at the next look."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager

import pytest

from tests.lab.host import Host
from tests.lab.tenancy import Tenancy, tenants
from tests.lab.test_prepare import wait_until

pytestmark = pytest.mark.lab

ANA, _ = tenants(2)

Fresh = Callable[[int], AbstractContextManager[tuple[Host, ...]]]
PROBE = "login gpuaas-probe"
STACK, KEPT = "/etc/pam.d/sshd", "/opt/sshd.pam"
OWN = "/etc/ssh/sshd_config.d/01-site.conf"


@pytest.fixture(scope="module")
def tenancy(fresh_hosts: Fresh, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenancy]:
    with fresh_hosts(1) as (host,):
        one = Tenancy(host=host, folder=tmp_path_factory.mktemp("entrances"))
        one.prepare()
        for outcome in one.provide(ANA):
            assert outcome.ok, outcome.problem
        host.run(f"cp {STACK} {KEPT}")
        yield one


def named(tenancy: Tenancy) -> Mapping[str, str]:
    return tenancy.facts().platform or {}


LISTED = "pam_listfile.so onerr=fail item=user sense=allow file=/etc/ssh/allowed"
NO_TENANTS = "pam_succeed_if.so user notingroup gpuaas-tenants"
SHUT = {
    "nologin": ("echo for an hour > /etc/nologin", "rm /etc/nologin", "for an hour"),
    "listfile": (
        f"echo 'account required {LISTED}' >> {STACK}; printf 'gpuaas\nroot\n' > /etc/ssh/allowed",
        f"cp {KEPT} {STACK}",
        "PAM: ",
    ),
    "access": (
        "echo '-:ALL EXCEPT root gpuaas:ALL' > /etc/security/site.conf;"
        f" echo 'account required pam_access.so accessfile=/etc/security/site.conf' >> {STACK}",
        f"cp {KEPT} {STACK}",
        "PAM: Permission denied",
    ),
    "deny": (
        f"printf 'Match User *-*\n    DenyUsers *@*\nMatch all\n' > {OWN}; systemctl reload ssh",
        f"rm {OWN}; systemctl reload ssh",
        "sshd keeps it out",
    ),
}


@pytest.mark.parametrize("case", SHUT)
def test_whatever_keeps_tenants_out_shows(tenancy: Tenancy, case: str) -> None:
    """F-REAL-12: of every tenant and of the probe; and it passes with its cause."""
    spoil, mend, words = SHUT[case]
    tenancy.host.run(spoil)
    try:
        shown = named(tenancy)
        assert tenancy.enter(ANA, "true").returncode != 0
    finally:
        tenancy.host.run(mend)
    for key in (f"login {ANA.login}", PROBE):
        assert shown[key].startswith("refused: ") and words in shown[key]
    assert named(tenancy)[PROBE] == named(tenancy)[f"login {ANA.login}"] == "admitted"
    assert tenancy.enter(ANA, "true").returncode == 0


def test_a_session_that_does_not_open_shows(tenancy: Tenancy) -> None:
    """F-REAL-12: PAM admits the account, and ends it all the same; only a login finds that out."""
    tenancy.host.run(f"echo 'session required {NO_TENANTS}' >> {STACK}")
    try:
        shown = named(tenancy)
        (_, _, opened) = tenancy.provide(ANA)
        tenancy.host.run(f"rm /etc/gpuaas/ssh/{ANA.login}")
        (_, _, shut) = tenancy.provide(ANA)
    finally:
        tenancy.host.run(f"cp {KEPT} {STACK}")
    assert shown[PROBE].startswith("refused: a login comes to nothing")
    assert opened.ok, "keys that lie there already are not put to the test again"
    assert shut.problem is not None and "nobody would get in" in shut.problem.message
    assert ANA.login not in tenancy.host.run("ls /etc/gpuaas/ssh").stdout
    tenancy.restore(ANA)
    assert tenancy.enter(ANA, "true").returncode == 0


def test_an_account_that_was_given_an_end_has_none_again(tenancy: Tenancy) -> None:
    """F-REAL-12: as drift of what is ours."""
    tenancy.host.run(f"chage --maxdays 90 --lastday 2020-01-01 {ANA.login}")
    assert named(tenancy)[f"account {ANA.login}"].endswith("password=locked max=90")
    assert named(tenancy)[f"login {ANA.login}"].startswith("refused: PAM: ")
    tenancy.restore(ANA)
    assert tenancy.enter(ANA, "true").returncode == 0


def test_a_key_that_this_sshd_leaves_out_is_named(tenancy: Tenancy) -> None:
    """F-REAL-12: for the user it opens, and nobody else."""
    text = f"Match User {ANA.login}\n    PubkeyAcceptedAlgorithms rsa-sha2-512\nMatch all\n"
    tenancy.host.run(f"cat > {OWN} && systemctl reload ssh", given=text)
    try:
        assert "ssh-ed25519, which Pubkey" in named(tenancy)[f"keys {ANA.login}"]
    finally:
        tenancy.host.run(f"rm {OWN}; systemctl reload ssh")
    assert named(tenancy)[f"keys {ANA.login}"] == "accepted"


def test_a_node_of_another_number_is_let_through_again(tenancy: Tenancy) -> None:
    """F-REAL-12: the filter of a living slice is the kernel's, not what systemd was told."""
    tenancy.enter(ANA, "nohup sleep 600 > /dev/null 2>&1 &")
    tenancy.host.run("rm /dev/nvidia-uvm; mknod -m 666 /dev/nvidia-uvm c 498 0")
    opening = "exec 3<> /dev/nvidia-uvm"
    assert "not permitted" in tenancy.enter(ANA, opening).stderr
    assert "-/dev/nvidia-uvm rw" in named(tenancy)[f"slice {ANA.login}"]
    tenancy.restore(ANA)
    assert "No such device" in tenancy.enter(ANA, opening).stderr
    assert tenancy.enter(ANA, "pgrep -c sleep").stdout.strip() == "1"


def test_nothing_of_a_login_is_left(tenancy: Tenancy) -> None:
    """F-REAL-12: no key, no session, no process and no folder of the probe."""
    assert named(tenancy)[PROBE] == "admitted"
    run = tenancy.host.run
    assert "gpuaas-probe" not in run("ls -R /etc/gpuaas /var/lib/gpuaas").stdout
    wait_until(lambda: "gpuaas-probe" not in run("loginctl list-users --no-legend").stdout)
    assert run("pgrep -u gpuaas-probe", check=False).stdout == ""
    assert "gpuaas-entry-" not in run("ls /run").stdout
    assert run("find /sys/fs/cgroup -name 'gpuaas-look*'").stdout == ""
