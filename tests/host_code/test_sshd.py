"""What sshd says holds for tenants: for every sort of connection, not for one."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from textwrap import dedent

import pytest
from gpuaas import sshd
from gpuaas.connections import Connection, Criterion, criteria, holds, sorts
from gpuaas.probes import ProbeError, Probes

from reconciler import shipped
from reconciler.kinds.node import host
from tests.harness.sshd import make_room

BASE = Connection(
    user="gpuaas-probe", host="10.1.1.1", addr="10.1.1.1", laddr="10.9.9.9", lport="22"
)

with_sshd = pytest.mark.skipif(shutil.which("sshd", path="/usr/sbin") is None, reason="no sshd")


def written(root: Path, text: str, name: str = "sshd_config") -> Path:
    file = root / "etc/ssh" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(dedent(text))
    return root


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Match all\n", []),
        ("# Match User a\nPort 22\n", []),
        (
            "match address 10.0.0.0/8,!10.1.0.0/16 # x\n",
            [("address", ("10.0.0.0/8", "!10.1.0.0/16"))],
        ),
        (
            'Match User "a,b" Host *.x LocalPort 2222\n',
            [("user", ("a", "b")), ("host", ("*.x",)), ("localport", ("2222",))],
        ),
        (
            "  MATCH\tLocalAddress 10.0.0.1 RDomain blue\n",
            [("localaddress", ("10.0.0.1",)), ("rdomain", ("blue",))],
        ),
        ("Match Group=admins,!p-*\n", [("group", ("admins", "!p-*"))]),
        ("Match invalid-user\nMatch version OpenSSH_10.*\n", []),
    ],
)
def test_conditions_are_found_as_sshd_reads_them(
    tmp_path: Path, text: str, found: list[tuple[str, tuple[str, ...]]]
) -> None:
    """F-REAL-13"""
    assert criteria(str(written(tmp_path, text))) == [Criterion(*one) for one in found]


def test_what_is_included_counts_wherever_it_stands(tmp_path: Path) -> None:
    """F-REAL-13: a drop-in, one of another folder, and one that is named below a Match."""
    written(tmp_path, "Match User a\n", "sshd_config.d/05-local.conf")
    written(tmp_path, "Include /srv/more.conf\n", "sshd_config.d/90.conf")
    (tmp_path / "srv").mkdir()
    (tmp_path / "srv/more.conf").write_text("Match Host b\n")
    text = """
        Include /etc/ssh/sshd_config.d/*.conf
        Match Group c
            include "sshd_config.d/none*.conf" sshd_config.d/05-local.conf
    """
    found = criteria(str(written(tmp_path, text)))
    assert [one.patterns for one in found] == [("a",), ("b",), ("c",), ("a",)]


def test_files_that_include_each_other_end(tmp_path: Path) -> None:
    with pytest.raises(ProbeError, match="include more than"):
        criteria(str(written(tmp_path, "Include sshd_config\n")))


def test_what_sshd_cannot_be_asked_is_no_answer(tmp_path: Path) -> None:
    with pytest.raises(ProbeError, match="match by sessiontype"):
        criteria(str(written(tmp_path, "Match SessionType shell\n")))


@pytest.mark.parametrize(
    ("criterion", "does"),
    [
        (("address", ("10.0.0.0/8",)), True),
        (("address", ("10.*", "!10.1.*")), False),
        (("address", ("!10.2.0.0/16", "*")), True),
        (("address", ("fd00::/8",)), False),
        (("localaddress", ("10.9.9.9",)), True),
        (("host", ("10.1.1.?",)), True),
        (("localport", ("22",)), True),
        (("localport", ("2222",)), False),
        (("user", ("gpuaas-*",)), True),
        (("user", ("*", "!gpuaas-probe")), False),
        (("group", ("gpuaas-*",)), True),
        (("group", ("*", "!p-*")), False),
        (("rdomain", ("blue",)), False),
    ],
)
def test_conditions_hold_as_sshd_says(criterion: tuple[str, tuple[str, ...]], does: bool) -> None:
    assert holds(Criterion(*criterion), BASE, ["gpuaas-tenants", "p-vision-20100"]) is does


def test_each_way_in_which_conditions_hold_together_is_asked_for_once() -> None:
    """F-REAL-13: one line may take back for some what another gives, so they are tried together."""
    named = [
        Criterion("address", ("10.0.0.0/8",)),
        Criterion("address", ("192.168.1.7", "2001:db8:5:*")),
        Criterion("localport", ("2222",)),
        Criterion("host", ("!*.site", "*")),
        Criterion("user", ("train-*",)),
    ]
    found = sorts(BASE, named, ["train-aaaa", "other-bbbb"], lambda login: [], ["22"])
    assert found[0] == BASE
    judged = [tuple(holds(one, each, []) for one in sorted(set(named))) for each in found]
    assert len(set(judged)) == len(judged) == 3 * 2 * 2 * 2
    assert sorts(BASE, [], ["train-aaaa"], lambda login: [], ["22"]) == [BASE]


def test_more_sorts_than_can_be_asked_are_no_answer() -> None:
    named = [Criterion("address", (f"10.{n}.0.0/16",)) for n in range(80)]
    with pytest.raises(ProbeError, match="too many"):
        sorts(BASE, named, [], lambda login: [], [])


LISTS: list[tuple[dict[str, list[str]], bool]] = [
    ({}, True),
    ({"allowusers": ["root gpuaas"]}, False),
    ({"allowusers": ["root", "*"]}, True),
    ({"allowusers": ["*@10.0.0.0/8"]}, True),
    ({"allowusers": ["*@192.168.0.0/16", "root"]}, False),
    ({"allowusers": ["tenant-*"]}, True),
    ({"allowgroups": ["admins"]}, False),
    ({"allowgroups": ["admins", "gpuaas-*"]}, True),
    ({"denygroups": ["gpuaas-tenants"]}, False),
    ({"denyusers": ["mallory"]}, True),
    ({"denyusers": ["*"]}, False),
    ({"denyusers": ["*@*"]}, False),
    ({"denyusers": ["*@10.*"]}, False),
    ({"denyusers": ["*@192.168.*"]}, True),
]


@pytest.mark.parametrize(("told", "admitted"), LISTS)
def test_lists_of_who_may_log_in_are_read_as_sshd_reads_them(
    told: dict[str, list[str]], admitted: bool
) -> None:
    """F-REAL-12"""
    assert sshd.lets_in(told, BASE) is admitted


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A configuration under which our settings hold for everybody, as there are no tenants here."""
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    for name in ("passwd", "group", "shadow"):
        (tmp_path / "etc").mkdir(exist_ok=True)
        (tmp_path / "etc" / name).write_text("")
    lines = [line.strip() for line in shipped.templates()["node/sshd.conf"].splitlines()]
    ours = [line for line in lines if not line.startswith("#")]
    at = ours.index("Match Group gpuaas-tenants")
    of_all, of_tenants = ours[:at], ours[at + 1 : -1]
    text = [f"HostKey {key}", "UsePAM yes", *of_all, "DROPIN", "Match all", *of_tenants, ""]
    return written(tmp_path, "\n".join(text))


@pytest.fixture(autouse=True, scope="module")
def room() -> None:
    make_room()


def told(root: Path, drop_in: str) -> str:
    file = root / "etc/ssh/sshd_config"
    file.write_text(file.read_text().replace("DROPIN", dedent(drop_in)))
    return sshd.read_sshd(Probes(str(root)))["tenants"]


LOCAL = """
Match Address 10.0.0.0/8,172.16.0.0/12,192.168.0.0/16
    PasswordAuthentication yes
    AuthorizedKeysFile .ssh/authorized_keys
    AuthenticationMethods any
"""


@with_sshd
@pytest.mark.parametrize(
    ("drop_in", "odd"),
    [
        ("", ""),
        (
            "Port 22\nPort 2222\nMatch LocalPort 2222\n    AllowUsers hg\n",
            "",
        ),
        (LOCAL, "passwordauthentication=no,yes@"),
        (LOCAL, "authorizedkeysfile=/etc/gpuaas/ssh/%u,.ssh/authorized_keys@"),
        ("Match Host *.lab\n    PermitTunnel yes\n", "permittunnel=no,yes@host:x.lab"),
        ("Match LocalAddress 10.7.7.7\n    PasswordAuthentication yes\n", "no,yes@laddr:10.7.7.7"),
        (
            "Port 2222\nMatch LocalPort 2222\n    PermitUserRC yes\n",
            "permituserrc=no,yes@lport:2222",
        ),
        (
            "Match RDomain blue\n    GSSAPIAuthentication yes\n",
            "gssapiauthentication=no,yes@rdomain:blue",
        ),
        (
            "Match Address *,!192.0.2.0/24\n    HostbasedAuthentication yes\n",
            "hostbasedauthentication=yes,no@addr:192.0.2.77",
        ),
        ("Match User gpuaas-probe\n    PasswordAuthentication yes\n", "passwordauthentication=yes"),
        (
            "Match Address 10.0.0.0/8 LocalPort 2222\n    PasswordAuthentication yes\n",
            "no,yes@addr:10.0.0.1+lport:2222",
        ),
        ("DenyUsers *@*\n", "admitted=no"),
    ],
)
def test_a_policy_holds_for_every_connection_or_not_at_all(
    root: Path, drop_in: str, odd: str
) -> None:
    """F-REAL-13: the class that is let in otherwise is named with what it is given."""
    found = told(root, drop_in)
    if odd:
        assert odd in found and found != host.SSHD
    else:
        assert found == host.SSHD
