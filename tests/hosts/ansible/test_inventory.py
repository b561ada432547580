"""The inventory: nothing in it is a template, and nobody else may read it."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader

from reconciler.hosts.ansible.executor import RunOptions
from reconciler.hosts.ansible.inventory import PREFIX, unsafe, write_inventory
from reconciler.hosts.ssh.ssh import ssh_command
from reconciler.model.codec import encode
from reconciler.model.plan.work import Host, HostWork
from tests.harness.directory_host import host, provide_item, step

FAR = Host(
    node="gpu02",
    address="10.0.0.12",
    root="/",
    isolation="account",
    port=2222,
    user="gpuaas",
    machine_id="a" * 32,
    host_keys=("ssh-ed25519 AAAA",),
    identity_file="~/.ssh/fleet",
)
STEP = step("allocation.provide", provide_item(descriptor="{{ 7 * 7 }} {{ "))


def written(tmp_path: Path) -> Path:
    works = [HostWork(host=one, steps=(STEP,)) for one in (host(Path("/{{ root }}")), FAR)]
    return write_inventory(
        works, tmp_path, sockets=Path("/tmp/s"), python="/usr/bin/python3", code=b"pass\n"
    )


def bare_texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        if set(value) == {"__ansible_unsafe"}:
            return []
        return [text for item in value.values() for text in bare_texts(item)]
    if isinstance(value, list):
        return [text for item in value for text in bare_texts(item)]
    return [value] if isinstance(value, str) else []


def test_every_text_is_wrapped(tmp_path: Path) -> None:
    """F-ANS-01: there is no text that Ansible could take for a template."""
    assert bare_texts(json.loads(written(tmp_path).read_text())) == []


def test_the_round_trip_through_ansible_is_exact(tmp_path: Path) -> None:
    """F-ANS-01: Ansible's own loader gives back what was put in."""
    hosts = DataLoader().load_from_file(str(written(tmp_path)))["all"]["hosts"]
    work = hosts[f"{PREFIX}gpu01"]["gpuaas_work"]
    assert work == [
        {"step": STEP.id, "verb": STEP.verb, "ref": str(STEP.ref), "item": encode(STEP.item)}
    ]
    assert hosts[f"{PREFIX}gpu01"]["gpuaas_root"] == "/{{ root }}"


def test_nobody_else_may_read_it(tmp_path: Path) -> None:
    """F-ANS-07: mode 0600 in a folder of mode 0700."""
    file = written(tmp_path)
    for one in (file, file.with_name("converge.py")):
        assert stat.S_IMODE(one.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("value", [7, True, None, 1.5])
def test_what_is_no_text_stays(value: Any) -> None:
    assert unsafe({"a": [value]}) == {"a": [value]}


def test_a_far_host_is_known_by_its_pinned_keys_alone(tmp_path: Path) -> None:
    file = written(tmp_path)
    pins = file.parent / "known_hosts"
    assert pins.read_text() == "gpu02 ssh-ed25519 AAAA\n"
    command = ssh_command(FAR, pins, Path("/tmp/s"))
    for option in ("StrictHostKeyChecking=yes", "GlobalKnownHostsFile=/dev/null", "BatchMode=yes"):
        assert option in command
    assert command[-2:] == ("--", "10.0.0.12")
    arguments = json.loads(file.read_text())["all"]["hosts"][f"{PREFIX}gpu02"]["ansible_ssh_args"]
    assert "StrictHostKeyChecking=yes" in arguments["__ansible_unsafe"]


def test_a_host_that_was_cut_off_is_given_up_on_before_work_times_out(tmp_path: Path) -> None:
    """F-ANS-02: also through a connection that is kept, which would else say nothing for ever."""
    words = ssh_command(FAR, tmp_path / "pins", tmp_path)
    options = dict(word.split("=", 1) for word in words if "=" in word)
    silent = int(options["ServerAliveInterval"]) * int(options["ServerAliveCountMax"])
    assert 25 < silent < RunOptions(run_dir=tmp_path, playbooks=tmp_path).observe_timeout_s


def test_other_pins_never_share_a_connection(tmp_path: Path) -> None:
    def path(keys: tuple[str, ...]) -> str:
        far = Host(node="n", address="h", root="/", isolation="account", host_keys=keys)
        (found,) = [
            o for o in ssh_command(far, tmp_path, Path("/s")) if o.startswith("ControlPath")
        ]
        return found

    assert path(("a",)) != path(("b",))
