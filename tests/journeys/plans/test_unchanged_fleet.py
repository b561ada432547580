"""Quiet: what changes nothing plans nothing, touches no host and starts no play."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
import yaml

from tests.harness.applied_fleet import GRANTS, SOLO, TRAIN
from tests.harness.yard import Yard, project
from tests.planner import fleet as paper

pytestmark = pytest.mark.walk


def assert_quiet(yard: Yard) -> None:
    """An empty plan, and an apply that changes neither hosts nor the books, without any play."""
    hosts, serial, runs = yard.hosts(), yard.world.serial, yard.runs
    plan = yard.plan("--detailed-exitcode")
    assert (plan.code, plan.actions, plan.problems) == (0, {}, [])
    done = yard.apply()
    assert (done.code, done.document["result"]["run"]) == (0, "")
    assert (yard.hosts(), yard.world.serial, yard.runs) == (hosts, serial, runs)


def shuffled(value: Any) -> Any:
    """Other orders of keys, and of lists whose order means nothing."""
    if isinstance(value, dict):
        keys = random.sample(list(value), len(value))
        return {key: shuffled(value[key]) for key in keys}
    if isinstance(value, list):
        return random.sample([shuffled(each) for each in value], len(value))
    return value


def by_order(yard: Yard) -> None:
    random.seed(7)
    for path in yard.specs.rglob("*.yaml"):
        document = yaml.safe_load(path.read_text())
        path.write_text(yaml.safe_dump(shuffled(document), sort_keys=False))


def by_spelling(yard: Yard) -> None:
    """Explicit defaults, comments, flow style, quotes, another zone for the same moment."""
    solo = deepcopy(SOLO)
    solo["spec"] |= {"access": ["ana"], "storage": [], "runtimes": [], "restart": {"generation": 0}}
    solo["metadata"]["labels"] = {}
    grant = deepcopy(GRANTS[2])
    end = str(grant["spec"]["expiresAt"])
    grant["spec"] |= {"expiresAt": end.replace("Z", "+00:00"), "privilege": "login"}
    yard.write(solo, grant)
    for path in yard.specs.rglob("*.yaml"):
        document = yaml.safe_load(path.read_text())
        style = {"default_style": '"'} if path.parent.name == "user" else {}
        text = yaml.safe_dump(document, default_flow_style=path.parent.name == "sku", **style)
        path.write_text(f"# Said differently.\n\n{text}\n# The end.\n")


def by_place(yard: Yard) -> None:
    """All documents in one file of another name."""
    documents = [path.read_text() for path in sorted(yard.specs.rglob("*.yaml"), reverse=True)]
    shutil.rmtree(yard.specs)
    yard.specs.mkdir()
    (yard.specs / "everything.yaml").write_text("---\n".join(documents))


@pytest.mark.parametrize("change", [by_order, by_spelling, by_place], ids=lambda one: one.__name__)
def test_the_same_said_differently_is_no_change(yard: Yard, change: Callable[[Yard], None]) -> None:
    """F-PLN-07, F-PLN-08: order, spelling, layout and comments, edited and then committed."""
    change(yard)
    assert_quiet(yard)
    yard.commit("ana")
    assert_quiet(yard)


def test_after_an_apply_there_is_nothing_to_do(yard: Yard) -> None:
    """F-PLN-08: as it stands, and again once every host was looked at anew."""
    assert_quiet(yard)
    assert yard.plan("--refresh", "--detailed-exitcode").code == 0
    assert_quiet(yard)


def test_a_real_difference_still_shows(yard: Yard) -> None:
    """F-PLN-07: among shuffled lists the one added member is told, and nothing else."""
    by_order(yard)
    project = yard.specs / "project/nlp.yaml"
    document = yaml.safe_load(project.read_text())
    document["spec"]["members"].append({"user": "dana", "role": "member"})
    project.write_text(yaml.safe_dump(document))
    shown = yard.plan("--detailed-exitcode")
    assert (shown.code, shown.actions) == (2, {"project/nlp": "change"})
    (field,) = shown.change("project/nlp")["fields"]
    assert field["path"] == "spec.members[dana]"


def test_another_name_keeps_everything_else(yard: Yard) -> None:
    """F-PLN-04: a declared rename keeps id, login, slots and claims, and touches no host."""
    ref, new = "allocation/vision/train", "allocation/vision/learn"
    was, hosts, runs = yard.recorded(ref), yard.hosts(), yard.runs
    yard.remove(TRAIN)
    spec = {**was.normal["spec"], "sku": "slice-2"}
    renamed = paper.document("Allocation", "learn", plain(spec), "vision", formerName="train")
    yard.write(renamed)
    done = yard.apply("--auto-approve=safe")
    assert (done.code, done.actions) == (0, {new: "rename"})
    now = yard.recorded(new)
    assert (now.id, now.login, now.node, now.slots) == (was.id, was.login, was.node, was.slots)
    assert (yard.recorded(ref), yard.hosts(), yard.runs) == (None, hosts, runs)
    assert yard.claims[f"{new}@gpu01/s0"] == yard.claims[f"{new}@gpu01/s1"] == "held"
    assert_quiet(yard)


def test_another_name_alone_is_a_new_one_and_a_release(yard: Yard) -> None:
    """F-PLN-04: without the declaration nothing is destroyed unattended, and the plan says what."""
    ref = "allocation/vision/train"
    was = yard.recorded(ref)
    yard.remove(TRAIN)
    yard.write(paper.document("Allocation", "learn", plain(was.normal["spec"]), "vision"))
    yard.commit()
    asked = yard.apply("--auto-approve=safe")
    assert asked.blocked == {ref: "held_for_approval", "allocation/vision/learn": "sku_unavailable"}
    assert asked.code == 3
    assert yard.claims[f"{ref}@gpu01/s0"] == "held"
    assert asked.change(ref)["facts"]["lost"].startswith("home ")


def plain(spec: Any) -> dict[str, Any]:
    return {key: spec[key] for key in ("sku", "owner", "access", "node", "expiresAt")}


def test_what_this_version_cannot_do_is_blocked_and_nothing_of_it_is_written(yard: Yard) -> None:
    """OBJ-03, OBJ-04: everything else of the same commit is applied."""
    shelf = paper.document(
        "StorageClass", "shelf", {"directory": {"path": "/srv"}, "accessModes": ["single_writer"]}
    )
    root = paper.sku("root", 0, rootAccess=True)
    vision = project("vision", "ana", "bo", "cem", "dana")
    more = {"skus": ["slice-1", "slice-2", "whole", "root"]}
    vision["spec"] = {**vision["spec"], "entitlements": more}
    yard.write(shelf, root, vision, paper.allocation("later", "root"), paper.user("eve"))
    hosts, before = yard.hosts(), yard.world.recorded
    done = yard.apply()
    blocked = ["allocation/vision/later", "sku/root"]
    assert done.code == 3
    assert done.blocked == dict.fromkeys(blocked, "not_yet_supported")
    new = {str(ref) for ref in yard.world.recorded.keys() - before.keys()}
    assert new == {"storage_class/shelf", "user/eve"}
    assert yard.rows("SELECT count(*) FROM claim") == [(4,)]
    assert yard.hosts() == hosts


def test_files_that_cannot_be_read_release_nothing(yard: Yard) -> None:
    """F-REC-02: also not what has moved into such a file, while the rest of a commit is applied."""
    ref, train = "allocation/vision/train", yard.specs / "allocation/vision/train.yaml"
    moved = yard.specs / "allocation/vision/moved.yaml"
    moved.write_text(train.read_text() + "  : [\n")
    train.unlink()
    yard.write(paper.user("eve"))
    done = yard.apply()
    assert done.code == 1
    assert done.actions == {ref: "frozen", "user/eve": "create"}
    assert "moved.yaml" in done.change(ref)["problem"]["message"]
