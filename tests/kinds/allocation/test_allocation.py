"""Allocation: what it means, what may be wrong with it, and what its host must show."""

from __future__ import annotations

import hashlib
import hmac
import json
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reconciler import shipped
from reconciler.kinds.allocation import allocation as kind
from reconciler.kinds.contract import Binding, Context
from reconciler.model.canonical import canonical
from reconciler.model.codec import encode
from reconciler.model.host.capacity import Isolation, Placement, Shape
from reconciler.model.plan.plan import Order, Step
from reconciler.model.problem import ProblemError
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired, Origin
from reconciler.model.spec.resource import Resource
from reconciler.model.state.world import Recorded
from reconciler.planner.lifecycle.templates import Renderer
from tests.planner import fleet
from tests.planner.fleet import NOW, STATE_ID, allocation, base_fleet, desired, grant, world

TRAIN = Ref("allocation", "vision", "train")
ID, LOGIN = "abcdefghij", "train-abcd"
HOME, SCRATCH = f"/home/{LOGIN}", f"/var/lib/gpuaas/scratch/{ID}"
DESCRIPTOR = f"/etc/gpuaas/allocations/{ID}.json"
MARK = f"/etc/gpuaas/runtime/allocations/{ID}.restart"
ENVIRONMENT = f"/etc/gpuaas/runtime/allocations/{ID}.env"
KEYS = f"/etc/gpuaas/ssh/{LOGIN}"


def sign(text: str) -> str:
    return hmac.new(b"secret", text.encode(), "sha256").hexdigest()


def context(of: Desired, **changes: Any) -> Context:
    templates = shipped.templates()
    renderer = Renderer(templates)
    values: dict[str, Any] = {
        "desired": of,
        "world": world(of),
        "now": NOW,
        "render": renderer.render,
        "sign": sign,
        "origins": {one.ref: Origin(commit="c0ffee") for one in of.of("allocation")},
        "template_digests": renderer.digests(),
    }
    return Context(**{**values, **changes})


def binding(resource: Resource | None, recorded: Recorded | None = None) -> Binding:
    place = Placement(node="gpu01", slots=("s1", "s2"), shape=Shape.GPU_SLICE)
    return Binding(
        ref=TRAIN, id=ID, login=LOGIN, placement=place, resource=resource, recorded=recorded
    )


def with_train(*extra: dict[str, Any], **changes: Any) -> Desired:
    wanted = {"sku": "slice-2", **changes}
    return desired([*base_fleet(), allocation("train", **wanted), *extra])


def train(*extra: dict[str, Any], **changes: Any) -> tuple[Binding, Context]:
    of = with_train(*extra, **changes)
    return binding(of.resources[TRAIN]), context(of)


def files(steps: Iterable[Step]) -> dict[str, str]:
    return {file.path: file.content for step in steps for file in getattr(step.item, "files", ())}


def codes(of: Desired) -> list[str]:
    return [problem.code for problem in kind.check(of.resources[TRAIN], of)]


# What it means.


def test_the_smallest_allocation_is_what_and_whose() -> None:
    """LCH-01: SKU and owner are enough; access is the owner's."""
    spec = kind.parse({"sku": "slice-1", "owner": "ana"}, "train")
    assert spec == kind.AllocationSpec(sku="slice-1", owner="ana", access=("ana",))


def test_two_spellings_of_one_intent_are_equal() -> None:
    short = fleet.resource(allocation("train"))
    long = fleet.resource(
        allocation(
            "train",
            access=["ana"],
            storage=[],
            runtimes=[],
            restart={"generation": 0},
            protect=False,
        )
    )
    assert short.digest == long.digest
    one = fleet.resource(allocation("train", access=["bo", "ana"]))
    other = fleet.resource(allocation("train", access=["ana", "bo"]))
    assert one.digest == other.digest != short.digest


def test_a_recorded_allocation_reads_back_as_itself() -> None:
    storage = [{"name": "b", "mode": "ro"}, {"name": "a", "mode": "rw", "mountPath": "/mnt/a"}]
    made = fleet.resource(
        allocation("train", storage=storage, expiresAt="2027-01-31T01:00:00+01:00")
    )
    assert kind.parse(made.normal["spec"], "train") == made.spec
    assert [(one.name, one.mount_path) for one in made.spec.storage] == [
        ("a", "/mnt/a"),
        ("b", "/data/b"),
    ]
    assert made.spec.expires_at == "2027-01-31T00:00:00Z"


def test_the_first_runtime_stays_the_first() -> None:
    runtimes = [{"bundle": "zeta", "version": "1"}, {"bundle": "alpha", "version": "1"}]
    assert [
        r.bundle for r in kind.parse({"sku": "a", "owner": "b", "runtimes": runtimes}, "t").runtimes
    ] == ["zeta", "alpha"]


def test_it_refers_to_everything_it_names() -> None:
    """OBJ-01: storage, bundles and people are objects of their own, named and never contained."""
    made = fleet.resource(
        allocation(
            "train",
            access=["ana", "bo"],
            node="gpu01",
            storage=[{"name": "sets", "mode": "ro"}],
            runtimes=[{"bundle": "torch", "version": "1"}, {"bundle": "torch", "version": "2"}],
        )
    )
    assert [str(one.ref) for one in kind.refs(made)] == [
        "project/vision",
        "sku/slice-1",
        "user/ana",
        "user/bo",
        "storage/vision/sets",
        "bundle/torch",
        "node/gpu01",
    ]


def test_what_it_needs_is_what_its_sku_says() -> None:
    """OBJ-11: the user names an outcome; a host only as an operator's pin."""
    of = with_train()
    need = kind.needs(of.resources[TRAIN], of)
    assert need is not None
    assert (need.slots, need.shape, need.pin) == (2, Shape.GPU_SLICE, "")
    assert (need.families, need.isolation) == (("h100",), (Isolation.DIRECTORY,))
    assert (need.tenant, need.project, need.ref) == ("corp", "vision", TRAIN)
    pinned = with_train(sku="whole", node="gpu02")
    need = kind.needs(pinned.resources[TRAIN], pinned)
    assert need is not None
    assert (need.slots, need.shape, need.pin) == (0, Shape.BAREMETAL, "gpu02")


@pytest.mark.parametrize("word", ["sku", "project"])
def test_without_its_sku_or_project_nobody_knows_what_it_needs(word: str) -> None:
    of = with_train()
    known = {ref: one for ref, one in of.resources.items() if ref.kind != word}
    assert kind.needs(of.resources[TRAIN], replace(of, resources=known)) is None


# What may be wrong with it.


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"owner": "olga", "access": ["ana"]}, "not_a_member"),
        ({"access": ["ana", "olga"]}, "not_a_member"),
        ({"sku": "gold"}, "not_entitled"),
        ({"expiresAt": "none"}, "lease_too_long"),
        ({"expiresAt": "2026-02-30T00:00:00Z"}, "value_pattern"),
        ({"waitUntil": "2026-04-31T00:00:00Z"}, "value_pattern"),
        (
            {
                "storage": [
                    {"name": "a", "mode": "ro", "mountPath": "/data/x"},
                    {"name": "b", "mode": "ro", "mountPath": "/data/x"},
                ]
            },
            "mount_path_unsound",
        ),
        (
            {
                "storage": [
                    {"name": "a", "mode": "ro", "mountPath": "/data"},
                    {"name": "b", "mode": "ro"},
                ]
            },
            "mount_path_unsound",
        ),
    ],
)
def test_what_only_other_documents_show_to_be_wrong(changes: dict[str, Any], code: str) -> None:
    of = with_train(**changes)
    (problem,) = kind.check(of.resources[TRAIN], of)
    assert problem.code == code
    assert problem.hint
    assert problem.source
    assert problem.source.path[0] == "spec"


def test_a_sound_one_has_no_problems_and_a_deprecated_sku_is_not_its_matter() -> None:
    assert codes(with_train()) == []
    old = [one for one in base_fleet() if one["metadata"]["name"] != "slice-2"]
    of = desired(
        [*old, fleet.sku("slice-2", 2, state="deprecated"), allocation("train", "slice-2")]
    )
    assert codes(of) == []


def test_an_end_may_be_left_open_where_the_project_says_so() -> None:
    rest = [one for one in base_fleet() if one["metadata"]["name"] != "vision"]
    open_ended = fleet.project("vision", "ana", "bo", lease={"mayBeOpenEnded": True})
    of = desired([*rest, open_ended, allocation("train", "slice-2", expiresAt="none")])
    assert codes(of) == []


# What its host must show.


def test_a_create_provides_first_and_then_lets_people_in() -> None:
    provide, write, sync = kind.steps(*train())
    assert (provide.verb, provide.order) == ("allocation.provide", Order.PROVIDE)
    assert (sync.verb, sync.order) == ("access.sync", Order.PROVIDE)
    assert encode(provide.item.directories) == [
        {"path": HOME, "mode": "0700", "uid": 0, "gid": 0},
        {"path": SCRATCH, "mode": "0700", "uid": 0, "gid": 0},
    ]
    assert provide.item.account is None
    assert [file.path for file in provide.item.files] == [DESCRIPTOR]
    assert write.verb == "runtime.write_env_file"
    assert [file.path for file in write.item.files] == [ENVIRONMENT]
    assert [file.path for file in sync.item.files] == [KEYS]
    steps = (provide, write, sync)
    assert {(step.item.id, step.item.login, step.node) for step in steps} == {(ID, LOGIN, "gpu01")}
    assert len({step.id for step in steps}) == 3


def test_expected_is_what_the_steps_carry() -> None:
    bound, around = train()
    steps = kind.steps(bound, around)
    facts = {
        path: f"file 0644 sha256:{hashlib.sha256(content.encode()).hexdigest()}"
        for path, content in files(steps).items()
    }
    assert kind.expected(bound, around) == {HOME: "dir 0700", SCRATCH: "dir 0700", **facts}
    assert set(facts) == {DESCRIPTOR, ENVIRONMENT, KEYS}


def test_a_release_ends_access_first_and_the_descriptor_last() -> None:
    """ACC-11: nothing of it is left on the host, and until then the host says whose it is."""
    _, around = train()
    sync, release = kind.steps(binding(None), around)
    assert (sync.verb, release.verb) == ("access.sync", "allocation.release")
    assert {sync.order, release.order} == {Order.RETIRE}
    assert (sync.item.files, sync.item.absent) == ((), (KEYS,))
    assert release.item.absent == (ENVIRONMENT, MARK, HOME, SCRATCH, DESCRIPTOR)
    everything = {KEYS, HOME, SCRATCH, ENVIRONMENT, MARK, DESCRIPTOR}
    assert kind.expected(binding(None), around) == dict.fromkeys(everything)
    assert kind.basis(binding(None), around) == {}


def test_the_descriptor_binds_the_allocation_to_its_slots_under_a_signature() -> None:
    """OBJ-02: identity, machine binding and login stand on the host, signed by who put them."""
    found = json.loads(files(kind.steps(*train()))[DESCRIPTOR])
    assert found["slots"] == [
        {"name": name, "uuid": f"GPU-gpu01-{number}", "pciAddress": f"0000:1{number}:00.0"}
        for number, name in ((1, "s1"), (2, "s2"))
    ]
    assert {key: found[key] for key in ("stateId", "ref", "id", "login", "node", "commit")} == {
        "stateId": STATE_ID,
        "ref": "allocation/vision/train",
        "id": ID,
        "login": LOGIN,
        "node": "gpu01",
        "commit": "c0ffee",
    }
    signature = found.pop("hmac")
    assert signature == sign(canonical(found))
    assert signature != sign(canonical({**found, "owner": "bo"}))


def recorded_as(resource: Resource, **changes: Any) -> Recorded:
    values: dict[str, Any] = {
        "ref": TRAIN,
        "normal": resource.normal,
        "digest": resource.digest,
        "commit": "0ld",
        "id": ID,
        "login": LOGIN,
    }
    return Recorded(**{**values, **changes})


def test_a_commit_that_did_not_change_it_changes_no_file() -> None:
    of = with_train()
    same = binding(of.resources[TRAIN], recorded_as(of.resources[TRAIN]))
    assert json.loads(files(kind.steps(same, context(of)))[DESCRIPTOR])["commit"] == "0ld"
    changed = binding(of.resources[TRAIN], recorded_as(of.resources[TRAIN], digest="sha256:other"))
    assert json.loads(files(kind.steps(changed, context(of)))[DESCRIPTOR])["commit"] == "c0ffee"


def test_the_basis_knows_neither_commit_nor_time() -> None:
    of = with_train()
    bound = binding(of.resources[TRAIN], recorded_as(of.resources[TRAIN]))
    later = context(of, now=NOW.replace(year=2031), origins={})
    assert canonical(kind.basis(bound, context(of))) == canonical(kind.basis(bound, later))


def test_a_new_name_alone_changes_no_host() -> None:
    """`formerName` is a rename without host effect: the login keeps the name it began with."""
    of = desired([*base_fleet(), allocation("better", "slice-2", formerName="train")])
    renamed = of.resources[Ref("allocation", "vision", "better")]
    same = replace(binding(renamed), ref=renamed.ref)
    around = context(of)
    assert kind.basis(same, around) == kind.basis(*train())


@pytest.mark.parametrize(
    "extra",
    [
        (grant("help", "train", "bo"),),
        (fleet.user("ana", "new"),),
        (fleet.user("ana", "laptop", "desk", state="suspended"),),
    ],
)
def test_the_basis_changes_with_who_may_log_in(extra: tuple[dict[str, Any], ...]) -> None:
    """ACC-06, ACC-10: grants, keys and suspensions reach the host through the allocation."""
    assert canonical(kind.basis(*train(*extra))) != canonical(kind.basis(*train()))
    before, after = kind.expected(*train()), kind.expected(*train(*extra))
    assert {path for path in before if before[path] != after[path]} == {KEYS}


def test_the_basis_changes_with_a_template_and_not_with_labels() -> None:
    of = with_train()
    bound, around = binding(of.resources[TRAIN]), context(of)
    digests = {**around.template_digests, "allocation/keys.j2": "sha256:new"}
    assert kind.basis(bound, around) != kind.basis(bound, replace(around, template_digests=digests))
    hostile = {"note": '{{ 7 * 7 }}"\n$(reboot)'}
    labelled = train(labels=hostile)
    assert kind.basis(*labelled) == kind.basis(*train())
    assert not any("reboot" in text for text in files(kind.steps(*labelled)).values())


def test_a_change_of_access_does_not_wait_behind_what_others_are_given() -> None:
    """Rule 9: what takes a key away is in the first order of its host."""
    of = with_train()
    bound = binding(of.resources[TRAIN], recorded_as(of.resources[TRAIN]))
    orders = {step.verb: step.order for step in kind.steps(bound, context(of))}
    assert orders == {
        "access.sync": Order.RETIRE,
        "allocation.provide": Order.PROVIDE,
        "runtime.write_env_file": Order.PROVIDE,
    }


def test_the_key_file_has_one_key_a_line_and_ends_with_a_newline() -> None:
    """F-GRT-08: nothing is glued to a last line without an end."""
    text = files(kind.steps(*train(grant("help", "train", "bo"))))[KEYS]
    keys = [line for line in text.splitlines() if not line.startswith("#")]
    assert [line.split(" ")[-1] for line in keys] == ["ana/desk", "ana/laptop", "bo/desk"]
    assert text.endswith("\n")
    assert "" not in text.splitlines()
    assert "allocation/vision/train" in text.splitlines()[0]


def test_a_key_file_without_keys_is_a_file_without_keys() -> None:
    text = files(kind.steps(*train(fleet.user("ana", "desk", state="suspended"))))[KEYS]
    assert all(line.startswith("#") for line in text.splitlines())
    assert text.endswith("\n")


def test_every_reader_of_the_environment_reads_the_same(tmp_path: Path) -> None:
    """F-BUN-03: sh, bash and a reader that knows no quotes agree, and sourcing runs nothing."""
    path = tmp_path / "env"
    path.write_text(files(kind.steps(*train()))[ENVIRONMENT])
    plain = dict(
        line.split("=", 1) for line in path.read_text().splitlines() if not line.startswith("#")
    )
    assert plain == {
        "GPUAAS_PROJECT": "vision",
        "GPUAAS_ALLOCATION": "train",
        "GPUAAS_ALLOCATION_ID": ID,
        "GPUAAS_EXPIRES": "2126-11-07T12:00:00Z",
        "CUDA_VISIBLE_DEVICES": "GPU-gpu01-1,GPU-gpu01-2",
    }
    for shell in ("sh", "bash"):
        told = subprocess.run(
            [shell, "-c", f"set -a; . {path}; exec env"],
            check=True,
            capture_output=True,
            text=True,
            env={"PATH": "/usr/bin:/bin"},
        ).stdout.splitlines()
        assert {f"{key}={value}" for key, value in plain.items()} <= set(told)


@pytest.mark.parametrize(
    "uuid", ["GPU-$(reboot)", "GPU-1 2", "GPU-`x`", "GPU-1\nPATH=/tmp", 'GPU-"']
)
def test_a_value_that_readers_would_take_apart_is_refused(uuid: str) -> None:
    """F-BUN-03: refused, not quoted in the hope that all understand it."""
    of = with_train()
    gpus = [fleet.slot("gpu01", number) for number in range(8)]
    gpus[1]["gpu"]["uuid"] = uuid
    odd = fleet.resource(fleet.node("gpu01", gpus))
    of = replace(of, resources={**of.resources, odd.ref: odd})
    with pytest.raises(ProblemError) as refused:
        kind.steps(binding(of.resources[TRAIN]), context(of))
    assert [problem.code for problem in refused.value.problems] == ["template_unsound"]


def test_slots_are_known_from_the_record_when_the_spec_has_lost_them() -> None:
    """A node taken out of git does not make its allocations unknown."""
    of = with_train()
    node = of.resources[Ref("node", "", "gpu01")]
    gone = replace(of, resources={ref: one for ref, one in of.resources.items() if ref != node.ref})
    kept: Mapping[Ref, Recorded] = {
        node.ref: Recorded(ref=node.ref, normal=node.normal, digest=node.digest)
    }
    bound = binding(of.resources[TRAIN])
    remembered = context(gone, world=world(gone, recorded=kept))
    assert kind.expected(bound, remembered) == kind.expected(bound, context(of))
    with pytest.raises(ProblemError) as refused:
        kind.steps(bound, context(gone))
    assert [problem.code for problem in refused.value.problems] == ["dangling_reference"]
