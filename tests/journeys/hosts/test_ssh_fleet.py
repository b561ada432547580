"""A fleet behind a real sshd: what an apply and a look cost, and what links that fail come to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reconciler.hosts.ansible.executor import RunOptions
from reconciler.operations.apply.wave import work
from reconciler.operations.fleet import Fleet
from reconciler.operations.observe import run_options
from tests.harness.sshd import Sshd, cutting, needs_sshd, sshd
from tests.harness.started_processes import processes
from tests.harness.yard import Yard, laid, node
from tests.planner import fleet as paper

pytestmark = [pytest.mark.walk, pytest.mark.ansible, needs_sshd]

ADDRESSES = {"gpu01": "127.0.0.1", "gpu02": "127.0.0.2", "gpu03": "127.0.0.3"}


def behind(server: Sshd, name: str, root: Path, size: int = 4) -> dict[str, Any]:
    """A node that is a folder, reached over ssh."""
    number = int(name[-2:])
    return node(
        name,
        size,
        address=ADDRESSES[name],
        root=str(root / "nodes" / name),
        ssh={"port": server.port, "user": "root"},
        identity={"machineId": f"{number:032x}", "hostKeys": [server.host_key]},
    )


def fleet(folder: Path, servers: Mapping[str, Sshd], *documents: Mapping[str, Any]) -> Yard:
    """Each node behind its own choice of server, observed."""
    nodes = [behind(server, name, folder) for name, server in servers.items()]
    yard = laid(folder, {}, *nodes, *documents)
    key = next(iter(servers.values())).login_key
    (folder / "gpuaas.yaml").write_text(f"operators: [olga]\nssh: {{identityFile: {key}}}\n")
    yard.commit()
    yard.lay_nodes()
    seen = yard.plan("--refresh")
    assert seen.code == 0, seen.blocked or seen.document["problems"]
    return yard


def asked(server: Sshd, since: int = 0) -> Counter[tuple[str, str]]:
    """How often each node was asked to converge and to tell of itself."""
    names = {address: name for name, address in ADDRESSES.items()}
    return Counter(
        (names[address], "observe" if '"root"' in command else "converge")
        for address, command in server.sessions[since:]
    )


def test_a_host_is_asked_once_whatever_the_number_of_allocations(tmp_path: Path) -> None:
    """One module call and one look for each host with work, none for a host without; and where
    nothing differs there is no play, no process of Ansible, and one ssh for each host looked at.
    """
    few = [paper.allocation(f"a{n}", node="gpu01") for n in range(1)]
    more = [paper.allocation(f"b{n}", node="gpu01") for n in range(3)]
    more += [paper.allocation("c", node="gpu02")]
    with sshd(tmp_path / "sshd", tuple(ADDRESSES.values())) as server:
        yard = fleet(tmp_path / "fleet", dict.fromkeys(ADDRESSES, server), *few)
        assert asked(server) == {(name, "observe"): 1 for name in ADDRESSES}
        sessions = len(server.sessions)

        assert yard.apply().code == 0
        # Once more before anybody is placed there.
        assert asked(server, sessions) == {("gpu01", "converge"): 1, ("gpu01", "observe"): 2}
        sessions = len(server.sessions)

        yard.write(*more)
        yard.commit()
        assert yard.apply().code == 0
        assert asked(server, sessions) == {
            (name, what): times
            for name in ("gpu01", "gpu02")
            for what, times in (("converge", 1), ("observe", 2))
        }
        runs, sessions = yard.runs, len(server.sessions)
        assert len(runs) == 2

        with processes() as started:
            assert yard.apply().code == 0
            looked = yard.plan("--refresh", "--detailed-exitcode")
        assert (looked.code, looked.actions) == (0, {})
        assert asked(server, sessions) == {(name, "observe"): 1 for name in ADDRESSES}
        # Each is marked by its environment, so that it can be found after a kill.
        assert sum("ssh" in words for words in started) == len(ADDRESSES)
        assert not [words for words in started if "guard" in str(words) or "ansible" in str(words)]
        assert yard.runs == runs


def test_links_that_fail_are_not_fine_and_hold_up_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-ANS-02: one host refuses connections, another drops the link in the last task.

    Neither is recorded, the exit code is 1, and who may have begun there keeps the claim: on the
    first nobody is placed. The third host's is done.
    """
    wanted = {f"allocation/vision/{name}": name for name in ADDRESSES}
    documents = [paper.allocation(name, node=name) for name in ADDRESSES]
    with sshd(tmp_path / "sshd", ("127.0.0.1", "127.0.0.3")) as server:
        with sshd(tmp_path / "other", ("127.0.0.2",)) as other:
            for name in ("login_key", "login_key.pub"):
                (tmp_path / "other" / name).write_bytes((tmp_path / "sshd" / name).read_bytes())
            servers = {"gpu01": server, "gpu02": other, "gpu03": server}
            yard = fleet(tmp_path / "fleet", servers, *documents)
        playbooks = cutting(tmp_path / "playbooks", "/gpu03")

        def cut(fleet: Fleet) -> RunOptions:
            return replace(run_options(fleet), playbooks=playbooks)

        with monkeypatch.context() as patch:
            patch.setattr(work, "run_options", cut)
            failed = yard.apply()
        assert failed.code == 1
        assert set(failed.problems) == {"host_unreachable"}
        assert {str(ref) for ref in yard.world.recorded if ref.kind == "allocation"} == {
            "allocation/vision/gpu01"
        }
        assert yard.claims == {
            f"{ref}@{name}/s0": "held" for ref, name in wanted.items() if name != "gpu02"
        }
        assert list(yard.root("gpu03").glob("home/*")), "it was done, and is not believed yet"
        assert not list(yard.root("gpu02").glob("home/*"))

        again = yard.apply()
        gpu02 = again.change("allocation/vision/gpu02")["problem"]
        assert (again.code, gpu02["code"]) == (3, "sku_unavailable"), gpu02
        assert gpu02["message"].endswith("1 unreachable")
        assert yard.recorded("allocation/vision/gpu03") is not None
        assert yard.recorded("allocation/vision/gpu02") is None


def test_templates_in_specs_are_text_all_the_way(tmp_path: Path) -> None:
    """F-ANS-01: in names, labels, reasons and comments of keys: nothing of it is ever evaluated."""
    marker = tmp_path / "marker"
    order = f"{{{{ lookup('pipe', 'touch {marker}') }}}} {{{{ {{% raw %}}"
    ana = paper.user("ana", displayName=order)
    ana["spec"]["keys"][0]["publicKey"] += " {{ 7 * 7 }} {{ {% raw %}"
    train = paper.allocation("train", node="gpu01", labels={"team": order})
    grant = paper.grant("share", "train", "bo", reason=order)
    with sshd(tmp_path / "sshd") as server:
        yard = fleet(tmp_path / "fleet", {"gpu01": server}, ana, train, grant)
        done = yard.apply()
        assert done.code == 0, done.document["problems"]
        assert yard.plan("--refresh", "--detailed-exitcode").code == 0
    assert yard.keys("allocation/vision/train") == ["ana/laptop", "bo/desk", "bo/laptop"]
    assert not marker.exists()
