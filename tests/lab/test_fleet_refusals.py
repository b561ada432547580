"""Hosts that are not what they should be: refused in clear words, and left as they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.lab.colony import Colony, beside, founded
from tests.lab.host import Host
from tests.planner import fleet as paper

pytestmark = pytest.mark.lab

Fresh = Callable[[int], AbstractContextManager[tuple[Host, ...]]]

# A lab host has no v1 cgroups to show. What is looked at is the type of a file system, which is
# another one for whoever comes by ssh; the host itself goes on as it must.
OTHER_CGROUPS = r"[Service]\nTemporaryFileSystem=/sys/fs/cgroup\n"
EDIT = "systemctl edit --quiet --runtime --stdin --drop-in=other-cgroups ssh"
SPOILT = {
    "broken-sshd": "echo 'PermitTheRoot yes' > /etc/ssh/sshd_config.d/50-by-hand.conf",
    "no-sudo": "mv /etc/sudoers.d/lab-control /opt/",
    "old-cgroups": f"printf '{OTHER_CGROUPS}' | {EDIT} && systemctl restart ssh",
    "other-key": "rm /etc/ssh/ssh_host_*; ssh-keygen -qA && systemctl restart ssh",
    "other-machine": "tr 0-9a-f 1-9a-f0 < /etc/machine-id > /run/id && cp /run/id /etc/machine-id",
}
MENDED = {
    "broken-sshd": "rm /etc/ssh/sshd_config.d/50-by-hand.conf",
    "no-sudo": "mv /opt/lab-control /etc/sudoers.d/",
    "old-cgroups": "systemctl revert ssh && systemctl restart ssh; loginctl terminate-user gpuaas",
}
CODES = {
    "broken-sshd": "sshd_config_broken",
    "no-sudo": "no_root_on_host",
    "old-cgroups": "cgroup_v2_required",
    "other-key": "host_identity_changed",
    "other-machine": "host_identity_changed",
}
SOUND = "sound"


@pytest.fixture(scope="module")
def enrolled(fresh_hosts: Fresh, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Colony]:
    """Six sound hosts, approved, with somebody waiting for each; then five of them are spoilt."""
    names = (*SPOILT, SOUND)
    with fresh_hosts(len(names)) as hosts:
        machines = dict(zip(names, hosts, strict=True))
        waiting = [paper.allocation(f"on-{name}", node=name) for name in names]
        colony = founded(tmp_path_factory.mktemp("refusals"), machines, *waiting)
        colony.enrol()
        by_hand(colony, SPOILT)
        yield colony


def by_hand(colony: Colony, done: Mapping[str, str]) -> None:
    beside(lambda name: colony.machines[name].run(done[name]), done)
    for host in colony.machines.values():
        host.wait()


def test_each_is_refused_by_its_code_and_left_as_it_was(enrolled: Colony) -> None:
    """F-ANS-02, rules 6 and 8: reachable and untouched, and who is on a sound host is served."""
    before = enrolled.trees(*SPOILT)
    done = enrolled.apply()
    assert done.code == 1
    told = {p["ref"]: p["code"] for p in done.document["problems"]}
    assert done.blocked | told == {
        **{f"node/{name}": code for name, code in CODES.items()},
        **{f"allocation/vision/on-{name}": code for name, code in CODES.items()},
        "allocation/vision/on-broken-sshd": "host_not_prepared",
    }
    assert "50-by-hand.conf: line 1: Bad configuration option" in done.messages
    assert enrolled.refs == [f"vision/on-{SOUND}"]
    assert set(enrolled.claims) == {f"allocation/vision/on-{SOUND}@{SOUND}/s0"}
    assert enrolled.enter(f"vision/on-{SOUND}", "ana", "true").returncode == 0
    assert enrolled.trees(*SPOILT) == before, "for which each had to be reachable, too"


def test_whoever_mends_a_host_is_served_by_the_next_apply(enrolled: Colony) -> None:
    """Rule 7: nothing has to be approved anew, and who was refused is not forgotten."""
    by_hand(enrolled, MENDED)
    enrolled.plan("--refresh")
    done = enrolled.apply()
    assert done.code == 3
    assert {name for name in SPOILT if f"node/{name}" in done.blocked} == SPOILT.keys() - MENDED
    served = {f"vision/on-{name}" for name in (*MENDED, SOUND)}
    assert set(enrolled.refs) == served
    assert enrolled.opened("ana") == {(ref, "ana") for ref in served}


def test_where_preparing_locks_us_out_of_one_host_no_other_is_tried(
    fresh_hosts: Fresh, tmp_path: Path
) -> None:
    """Rule 6: an order to sshd that it had not read yet bites with our reload. All is put back
    through the connection in hand, and on hosts that were not tried nobody is placed either.
    """
    with fresh_hosts(2) as hosts:
        machines = dict(zip(("first", "second"), hosts, strict=True))
        waiting = [paper.allocation(f"on-{name}", node=name) for name in machines]
        colony = founded(tmp_path, machines, *waiting)
        colony.enrol()
        machines["first"].run("echo DenyUsers gpuaas > /etc/ssh/sshd_config.d/50-by-hand.conf")
        before = {name: contents(colony, name) for name in machines}
        done = colony.apply()
        assert done.code == 1
        assert {p["ref"]: p["code"] for p in done.document["problems"]} == {
            "node/first": "prepare_rolled_back",
            "node/second": "host_not_prepared",
            "allocation/vision/on-first": "host_not_prepared",
            "allocation/vision/on-second": "host_not_prepared",
        }
        assert "Permission denied" in done.messages and "has been put back" in done.messages
        assert {name: contents(colony, name) for name in machines} == before
        assert colony.claims == {}


def contents(colony: Colony, name: str) -> list[str]:
    """Paths and digests alone, but for the accounts: our group and probe harm nobody and stay."""
    lines = (line.split() for line in colony.tree(name).splitlines())
    return [
        f"{words[0]} {words[1]}"
        for words in lines
        if not any(name in " ".join(words) for name in ("/passwd", "/group", "/shadow", "/gshadow"))
    ]
