"""Versions of bundles are really built, cut short and left without room, on folders as hosts."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import gpuaas
import pytest

from tests import privileges
from tests.bundles import hello
from tests.harness.directory_host import tree
from tests.host_code.runtime_host import PHASES, Ground, stage

pytestmark = pytest.mark.walk

with_mounts = privileges.needs(privileges.mounts)


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    ground = Ground.laid(tmp_path)
    yield ground
    for version in (*hello.VERSIONS, *FAILING):
        ground.killed(version)


def standing(ground: Ground) -> dict[str, str]:
    """What people use there just now."""
    return tree(ground.tree("2.0")) | {"current": os.readlink(ground.current)}


def left(ground: Ground, version: str = "1.0") -> set[str]:
    """What a build has left of what it had made."""
    job = ground.job(version)
    made = (job / f"trees/hello/{version}", job / "tmp", job / "wheels")
    return {str(path) for folder in made if folder.exists() for path in folder.iterdir()}


def without_tmp(ground: Ground, items: list[dict[str, Any]]) -> None:
    """Begun where nothing fits into /tmp: what is mounted there nobody else sees.

    Nor is anything seen that lies below /tmp itself, where this very code may be.
    """
    code = ground.root.with_name("code")
    shutil.copytree(gpuaas.__path__[0], code / "gpuaas")
    script = 'mount -t tmpfs -o size=4k,nr_inodes=2 none /tmp && touch /tmp/full && exec "$@"'
    program = "import json, sys; from gpuaas.converge import converge; "
    program += "print(json.dumps(converge(sys.argv[1], '', json.loads(sys.argv[2]))))"
    work = [
        {"step": str(number), "verb": "runtime.stage", "ref": "bundle/hello", "item": item}
        for number, item in enumerate(items)
    ]
    python = os.path.realpath(sys.executable)
    words = ["unshare", "--mount", "sh", "-euc", script, "sh", python, "-c", program]
    done = subprocess.run(
        [*words, str(ground.root), json.dumps(work)],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(code)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert [one["changed"] for one in json.loads(done.stdout)] == [True, True, False, False]


@with_mounts
def test_two_versions_are_built_at_once_and_two_builds_of_one_are_one() -> None:
    """BND-04, BND-13, F-BUN-01, F-BUN-02: after a kill, asked for twice, with a full /tmp."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        ground = Ground.laid(Path(folder))
        items = [ground.item(version, current="2.0") for version in hello.VERSIONS]
        assert ground.do("runtime.stage", items[0]).code == ""
        ground.reached("environment")
        ground.killed()
        assert ground.ended() == "failed runtime_interrupted: it ended during environment"
        assert (ground.builders(), ground.tree().exists()) == ([], False)
        without_tmp(ground, [*items, *items])
        for version in hello.VERSIONS:
            assert ground.ended(version).startswith("staged sha256:"), ground.shown(version)
            assert ground.greeting(version) == f"hello {version}\n"
        assert ground.facts()["current hello"] == "2.0"
        assert (ground.stray(), ground.builders()) == (set(), [])
        paths = [path for path in ground.tree().rglob("*") if not path.is_symlink()]
        assert not [path for path in paths if path.stat().st_mode & 0o022]
        prefix = [ground.tree() / "bin/python", "-c", "import sys; print(sys.prefix)"]
        said = subprocess.run(prefix, capture_output=True, text=True, check=True).stdout
        assert said == f"{ground.tree()}\n", "it was built under the name that it has"
        whole = tree(ground.root)
        for item in items:
            assert not ground.do("runtime.stage", item).changed
            assert not ground.do("runtime.repair", item).changed
        assert tree(ground.root) == whole, "to use and to look at it has changed nothing"


FAILING: dict[str, tuple[dict[str, Any], str]] = {
    "hash": (
        {"lock": hello.lock("1.0").replace(hello.wheel_digest("1.0"), "0" * 64)},
        "failed runtime_hash_wrong: a wheel is not the one that was agreed",
    ),
    "missing": (
        {"lock": hello.lock("1.0").replace("gpuaas-hello", "gpuaas-other")},
        "failed runtime_wheel_missing: ",
    ),
    "verify": (
        {"imports": ["gpuaas_hello.none"]},
        "failed runtime_verify_failed: import gpuaas_hello.none: ",
    ),
    "python": (
        {"python": "3.99"},
        "failed runtime_python_missing: /usr/bin/python3.99 is not there",
    ),
    "mirror": (
        {"index": "file:///nowhere"},
        "failed runtime_wheel_missing: /nowhere is not there on this host",
    ),
}


def refuse_to_build(ground: Ground, names: Iterable[str]) -> None:
    ground.seal("2.0", current="2.0")
    before = standing(ground)
    for version in names:
        changes, _ = FAILING[version]
        item = ground.item(**changes, current=version) | {"version": version}
        item["lockDigest"] = hello.digest(item["lock"])
        assert ground.do("runtime.stage", item).code == ""
    for version in names:
        assert ground.ended(version).startswith(FAILING[version][1]), ground.shown(version)
        assert not ground.tree(version).exists() and left(ground, version) == set()
    assert standing(ground) == before
    assert ground.builders() == []


def test_what_cannot_be_built_says_why_and_changes_nothing(ground: Ground) -> None:
    """BND-20, F-BUN-02: a wrong hash, no Python, no mirror."""
    refuse_to_build(ground, ("hash", "python", "mirror"))


@pytest.mark.slow
def test_what_turns_out_to_be_unfit_changes_nothing_either(ground: Ground) -> None:
    """BND-04, BND-20: a wheel that is not there, and one that cannot be imported."""
    refuse_to_build(ground, ("missing", "verify"))


@pytest.mark.slow
@pytest.mark.parametrize("phase", PHASES)
def test_a_build_that_is_killed_is_none_and_the_next_one_ends_well(
    ground: Ground, phase: str
) -> None:
    """F-BUN-01, F-ANS-13: nothing of it can be activated, and what people use is as it was."""
    ground.seal("2.0", current="2.0")
    before = standing(ground)
    item = ground.item(current="1.0")
    assert ground.do("runtime.stage", item).code == ""
    ground.reached(phase)
    assert not ground.tree().exists() or phase == "seal"
    ground.killed()
    shown = ground.ended()
    if not shown.startswith("staged"):
        assert shown.startswith("failed runtime_interrupted: it ended during ")
        assert not ground.tree().exists() and standing(ground) == before
    assert ground.builders() == [], "nothing of it outlives it"
    assert ground.do("runtime.stage", item).code == ""
    assert ground.ended().startswith("staged"), ground.shown()
    assert ground.do("runtime.stage", item).code == ""
    assert (ground.greeting(), os.readlink(ground.current)) == ("hello 1.0\n", "1.0")
    assert (standing(ground) | {"current": "2.0"}, ground.stray()) == (before, set())


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Ground]:
    """A host whose own file system has just enough room to begin."""
    disk = tmp_path / "small"
    disk.mkdir()
    options = f"size={stage.LEAST_MIB + 3}m,nr_inodes={stage.LEAST_FILES + 120}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", disk], check=True)
    ground = Ground.laid(disk)
    yield ground
    ground.killed()
    subprocess.run(["umount", "--lazy", disk], check=True)


def fill(folder: Path, what: str) -> None:
    with pytest.raises(OSError, match="No space left"):
        if what == "blocks":
            with (folder / "full").open("wb", buffering=0) as file:
                while True:
                    file.write(bytes(1 << 16))
        for number in range(1 << 20):
            (folder / f"full-{number}").touch()


def make_scarce(folder: Path, what: str) -> None:
    """Enough to say why, too little to begin."""
    if what == "blocks":
        (folder / "full").write_bytes(bytes(16 << 20))
        return
    for number in range(200):
        (folder / f"full-{number}").touch()


def empty(folder: Path) -> None:
    for path in folder.glob("full*"):
        path.unlink()


@with_mounts
@pytest.mark.parametrize(
    ("what", "lacking"), [("blocks", "MiB are free, 64 are"), ("inodes", "more files, 2000 are")]
)
def test_without_room_what_was_there_stays_and_what_was_made_goes(
    small: Ground, what: str, lacking: str
) -> None:
    """F-BUN-02: it says which file system; with room again it ends well."""
    small.seal("2.0", current="2.0")
    before = standing(small)
    item = small.item(current="1.0")
    fill(small.root, what)
    refused = small.do("runtime.stage", item)
    assert refused.code == "runtime_without_room" and "/opt/gpuaas/runtimes" in refused.message
    empty(small.root)
    why = f"failed runtime_without_room: the file system of {small.root}/opt/gpuaas/runtimes: "
    make_scarce(small.root, what)
    assert small.do("runtime.stage", item).code == ""
    shown = small.ended()
    assert shown.startswith(why) and shown.endswith(f"{lacking} needed")
    empty(small.root)
    assert small.do("runtime.stage", item).code == ""
    small.reached("environment")
    fill(small.root, what)
    assert small.ended() == f"{why}nothing is left of it"
    assert (left(small), standing(small)) == (set(), before)
    empty(small.root)
    assert small.do("runtime.stage", item).code == ""
    small.reached("environment")


@pytest.mark.slow
def test_a_repair_builds_anew_beside_what_is_used_until_it_is_whole(ground: Ground) -> None:
    """F-BUN-07, BND-16: known content again; what is outside is not touched."""
    assert ground.do("runtime.stage", ground.item(current="1.0")).code == ""
    ground.ended()
    site = ground.tree() / "lib/python3.11/site-packages"
    known = tree(ground.tree())
    (site / "gpuaas_hello.py").write_text("")
    (site / "theirs.py").write_text("")
    assert ground.do("runtime.repair", ground.item()).evidence == {
        "removed": "lib/python3.11/site-packages/theirs.py"
    }
    ground.reached("install")
    assert (ground.tree() / "activate.sh").exists(), "whoever works in it goes on"
    assert ground.ended().startswith("staged")
    now = tree(ground.tree())
    assert {name: now[name] for name in now if ".pyc" not in name and "manifest" not in name} == {
        name: known[name] for name in known if ".pyc" not in name and "manifest" not in name
    }
    assert (ground.greeting(), ground.stray()) == ("hello 1.0\n", set())
