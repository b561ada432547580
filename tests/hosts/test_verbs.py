"""The closed list of verbs, the code behind it, and the playbook that carries it."""

from __future__ import annotations

import ast
import configparser
import json
import re
from pathlib import Path

import pytest
from gpuaas import converge

from reconciler.hosts.verbs import CONTRACTS, VERBS, check_item
from reconciler.model.plan.verb import Verb
from tests.harness.directory_host import NO_KEYS, PLAYBOOKS, RELEASE, provide_item, step

WORK = {name: verb for name, verb in VERBS.items() if verb.item}


def test_hosts_have_code_for_the_list_and_for_nothing_else() -> None:
    """SEC-04: no verb takes a command, and hosts know no other."""
    assert set(converge.VERBS) == set(WORK)
    for name, verb in WORK.items():
        assert set(converge.VERBS[name].KEYS) == set(verb.item)
        assert not set(verb.item) & {"command", "cmd", "shell", "script", "args", "argv"}


def test_each_verb_has_a_contract_of_its_name_and_nothing_else_has() -> None:
    assert {path.name for path in CONTRACTS.iterdir()} == {f"{verb}.json" for verb in Verb}
    for path in CONTRACTS.iterdir():
        stated = json.loads(path.read_text(encoding="utf-8"))
        assert list(stated) == ["summary", "item", "evidence", "refuses"], path.name
    assert list(VERBS) == list(Verb)


@pytest.mark.parametrize(
    ("verb", "item", "code"),
    [
        ("allocation.provide", provide_item(), None),
        ("access.sync", NO_KEYS, None),
        ("allocation.release", RELEASE, None),
        ("allocation.release", {**RELEASE, "force": True}, "item_invalid"),
        ("allocation.release", {}, "item_invalid"),
        ("node.observe", {}, "verb_unknown"),
        ("shell", {"command": "id"}, "verb_unknown"),
    ],
)
def test_work_is_judged_by_its_keys(verb: str, item: dict[str, object], code: str | None) -> None:
    problem = check_item(verb, step(verb, item).item)
    assert (problem.code if problem else None) == code


def test_the_playbook_is_thin() -> None:
    lines = (PLAYBOOKS / "converge.yml").read_text().splitlines()
    assert len(lines) <= 12 and sum(line.strip().startswith("- name") for line in lines) == 2


def test_the_configuration_is_strict() -> None:
    config = configparser.ConfigParser()
    config.read(PLAYBOOKS / "ansible.cfg")
    assert config["defaults"]["host_key_checking"] == "True"
    assert config["connection"]["pipelining"] == "True"
    assert config["inventory"]["any_unparsed_is_failed"] == "True"


@pytest.mark.parametrize(
    "path", sorted((PLAYBOOKS / "module_utils/gpuaas").glob("*.py")), ids=lambda path: path.stem
)
def test_hosts_need_no_newer_python_than_theirs(path: Path) -> None:
    ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 9))


INSTALLERS = re.compile(r"\b(apt|apt-get|dpkg|dnf|yum|zypper|rpm|pip|modprobe)\b")


@pytest.mark.parametrize(
    "path", sorted((PLAYBOOKS / "module_utils/gpuaas").glob("*.py")), ids=lambda path: path.stem
)
def test_no_verb_installs_anything(path: Path) -> None:
    """BND-08, ALC-10, INV-17: drivers and base are there before, or nobody is placed."""
    words = {
        node.value
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    called = {word for word in words if " " not in word and INSTALLERS.fullmatch(word)}
    assert not called
