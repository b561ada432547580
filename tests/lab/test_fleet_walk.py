"""From three hosts to people on their own cards, and from there to nothing left to do."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

from tests.harness.started_processes import processes
from tests.lab.colony import ALLOCATIONS, Colony, allocation, as_person, beside, run
from tests.lab.host import Host

pytestmark = pytest.mark.lab

SHELL = "python3 -I -"
USER_UNIT = "systemd-run --user --pipe --wait --quiet python3 -I -"


def printed(colony: Colony) -> dict[str, str]:
    """Ref → the line that the first apply printed for it."""
    lines = [line.split() for line in colony.first.stdout.splitlines() if "log in  " in line]
    return {words[-1].removeprefix("allocation/"): " ".join(words[2:-1]) for words in lines}


def minors(host: Host) -> dict[str, int]:
    """UUID → minor, as the driver of the host numbers them."""
    words = host.run("nvidia-smi", "-q", "-x").stdout
    uuids = [part.split("<")[0] for part in words.split("<uuid>")[1:]]
    numbers = [int(part.split("<")[0]) for part in words.split("<minor_number>")[1:]]
    return dict(zip(uuids, numbers, strict=True))


def uuids(colony: Colony, ref: str) -> list[str]:
    """Of the slots that an allocation holds, as the spec of its node names them."""
    held = colony.recorded(f"allocation/{ref}")
    slots = colony.recorded(f"node/{held.node}").normal["spec"]["slots"]
    return [slot["gpu"]["uuid"] for slot in slots if slot["name"] in held.slots]


def devices(colony: Colony, ref: str) -> dict[str, str]:
    """What opening each card must come to: a stand-in of the own ones, and no other."""
    numbers, own = minors(colony.host_of(ref)), uuids(colony, ref)
    return {
        f"/dev/nvidia{number}": "ENXIO" if uuid in own else "EPERM"
        for uuid, number in sorted(numbers.items(), key=lambda pair: pair[1])
    }


def test_one_host_is_prepared_first_then_the_others_and_each_before_its_tenants(
    colony: Colony,
) -> None:
    """Rule 6: the order of the first run, as it was written down."""
    assert "21 to create" in colony.first.stdout
    waves: dict[tuple[str, str], set[int]] = defaultdict(set)
    for wave, verb, node in colony.rows(
        "SELECT wave, verb, node FROM step WHERE run = 'run-000001'"
    ):
        waves[verb, node].add(wave)
    prepared = {node: min(waves["node.prepare", node]) for node in colony.machines}
    assert sorted(prepared.values()) == [1, 2, 2]
    for node, wave in prepared.items():
        assert min(waves["allocation.provide", node]) > wave
    assert set(colony.claims.values()) == {"held"}
    assert {claim.rpartition("@")[0] for claim in colony.claims} == {
        f"allocation/{ref}" for ref in ALLOCATIONS
    }


def test_the_printed_line_lets_in_whoever_has_access_and_nobody_else(colony: Colony) -> None:
    """ACC-01, ACC-04, F-GRT-04: a real login with each own key; the other project's are refused."""
    assert printed(colony) == {ref: colony.line(ref) for ref in ALLOCATIONS}
    given = {(ref, person) for ref, (_, _, people) in ALLOCATIONS.items() for person in people}
    assert colony.opened("ana", "bo", "cem", "dana", "olga") == given
    asked = colony.shell("ssh", "--print", "nlp/bert").stdout
    done = run(*as_person(asked, "dana"), "id -un")
    assert done.stdout.strip() == colony.recorded("allocation/nlp/bert").login, done.stderr


@pytest.mark.parametrize("way", [SHELL, USER_UNIT], ids=["ssh", "user-unit"])
def test_only_the_own_cards_open_whichever_way_one_came(colony: Colony, way: str) -> None:
    """Rule 1: no such card behind the own nodes, as they are a stand-in; the others forbidden."""
    refs = ["vision/train", "nlp/bert", "nlp/gpt"]
    for ref, seen in zip(refs, beside(lambda ref: look(colony, ref, way), refs), strict=True):
        assert seen["devices"] == devices(colony, ref), ref
        assert list(seen["devices"].values()).count("ENXIO") == len(uuids(colony, ref))
        assert set(seen["control"].values()) == {"ENXIO"}, "every card needs these"


def look(colony: Colony, ref: str, way: str = SHELL) -> dict[str, Any]:
    return colony.look(ref, ALLOCATIONS[ref][2][0], way)


def test_a_session_knows_whose_it_is(colony: Colony) -> None:
    """Rule 22: the cards by UUID, in the order of the slots, and what is paid for."""
    for ref in ("vision/train", "nlp/gpt"):
        for way in (SHELL, USER_UNIT):
            told = look(colony, ref, way)["environment"]
            project, _, name = ref.partition("/")
            assert told["CUDA_VISIBLE_DEVICES"].split(",") == uuids(colony, ref)
            assert (told["GPUAAS_PROJECT"], told["GPUAAS_ALLOCATION"]) == (project, name)
            assert told["GPUAAS_EXPIRES"] == colony.recorded(f"allocation/{ref}").expires_at


NEIGHBOUR = """
set -eu
echo secret > /tmp/mine; echo secret > /var/tmp/mine; echo secret > /dev/shm/mine
echo secret > ~/mine; chmod 644 ~/mine
systemd-run --user --quiet --unit=mine python3 -m http.server --bind $GPUAAS_LOOPBACK 8000
for i in $(seq 50); do (: < /dev/tcp/$GPUAAS_LOOPBACK/8000) 2> /dev/null && break; sleep 0.1; done
echo $GPUAAS_LOOPBACK
"""


def test_a_neighbour_is_not_seen(colony: Colony) -> None:
    """Neither processes nor homes, nor temporary files and shared memory, of either project; nor is
    what listens on its own address reached.
    """
    try:
        left = colony.enter("nlp/bert", "bo", "bash -s", NEIGHBOUR)
        assert left.returncode == 0, left.stderr
        own = look(colony, "nlp/bert")
        assert own["tmp"].count("mine") == own["var-tmp"].count("mine") == 1
        assert own["shm"] == ["mine"]
        for ref in ("vision/train", "vision/eval"):
            seen = look(colony, ref)
            assert seen["owners"] == [seen["uid"]]
            assert not {"mine"} & {*seen["tmp"], *seen["var-tmp"], *seen["shm"]}
            assert seen["homes"] == {"/home": ["EACCES"]}
            home = f"/home/{colony.recorded('allocation/nlp/bert').login}"
            person = ALLOCATIONS[ref][2][0]
            door = f"/dev/tcp/{left.stdout.strip()}/8000"
            tries = f"cat {home}/mine; ls {home}; kill -0 1; : < {door}"
            denied = colony.enter(ref, person, tries)
            assert denied.stdout == ""
            assert denied.stderr.count("Permission denied") == 2
            assert denied.stderr.count(f"{door}: No route to host") == 1, denied.stderr
    finally:
        colony.enter("nlp/bert", "bo", "systemctl --user stop mine; rm -f /tmp/mine /var/tmp/mine")
        colony.enter("nlp/bert", "bo", "rm -f /dev/shm/mine ~/mine")


def test_jobs_outside_of_the_session_are_refused(colony: Colony) -> None:
    """Rule 1: cron and at run with every device open, so no tenant has them, nor a lingering."""
    denied = colony.enter("vision/train", "ana", "echo '* * * * * id' | crontab -")
    assert denied.returncode != 0 and "not allowed" in denied.stderr
    denied = colony.enter("vision/train", "ana", "echo id | at now")
    assert denied.returncode != 0 and "permission" in denied.stderr
    denied = colony.enter("vision/train", "ana", "loginctl --no-ask-password enable-linger")
    assert denied.returncode != 0
    denied = colony.enter("vision/train", "ana", "systemd-run --no-ask-password --wait id")
    assert denied.returncode != 0


def test_a_second_apply_changes_nothing_and_starts_nothing(colony: Colony) -> None:
    """F-ANS-15, F-GRT-03: no file on any host, no play and no process of Ansible; nor after a
    change of nothing but a comment.
    """
    before, runs = colony.trees(), colony.runs
    with processes() as started:
        again = colony.apply()
    assert (again.code, again.actions, again.document["result"]["run"]) == (0, {}, "")
    assert not [words for words in started if "ansible" in str(words) or "guard" in str(words)]
    file = colony.file(allocation("nlp/tok"))
    file.write_text(f"# only words\n{file.read_text()}", encoding="utf-8")
    colony.commit()
    assert colony.apply().actions == {}
    colony.rests()
    assert colony.runs == runs
    assert colony.trees() == before


def test_only_what_differs_is_written(colony: Colony) -> None:
    """F-ANS-15: one key file and the descriptor that names its commit; all else to the second."""
    before = files(colony, "c3")
    assert colony.change(allocation("nlp/tok", access=["dana", "bo"])).code == 0
    changed = {path for path, line in files(colony, "c3").items() if before.get(path) != line}
    tok = colony.recorded("allocation/nlp/tok")
    assert changed == {f"/etc/gpuaas/ssh/{tok.login}", f"/etc/gpuaas/allocations/{tok.id}.json"}
    assert colony.change(allocation("nlp/tok")).code == 0


def files(colony: Colony, node: str) -> dict[str, str]:
    """Path → what stands there, without folders, whose times tell of what is in them."""
    lines = (line.split(maxsplit=2) for line in colony.tree(node).splitlines() if line[0] == "/")
    return {path: f"{mode} {rest}" for path, mode, rest in lines if mode[0] != "d"}


def test_after_a_reboot_the_cards_are_the_same_whatever_their_numbers(colony: Colony) -> None:
    """F-PLC-03, rule 1: minors come anew from the UUIDs; limits and privacy are as they were."""
    refs, host = ("vision/sweep", "nlp/gpt"), colony.machines["c2"]
    left = colony.enter("vision/sweep", "ana", "touch /tmp/mine ~/mine")
    assert left.returncode == 0, left.stderr
    before = [devices(colony, ref) for ref in refs]
    host.run(f"cat > {CARDS}", given=renumbered(host.run("cat", CARDS).stdout))
    host.reboot()
    for ref, was in zip(refs, before, strict=True):
        assert devices(colony, ref) != was
        for way in (SHELL, USER_UNIT):
            assert look(colony, ref, way)["devices"] == devices(colony, ref)
    seen = look(colony, "nlp/gpt")
    assert seen["owners"] == [seen["uid"]] and "mine" not in seen["tmp"]
    again = colony.plan("--refresh", "--detailed-exitcode")
    assert (again.code, again.actions) == (0, {})
    assert colony.enter("vision/sweep", "ana", "rm ~/mine").returncode == 0, "homes outlast it"


CARDS = "/etc/gpuaas-standin/gpus.csv"


def renumbered(table: str) -> str:
    """Every card with the minor of its successor."""
    rows = [row.split(", ") for row in table.splitlines()]
    cards = [row for row in rows if row[0].isdigit()]
    minors = [row[7] for row in cards]
    for row, minor in zip(cards, minors[1:] + minors[:1], strict=True):
        row[7] = minor
    return "".join(", ".join(row) + "\n" for row in rows)
