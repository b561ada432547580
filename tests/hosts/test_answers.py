"""Numbers of others on a host: told as ranges, whatever shows them; ours are none of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from playbooks.module_utils.gpuaas import residue, uid_conflicts
from playbooks.module_utils.gpuaas.passwd import Accounts
from playbooks.module_utils.gpuaas.probes import Probes
from reconciler.hosts import answers
from tests import privileges

OURS = "gpuaas abcdefghij"


def host(root: Path, *users: str, groups: tuple[str, ...] = (), subuid: str = "") -> Probes:
    etc = root / "etc"
    etc.mkdir()
    (etc / "passwd").write_text("".join(f"{one}\n" for one in users))
    (etc / "group").write_text("".join(f"{one}\n" for one in groups))
    (etc / "shadow").write_text("")
    (etc / "subuid").write_text(subuid)
    return Probes(str(root))


def user(login: str, uid: int, gid: int | None = None, gecos: str = "") -> str:
    return f"{login}:x:{uid}:{uid if gid is None else gid}:{gecos}:/home/{login}:/bin/bash"


def test_accounts_and_groups_of_others_are_told(tmp_path: Path) -> None:
    """F-REAL-10: `useradd alice` took the next number; hers, and that of her group."""
    probes = host(
        tmp_path,
        user("root", 0),
        user("alice", 20002),
        user("bob", 20003, 20002),
        user("one-aaaa", 20001, 20000, OURS),
        groups=("p-vision-20000:x:20000:", "alice:x:20002:", "hers:x:20009:alice"),
    )
    assert uid_conflicts.read_taken(probes) == {"uid": "20002-20003", "gid": "20002,20009"}


def test_a_host_of_ours_alone_has_taken_nothing(tmp_path: Path) -> None:
    """A word that is listed and says nothing is not unknown."""
    probes = host(
        tmp_path,
        user("one-aaaa", 20001, 20000, OURS),
        groups=("p-vision-20000:x:20000:",),
        subuid="one-aaaa:1310785536:65536\n",
    )
    assert uid_conflicts.read_taken(probes) == {}


def test_what_is_owned_without_an_account_is_told(tmp_path: Path) -> None:
    """F-REAL-10: who was deleted with their home left there is not read by whoever comes next."""
    probes = host(tmp_path, user("root", 0))
    (tmp_path / "home/alice").mkdir(parents=True)
    privileges.have(privileges.giving_away)
    os.chown(tmp_path / "home/alice", 20002, 20002)
    assert uid_conflicts.read_taken(probes) == {"uid": "20002"}


def test_numbers_for_containers_take_the_uid_that_they_belong_to(tmp_path: Path) -> None:
    """F-REAL-10: part of the inside of a tenant is enough."""
    first = 20002 * 65536 + 100
    probes = host(tmp_path, user("root", 0), subuid=f"carol:{first}:65536\ndan:100000:65536\n")
    assert uid_conflicts.read_taken(probes) == {"uid": "20002-20003"}


def test_very_many_are_told_as_more_than_they_are(tmp_path: Path) -> None:
    """Never as fewer, and never as more than a host may say of one thing: then all was lost."""
    told = uid_conflicts.told(range(1001, 20001, 2))
    assert 1500 < len(told) <= answers.MAX_TEXT
    assert told.endswith("-19999")
    assert len(uid_conflicts.told(range(20000, 60000, 2))) <= answers.MAX_TEXT


def test_one_that_goes_while_it_is_looked_at_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-REAL-10: files come and go in these folders."""
    privileges.have(privileges.giving_away)
    probes = host(tmp_path, user("root", 0))
    (tmp_path / "home/z-alice").mkdir(parents=True)
    os.chown(tmp_path / "home/z-alice", 20002, 20002)
    listed = os.listdir
    monkeypatch.setattr(os, "listdir", lambda place: ["a-gone", *listed(place)])
    assert 20002 in list(uid_conflicts.owners(probes))


def test_odd_digits_in_a_file_of_accounts_cost_their_line(tmp_path: Path) -> None:
    """F-REAL-10: no account of the host is lost by one that the host does not know either."""
    odd = [user("root", 0).replace(":0:", f":{number}:", 1) for number in ("\u00b2", "9" * 5000)]
    assert [one.uid for one in Accounts(host(tmp_path, *odd, user("bob", 7)).root).users] == [7]


def test_what_is_somebody_elses_own_is_not_called_left_behind(tmp_path: Path) -> None:
    """F-REAL-10: nobody can tell whose files of one number are whose, so nobody says so."""
    probes = host(tmp_path, user("alice", 20002), user("one-aaaa", 20001, 20000, OURS))
    assert residue.is_of_another(probes, 20002, {20002: "alice"})
    assert not residue.is_of_another(probes, 20001, {20002: "alice"})
    assert "alice" in probes.problems[0]["message"]
    assert residue.read_leftovers(probes, [20002]) == {}
