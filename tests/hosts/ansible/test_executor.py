"""Waves carried out by the real ansible-runner on hosts that are folders."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from reconciler.hosts.ansible import executor
from reconciler.hosts.ansible.executor import RunOptions, run_wave
from reconciler.hosts.ansible.inventory import write_inventory
from reconciler.hosts.ansible.run import environment
from reconciler.hosts.evidence import observe
from reconciler.hosts.folders import short_folder
from reconciler.hosts.payload import carried
from reconciler.model.canonical import text_digest
from reconciler.model.host.evidence import NodeFacts
from reconciler.model.plan.work import Host, HostProgress, HostWork, Receipt
from reconciler.model.ref import Ref
from tests.fleets import public_key
from tests.harness.directory_host import (
    DESCRIPTOR,
    ENVIRONMENT,
    HOME,
    KEYS,
    LOGIN,
    NO_KEYS,
    PLAYBOOKS,
    RELEASE,
    Wish,
    host,
    ignore,
    keys_item,
    options,
    provide_item,
    step,
    tree,
)
from tests.harness.sshd import needs_sshd, sshd

pytestmark = pytest.mark.walk

SIX_KEYS = "".join(
    public_key(f"{name}/{key}") + "\n" for name in ("ana", "ben", "cleo") for key in ("a", "b")
)
LONE = "{{ {% raw %} {{"
LONG_NAME = "n" * 63
LONG_ADDRESS = "177.0.0.1".zfill(63)
"""127.0.0.1 as C reads numbers, and as long as a host name may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """One allocation from nothing to nothing: what each run answered, and what was then seen."""

    root: Path
    marker: Path
    content: str
    receipts: dict[str, tuple[Receipt, ...]]
    facts: dict[str, NodeFacts]
    trees: dict[str, dict[str, str]]
    progress: list[HostProgress]
    runs: Path


def facts_of(one: Host, chosen: RunOptions) -> NodeFacts:
    (seen,) = observe([one], chosen, at=datetime.now(UTC))
    assert seen.facts is not None, seen.message
    return seen.facts


@pytest.fixture(scope="module")
def hostile() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@contextmanager
def place(how: str, base: Path, root: Path) -> Iterator[Host]:
    """The folder as a host of this machine, or as one behind sshd with names as long as can be."""
    if how == "local":
        yield host(root)
        return
    with sshd(base / "sshd") as server:
        yield server.host(root, LONG_NAME, address=LONG_ADDRESS)


@pytest.fixture(scope="module", params=["local", pytest.param("ssh", marks=needs_sshd)])
def life(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    hostile: pytest.MonkeyPatch,
) -> Iterator[Life]:
    """Three runs in a state folder with a long path, in an environment out to spoil them."""
    base = tmp_path_factory.mktemp("life")
    with place(request.param, base, base / "root {{ 7 * 7 }} '{%") as one:
        spoil(base, hostile)
        yield live(one, base)


def live(one: Host, base: Path) -> Life:
    chosen = options(base / ("s" * 90))
    root, marker = Path(one.root), base / "marker"
    foreign = root / "etc/gpuaas/ssh/other-b-wxyz"
    foreign.parent.mkdir(parents=True)
    foreign.write_text("theirs, and no end")
    order = f"{{{{ lookup('pipe', 'touch {marker}') }}}}"
    content = json.dumps({"name": order, "lone": LONE, "large": "x" * 800_000})
    ask = partial(step, node=one.node)
    provide = ask("allocation.provide", provide_item(content, f"NAME={order}{LONE}\n"))
    access = ask("access.sync", keys_item(f"# {order} {LONE}\n{SIX_KEYS}"))
    waves = {
        "first": (provide, access),
        "second": (provide, access),
        "release": (ask("access.sync", NO_KEYS), ask("allocation.release", RELEASE)),
    }
    receipts, facts, trees, progress = {}, {}, {}, list[HostProgress]()
    for name, steps in waves.items():
        works = [HostWork(host=one, steps=steps)]
        receipts[name] = run_wave(works, chosen, progress.append, Wish())
        facts[name] = facts_of(one, chosen)
        trees[name] = tree(root)
        if name == "first":
            (root / HOME.lstrip("/") / "work").write_text("the tenant's")
    return Life(
        root=root,
        marker=marker,
        content=content,
        receipts=receipts,
        facts=facts,
        trees=trees,
        progress=progress,
        runs=chosen.run_dir,
    )


def spoil(base: Path, patch: pytest.MonkeyPatch) -> None:
    """Every way in which a user's own settings could change a run."""
    home = base / ("h" * 90)
    home.mkdir()
    for place in (home / ".ansible.cfg", base / "ansible.cfg", base / "other.cfg"):
        place.write_text("[defaults]\nlibrary = /nowhere\nstrategy = free\ncallbacks_enabled = x\n")
    patch.chdir(base)
    patch.setenv("HOME", str(home))
    patch.setenv("ANSIBLE_CONFIG", str(base / "other.cfg"))
    patch.setenv("ANSIBLE_HOST_KEY_CHECKING", "False")
    patch.setenv("ANSIBLE_STRATEGY", "no_such_strategy")
    patch.setenv("ANSIBLE_LIBRARY", "/nowhere")
    patch.setenv("ANSIBLE_CHECK_MODE_MARKERS", "perhaps")
    patch.setenv("ANSIBLE_HOME", str(base / "h" / ("d" * 120)))
    patch.setenv("PYTHONPATH", "/nowhere")
    patch.setenv("MAX_EVENT_RES", "10")
    patch.setenv("LC_ALL", "C")


def test_provide_and_access_make_what_was_asked(life: Life) -> None:
    """F-ANS-11: a long state folder, a long HOME and settings of the user change nothing."""
    assert [(r.ok, r.changed) for r in life.receipts["first"]] == [(True, True)] * 2
    paths = life.facts["first"].paths
    assert paths is not None
    assert paths[HOME] == "dir 0700"
    assert paths[DESCRIPTOR] == f"file 0644 {text_digest(life.content)}"
    for receipt in life.receipts["first"]:
        assert {path: paths[path] for path in receipt.evidence if path in paths}
        assert not receipt.log


def test_text_arrives_as_it_is(life: Life) -> None:
    """F-ANS-01: templates and lone braces in content are text; no marker is made anywhere."""
    files = life.trees["first"]
    assert LONE in files[ENVIRONMENT.lstrip("/")]
    assert json.loads(files[DESCRIPTOR.lstrip("/")].split(" ", 1)[1])["lone"] == LONE
    assert not life.marker.exists()


def test_large_work_comes_back_with_receipts(life: Life) -> None:
    """F-ANS-02: work beyond what a result may hold is not answered by {}."""
    assert len(life.content) > 700_000
    assert all(receipt.ok for receipt in life.receipts["first"])


def test_the_second_run_changes_nothing(life: Life) -> None:
    """F-ANS-15: the same work again: no change, and the tenant's own file still there."""
    assert [(r.ok, r.changed) for r in life.receipts["second"]] == [(True, False)] * 2
    work = f"{HOME.lstrip('/')}/work"
    assert life.trees["second"].items() - life.trees["first"].items() == {
        (work, life.trees["second"][work])
    }


def test_six_keys_stand_and_the_files_of_others_too(life: Life) -> None:
    """F-GRT-03, F-GRT-08: three people's six keys, each on its line; no other file is touched."""
    lines = life.trees["second"][KEYS.lstrip("/")].splitlines()
    assert lines[1:] == SIX_KEYS.splitlines()
    for files in life.trees.values():
        assert files["etc/gpuaas/ssh/other-b-wxyz"].endswith("theirs, and no end")


def test_a_release_leaves_nothing(life: Life) -> None:
    assert [(r.ok, r.changed) for r in life.receipts["release"]] == [(True, True)] * 2
    paths = life.facts["release"].paths
    assert paths is not None and not [p for p in paths if LOGIN in p or "abcdefghij" in p]


def test_progress_is_told_for_each_host(life: Life) -> None:
    assert [one.phase for one in life.progress] == ["connect", "converge", "done"] * 3


def test_nothing_of_the_work_stays_on_the_disk(life: Life) -> None:
    """F-ANS-07, F-ANS-08: after the run neither inventory nor events nor content are anywhere."""
    left = [path for path in life.runs.rglob("*") if path.is_file()]
    assert {path.name for path in left} == {"log"}
    assert not any("lookup" in path.read_text() for path in left)
    assert all(stat.S_IMODE(run.stat().st_mode) == 0o700 for run in life.runs.iterdir())
    assert not list(short_folder().glob(f"call-{os.getpid()}-*"))


def test_a_dry_run_by_ansible_itself_writes_nothing(tmp_path: Path) -> None:
    """F-ANS-14: `--check` through Ansible says what would change and leaves the folder bare."""
    (tmp_path / "root").mkdir()
    steps = (step("allocation.provide", provide_item()),)
    inventory = write_inventory(
        [HostWork(host=host(tmp_path / "root"), steps=steps)],
        tmp_path,
        sockets=tmp_path,
        python=sys.executable,
        code=carried(PLAYBOOKS / "module_utils/gpuaas", "converge"),
    )
    done = subprocess.run(
        ["ansible-playbook", "--check", "-i", inventory, PLAYBOOKS / "converge.yml"],
        env=environment(PLAYBOOKS, tmp_path / "home"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "changed=1" in done.stdout, done.stdout + done.stderr
    assert list((tmp_path / "root").iterdir()) == []


def test_an_unreachable_host_is_not_fine_and_stops_nobody(tmp_path: Path) -> None:
    """F-ANS-02, F-ANS-04: of three hosts one refuses connections and one has no root folder."""
    (tmp_path / "good").mkdir()
    good = host(tmp_path / "good", node="all")
    gone = host(tmp_path / "gone", node="localhost")
    far = Host(
        node="far",
        address="127.0.0.1",
        port=1,
        root="/",
        isolation="account",
        machine_id="a" * 32,
        host_keys=("ssh-ed25519 AAAA",),
    )
    works = [
        HostWork(
            host=one, steps=(step("allocation.provide", provide_item(one.node), node=one.node),)
        )
        for one in (far, gone, good)
    ]
    of_far, of_gone, of_good = run_wave(works, options(tmp_path), ignore, Wish())
    assert of_good.ok and of_good.node == "all"
    assert (tmp_path / "good" / DESCRIPTOR.lstrip("/")).read_text() == "all"
    assert (of_far.ok, of_far.unknown) == (False, True)
    assert of_far.problem is not None and of_far.problem.code == "host_unreachable"
    assert (of_gone.ok, of_gone.unknown) == (False, False)
    assert of_gone.problem is not None and of_gone.problem.code == "host_unreachable"
    assert not (tmp_path / "gone").exists()


def test_nothing_to_do_is_no_run_at_all(tmp_path: Path) -> None:
    """F-ANS-12: without work, or with work that no host takes, no run starts."""
    bad = step("allocation.release", {**RELEASE, "force": True})
    assert run_wave([], options(tmp_path), ignore, Wish()) == ()
    works = [HostWork(host=host(tmp_path), steps=(bad,))]
    (refused,) = run_wave(works, options(tmp_path), ignore, Wish())
    assert refused.problem is not None and refused.problem.code == "item_invalid"
    assert not (tmp_path / "runs").exists()


def test_a_wish_to_stop_starts_nothing_more(tmp_path: Path) -> None:
    works = [HostWork(host=host(tmp_path), steps=(step("access.sync", NO_KEYS),))]
    (receipt,) = run_wave(works, options(tmp_path), ignore, Wish(asked=True))
    assert receipt.problem is not None and receipt.problem.code == "interrupted"
    assert not receipt.unknown
    assert not (tmp_path / "runs").exists()


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    """A Python that does not come to its work; it leaves its process id, and a child of its own."""
    script = tmp_path / "slow-python"
    script.write_text(f"#!/bin/sh\nsetsid sleep 300 & echo $! $$ > {tmp_path}/pids\nsleep 300\n")
    script.chmod(0o755)
    return script


def wait_for(what: Callable[[], bool], seconds: float = 20) -> bool:
    until = time.monotonic() + seconds
    while not (found := what()) and time.monotonic() < until:
        time.sleep(0.05)
    return found


def alive(folder: Path) -> list[str]:
    pids = (folder / "pids").read_text().split()
    return [pid for pid in pids if Path("/proc", pid).exists() and state(pid) != "Z"]


def state(pid: str) -> str:
    try:
        return Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


def test_a_run_past_its_time_is_ended_whole(tmp_path: Path, slow: Path) -> None:
    """F-ANS-06: the time-out leaves no process behind, and the outcome is unknown."""
    works = [HostWork(host=host(tmp_path), steps=(step("access.sync", NO_KEYS),))]
    chosen = options(tmp_path, python=str(slow), timeout_s=4)
    (receipt,) = run_wave(works, chosen, ignore, Wish())
    assert receipt.problem is not None and receipt.problem.code == "host_timeout"
    assert receipt.unknown
    assert alive(tmp_path) == []
    assert [path.name for path in (tmp_path / "runs").glob("*/*") if path.name == "failed"]


def test_a_second_wish_to_stop_ends_the_run_in_hand(tmp_path: Path, slow: Path) -> None:
    """F-ANS-06: what was running is gone, its outcome unknown, and the next run works."""
    wish = Wish()
    works = [HostWork(host=host(tmp_path), steps=(step("access.sync", NO_KEYS),))]

    class Watching:
        asked = False

        @property
        def forced(self) -> bool:
            wish.forced = wish.forced or (tmp_path / "pids").exists()
            return wish.forced

    (receipt,) = run_wave(works, options(tmp_path, python=str(slow)), ignore, Watching())
    assert receipt.problem is not None and receipt.problem.code == "interrupted"
    assert receipt.unknown
    assert alive(tmp_path) == []
    (again,) = run_wave(works, options(tmp_path), ignore, Wish())
    assert again.ok


def test_a_run_that_ends_by_itself_leaves_the_ssh_masters(tmp_path: Path) -> None:
    """What put itself into a session of its own outlives the run, as a kept connection must."""
    script = tmp_path / "python"
    script.write_text(
        f"#!/bin/sh\nsetsid sleep 300 </dev/null >/dev/null 2>&1 & echo $! > {tmp_path}/pids\n"
        f'exec {sys.executable} "$@"\n'
    )
    script.chmod(0o755)
    works = [HostWork(host=host(tmp_path), steps=(step("access.sync", NO_KEYS),))]
    (receipt,) = run_wave(works, options(tmp_path, python=str(script)), ignore, Wish())
    assert receipt.ok
    (master,) = alive(tmp_path)
    os.kill(int(master), signal.SIGKILL)


CONTROLLER = """
import sys
from pathlib import Path
from tests.harness.directory_host import *
from reconciler.hosts.ansible.executor import run_wave
from reconciler.model.plan.work import HostWork
folder = Path(sys.argv[1])
works = [HostWork(host=host(folder), steps=(step("access.sync", NO_KEYS),))]
run_wave(works, options(folder, python=str(folder / "slow-python")), ignore, Wish())
"""


def test_nothing_outlives_a_killed_controller(tmp_path: Path, slow: Path) -> None:
    """F-ANS-06, F-ANS-07: after SIGKILL nothing works on, and the inventory is taken away."""
    controller = subprocess.Popen(
        [sys.executable, "-c", CONTROLLER, str(tmp_path)], cwd=Path(__file__).parents[3]
    )
    assert wait_for((tmp_path / "pids").exists)
    assert alive(tmp_path)
    os.kill(controller.pid, signal.SIGKILL)
    controller.wait()
    assert wait_for(lambda: alive(tmp_path) == [])
    assert wait_for(lambda: not list(short_folder().glob(f"call-{controller.pid}-*")))


def test_two_runs_at_once_share_nothing(tmp_path: Path) -> None:
    """F-ANS-04: each run has a folder of its own; neither sees the other's values."""
    code = CONTROLLER.replace(
        'options(folder, python=str(folder / "slow-python"))', "options(folder.parent)"
    ).replace('"access.sync", NO_KEYS', '"allocation.provide", provide_item(folder.name)')
    both = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        command = [sys.executable, "-c", code, str(tmp_path / name)]
        both.append(subprocess.Popen(command, cwd=Path(__file__).parents[3]))
    assert [running.wait(timeout=60) for running in both] == [0, 0]
    for name in ("one", "two"):
        assert (tmp_path / name / DESCRIPTOR.lstrip("/")).read_text() == name
    assert len(list((tmp_path / "runs").iterdir())) == 2


def test_more_hosts_than_one_run_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of at most 16 hosts (2 here), one receipt for each step, in order."""
    assert executor.BATCH == 16
    monkeypatch.setattr(executor, "BATCH", 2)
    works = []
    for number in range(3):
        root = tmp_path / f"n{number:02}"
        root.mkdir()
        ref = Ref("allocation", "vision", f"a{number}")
        todo = step("access.sync", NO_KEYS, node=root.name, ref=ref)
        works.append(HostWork(host=host(root, node=root.name), steps=(todo,)))
    receipts = run_wave(works, options(tmp_path), ignore, Wish())
    assert [r.node for r in receipts] == [work.host.node for work in works]
    assert all(r.ok and not r.changed for r in receipts)
    assert len(list((tmp_path / "runs").iterdir())) == 2
