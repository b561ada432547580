"""What a Node asks of its host, and what it calls enforced there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from reconciler import shipped
from reconciler.hosts.verbs import check_item
from reconciler.kinds.contract import Binding, Context
from reconciler.kinds.node import node as node_kind
from reconciler.kinds.node.host import (
    CONTROLLERS,
    HARDENING,
    NAMESPACES,
    RULES,
    TEMPLATES,
    hardening,
)
from reconciler.model.canonical import text_digest
from reconciler.model.codec import encode
from reconciler.model.host.capacity import Placement, Shape
from reconciler.model.host.evidence import CheckResult, NodeFacts
from reconciler.model.plan.plan import Step
from reconciler.model.settings import NetworkSettings
from reconciler.planner.lifecycle.templates import Renderer
from tests.planner import fleet


def context(isolation: str = "account") -> tuple[Binding, Context]:
    account = {
        "root": "/",
        "ssh": {"user": "ops"},
        "identity": {"machineId": "a" * 32, "hostKeys": ["ssh-ed25519 AAAA"]},
    }
    more = account if isolation == "account" else {}
    slots = [fleet.slot("gpu01", number) for number in range(2)]
    of = fleet.desired([fleet.family(), fleet.node("gpu01", slots, isolation=isolation, **more)])
    (node,) = of.of("node")
    renderer = Renderer(shipped.templates())
    binding = Binding(
        ref=node.ref,
        id="",
        login="",
        placement=Placement(node="gpu01", slots=(), shape=Shape.BAREMETAL),
        resource=node,
        recorded=None,
    )
    return binding, Context(
        desired=of,
        world=fleet.world(of),
        now=fleet.NOW,
        render=renderer.render,
        sign=lambda text: "",
        origins={},
        template_digests=renderer.digests(),
    )


def test_a_node_with_accounts_is_prepared_by_one_step() -> None:
    binding, of = context()
    (step,) = node_kind.steps(binding, of)
    assert (step.verb, step.node, step.ref) == ("node.prepare", "gpu01", binding.ref)
    assert check_item(step.verb, encode(step.item)) is None
    assert step.item.login == "ops"
    assert node_kind.expected(binding, of) == step.expected
    assert all(step.expected.values()), "a wall is there, it is never an absence"


def test_everything_written_is_expected_to_show() -> None:
    """SEC-04: whatever is put on a host is read back, by digest or by what is in force."""
    (step,) = node_kind.steps(*context())
    for file in step.item.files:
        fact = f"file {file.mode} {text_digest(file.content)}"
        assert step.expected[file.path] == fact
    for folder in step.item.directories:
        assert f"dir {folder.mode}" in (
            step.expected.get(folder.path),
            step.expected.get(f"folder {folder.path}"),
        )
    for unit in step.item.units:
        (link,) = [path for path in step.expected if path.endswith(f".wants/{unit}")]
        assert step.expected[link] == f"link /etc/systemd/system/{unit}"
    # A host without cron or at has no such stack; the door is shut either way.
    shown = {"/etc/pam.d/atd": "door at", "/etc/pam.d/cron": "door cron"}
    for path in (block.path for block in step.item.blocks):
        assert shown.get(path, f"block {path}") in step.expected


def test_texts_say_whose_they_are() -> None:
    (step,) = node_kind.steps(*context())
    for file in step.item.files:
        assert "anaged by gpuaas" in file.content, file.path
        assert file.content.endswith("\n")


def test_a_folder_is_not_prepared() -> None:
    binding, of = context("directory")
    assert node_kind.steps(binding, of) == ()
    assert node_kind.basis(binding, of) == {}


def test_a_node_that_is_gone_leaves_its_host_as_it_is() -> None:
    binding, of = context()
    assert node_kind.steps(replace(binding, resource=None), of) == ()


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_new_wording_reaches_the_hosts(template: str) -> None:
    binding, of = context()
    other = {**of.template_digests, template: "sha256:other"}
    assert node_kind.basis(binding, of) != node_kind.basis(
        binding, replace(of, template_digests=other)
    )


ENFORCED = {
    "disk *": "listed",
    "mail *": "listed",
    "setuid *": "listed",
    "sysctl *": "listed",
    **HARDENING,
    "driver *": "listed",
    "containers *": "listed",
    NAMESPACES: "0",
    "controllers root": " ".join(sorted(CONTROLLERS | {"hugetlb"})),
}


@pytest.mark.parametrize(
    ("name", "shown", "result", "value"),
    [
        ("mail pipes", {}, CheckResult.PASS, "none"),
        ("disk reserve", {"disk reserve": "7 of 64 pieces"}, CheckResult.FAIL, "7 of 64 pieces"),
        ("disk quotas", {"disk quotas": "none: ext4 at /"}, CheckResult.FAIL, "not of each tenant"),
        (
            "disk tenants",
            {"disk tenants": "with the host's own: /home"},
            CheckResult.FAIL,
            "/home, not apart",
        ),
        ("mail pipes", {"mail pipes": "possible: /usr/sbin/exim4"}, CheckResult.FAIL, "exim4, not"),
        ("setuid extra", {"setuid extra": "unknown: no"}, CheckResult.UNKNOWN, "unknown: no"),
        ("driver persistence", {}, CheckResult.PASS, "on"),
        (
            "driver persistence",
            {"driver persistence": "nvidia-persistenced.service is not-found; off on 8 of 8 cards"},
            CheckResult.FAIL,
            "is not-found; off on 8 of 8 cards, not on",
        ),
        ("driver module", {"driver module": "nvidia_uvm is not loaded"}, CheckResult.FAIL, "uvm"),
        ("driver accounting", {"driver accounting": "off on 1 of 2 cards"}, CheckResult.FAIL, "1"),
        (NAMESPACES, {NAMESPACES: "256"}, CheckResult.FAIL, "256, not 0"),
        ("controllers root", {"controllers root": "none"}, CheckResult.FAIL, "without cpu, cpuset"),
        ("controllers root", {"controllers root": None}, CheckResult.UNKNOWN, "unknown"),
        ("sysctl kernel.kptr_restrict", {}, CheckResult.PASS, "2"),
        (
            "sysctl kernel.yama.ptrace_scope",
            {"sysctl kernel.yama.ptrace_scope": None},
            CheckResult.FAIL,
            "not there, not 1",
        ),
        (
            "sysctl kernel.yama.ptrace_scope",
            {"sysctl kernel.yama.ptrace_scope": None, "sysctl *": None},
            CheckResult.UNKNOWN,
            "unknown",
        ),
    ],
)
def test_what_hardens_is_said_as_it_is(
    name: str, shown: Mapping[str, Any], result: CheckResult, value: str
) -> None:
    """What is written and not in force is never claimed; what is not seen is unknown."""
    told = {key: fact for key, fact in {**ENFORCED, **shown}.items() if fact is not None}
    facts = NodeFacts(source="host", platform=told)
    checks = {check.name: check for check in hardening(facts, containers=False)}
    assert checks[name].result is result
    assert value in checks[name].value


def test_a_host_that_tells_nothing_is_unknown_in_everything() -> None:
    checks = hardening(NodeFacts(source="host"), containers=True)
    assert {check.result for check in checks} == {CheckResult.UNKNOWN}


def test_containers_need_what_the_policy_gives_them() -> None:
    """SEC-04: user namespaces are closed on the whole host, or open, with what they are for."""
    lacking = {**ENFORCED, NAMESPACES: "65536", "containers missing": "crun, podman"}
    facts = NodeFacts(source="host", platform=lacking)
    checks = {check.name: check for check in hardening(facts, containers=True)}
    assert checks[NAMESPACES].result is CheckResult.PASS
    assert checks["containers missing"].result is CheckResult.FAIL
    assert "crun, podman" in checks["containers missing"].value
    closed = {check.name: check for check in hardening(facts, containers=False)}
    assert closed[NAMESPACES].result is CheckResult.FAIL
    assert "containers missing" not in closed
    (step,) = node_kind.steps(*context())
    switches = "/etc/sysctl.d/60-gpuaas.conf"
    assert "user.max_user_namespaces = 0\n" in content(step, switches)
    binding, of = context()
    rootless = fleet.resource(fleet.policy(containers="rootless"))
    of = replace(
        of, desired=replace(of.desired, resources={**of.desired.resources, rootless.ref: rootless})
    )
    (other,) = node_kind.steps(binding, of)
    assert "user.max_user_namespaces = 65536\n" in content(other, switches)
    assert node_kind.basis(binding, of) != node_kind.basis(*context())


def content(step: Step, path: str) -> str:
    return next(str(file.content) for file in step.item.files if file.path == path)


def test_closed_networks_are_those_of_clouds_and_of_the_settings() -> None:
    """Mail and metadata always; the control machine and BMCs as far as the settings name them."""
    binding, of = context()
    (step,) = node_kind.steps(binding, of)
    rules = content(step, RULES)
    assert "ip daddr { 169.254.0.0/16 } reject" in rules
    assert "ip6 daddr { fd00:ec2::254/128, fd20:ce::254/128 } reject" in rules
    assert "meta skuid { 20000-59999, 1310720000-3932159999 } jump closed" in rules
    assert "tcp dport { 25, 465, 587 } reject" in rules
    assert step.expected["network walls"] == f"in force {text_digest(rules)}"
    closed = ("10.9.0.7", "10.9.0.0/24", "2001:db8::1", "169.254.1.0/24")
    settings = replace(of.desired.settings, network=NetworkSettings(closed=closed))
    of = replace(of, desired=replace(of.desired, settings=settings))
    (other,) = node_kind.steps(binding, of)
    rules = content(other, RULES)
    assert "ip daddr { 10.9.0.0/24, 169.254.0.0/16 } reject" in rules, "none of them overlap"
    assert "{ 2001:db8::1/128, fd00:ec2::254/128, fd20:ce::254/128 }" in rules
    assert node_kind.basis(binding, of) != node_kind.basis(*context())
