"""Crashes: a command killed at a named stop, and what has to be true of its fleet afterwards.

`SCENARIOS` is the table: who adds a stop adds it to the line of a command that comes to it.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reconciler.hosts.folders import FAILED, short_folder
from reconciler.hosts.workdir import PREFIX
from reconciler.model.moment import format_moment
from reconciler.model.plan.lifecycle import RunState
from reconciler.model.state.event import Event, EventType
from reconciler.operations.fleet import utc_now
from reconciler.operations.journal import writing
from reconciler.operations.plan.saved import read_plan
from reconciler.stops import STOP_AT, STOP_LOG, STOPS
from reconciler.store import chain
from reconciler.store.file.database import Database, Opening
from reconciler.store.file.schema import Schema, shipped_schema
from tests.harness.applied_fleet import BO, CEM, DANA, GRANTS, SOLO, TRAIN
from tests.harness.own_process import program
from tests.harness.yard import ROOT, Yard, copy_of, laid, node
from tests.planner import fleet as paper

APPLY = ("apply", "--auto-approve=destroys")
SETTINGS = "operators: [olga]\npublish: {dir: published}\n"

GUARD_SECONDS = 5.0
"""In so many seconds after a kill nothing of the run works any more."""

MOMENT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?Z?")

NEWCOMERS = tuple(
    paper.allocation(f"new{n}", project="nlp", owner="bo", expiresAt=paper.LASTING)
    for n in range(4)
)
"""As many as there are slots: whatever counts as free, one of them would get."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A command on a fleet that `lay` makes; `words` name the stops at which it is killed.

    If `whole`, these are all that it comes to. `again` is what is run afterwards, and `look` tells
    all of the fleet that may not depend on whether somebody was killed.
    """

    name: str
    lay: Callable[[Path], Yard]
    words: str
    command: tuple[str, ...] = APPLY
    again: tuple[str, ...] = APPLY
    look: Callable[[Yard], Mapping[str, Any]] = field(default=lambda yard: seen(yard))
    whole: bool = False

    @property
    def stops(self) -> tuple[str, ...]:
        return stops_of(self.words)


# The fleets. Each is made once a worker, and killed in copies.


def settled(folder: Path) -> Yard:
    """Two hosts, three of four slots given out, work in both homes; nothing is left to do."""
    yard = new(folder)
    applied(yard)
    for ref in ("allocation/vision/train", "allocation/vision/solo"):
        one = yard.recorded(ref)
        (yard.root(one.node) / "home" / one.login / "work").write_text(f"the work of {ref}")
    return yard


def new(folder: Path) -> Yard:
    """Two hosts that nobody has looked at yet, and what is to come onto them."""
    folder.mkdir(parents=True, exist_ok=True)
    yard = laid(folder, {"gpu01": 2, "gpu02": 2}, TRAIN, SOLO, *GRANTS, BO, CEM, DANA)
    (folder / "gpuaas.yaml").write_text(SETTINGS)
    yard.commit()
    return yard


def changing(folder: Path) -> Yard:
    """One moves to a smaller place, for the other somebody's key and somebody's grant are gone."""
    yard = settled(folder)
    yard.write({**TRAIN, "spec": {**TRAIN["spec"], "sku": "slice-1", "node": "gpu02"}})
    yard.write({**BO, "spec": {**BO["spec"], "keys": BO["spec"]["keys"][:1]}})
    yard.remove(GRANTS[1])
    yard.commit()
    return yard


def following(folder: Path) -> Yard:
    """The same for a loop that may do all of it alone."""
    yard = changing(folder)
    yard.write(paper.policy(automation={"allow": "destroys"}, grant={"mayBeOpenEnded": True}))
    yard.commit()
    return yard


def releasing(folder: Path) -> Yard:
    """One is given up, the other one has another name, and a person has left."""
    yard = settled(folder)
    yard.remove(TRAIN, SOLO, *GRANTS, DANA)
    metadata = {**SOLO["metadata"], "name": "single", "formerName": "solo"}
    yard.write({**SOLO, "metadata": metadata})
    people = ("ana", "bo", "cem")
    yard.write(paper.project("vision", *people, entitlements={"skus": ["slice-1", "slice-2"]}))
    yard.commit()
    return yard


def waiting(folder: Path) -> Yard:
    """One waits and is wanted no more, another one begins to; and a node is forgotten unused."""
    yard = settled(folder)
    early, late = (
        paper.allocation(name, "slice-2", owner="cem", expiresAt=paper.LASTING)
        for name in ("early", "late")
    )
    yard.write(early)
    applied(yard, 3)
    yard.write(node("gpu09", 1))
    yard.lay_nodes()
    yard.gpuaas("plan", "--refresh")
    assert yard.world.waiting and "gpu09" in yard.world.observations
    yard.write(late)
    yard.remove(early, node("gpu09", 1))
    yard.commit()
    return yard


def saved(folder: Path) -> Yard:
    yard = changing(folder)
    assert yard.plan("--save", str(folder / "all.plan")).code == 0
    return yard


def crashed(folder: Path) -> Yard:
    """A change of which the hosts have done all and nobody has written down anything."""
    yard = changing(folder)
    end_of(kill(yard, APPLY, "finish_wave.before", 2), yard)
    return yard


def crowded(folder: Path) -> Yard:
    """More runs and events than are to be kept."""
    yard = settled(folder)
    yard.plan("--save", str(folder / "none.plan"))
    plan = read_plan(folder / "none.plan")
    with writing(yard.fleet(), "test") as journal:
        for _ in range(100):
            journal.end_run(journal.begin_run(plan), RunState.DONE)
    told = Event(type=EventType.OBSERVED, actor="olga", at=format_moment(utc_now()))
    with (
        Database.open(yard.fleet().database_file, write=True) as database,
        database.transaction("record") as connection,
    ):
        chain.append(connection, [told] * 900)
    (folder / "gpuaas.yaml").write_text(SETTINGS + "keep: {runs: 100, events: 1000}\n")
    return yard


def older(folder: Path) -> Yard:
    """A state as the version before has left it."""
    yard = new(folder)
    state = yard.fleet().database_file
    for path in state.parent.glob("gpuaas.db*"):
        path.unlink()
    migrations = dict(list(shipped_schema().migrations.items())[:-1])
    opening = Opening(schema=Schema(migrations=migrations))
    now = utc_now()
    with closing(Database.create(state, state_id="older", now=now, opening=opening)):
        return yard


def backed_up(folder: Path) -> Yard:
    """A copy of the state lies there, and more has happened since."""
    yard = settled(folder)
    assert yard.gpuaas("state", "backup", str(folder / "copy.db")).code == 0
    yard.remove(GRANTS[1])
    yard.commit()
    applied(yard)
    return yard


def bare(folder: Path) -> Yard:
    folder.mkdir(parents=True, exist_ok=True)
    return Yard(folder)


def moving(folder: Path) -> Yard:
    """One lets go of its data and gets a new volume; what nobody has any more is to be wiped."""
    folder.mkdir(parents=True, exist_ok=True)
    entitled = {"skus": ["slice-1", "slice-2"], "storageClasses": ["local"]}
    quota = {"gpus": 8, "storageGiB": 8}
    vision = paper.project("vision", "ana", "bo", "cem", entitlements=entitled, quota=quota)
    names = ("data", "more", "old")
    storage = [paper.storage(name, onDelete="wipe", protect=False) for name in names]
    class_ = paper.storage_class("local", directory={"path": "/srv/volumes"})
    yard = laid(folder, {"gpu01": 2}, vision, class_, *storage, having("data", "old"))
    (folder / "gpuaas.yaml").write_text(SETTINGS)
    yard.commit()
    applied(yard)
    for volume in yard.world.volumes.values():
        (yard.root("gpu01") / "srv/volumes" / volume.id / "data/work").write_text(str(volume.ref))
    yard.write(having("data"))
    applied(yard)
    yard.write(having("more"))
    yard.remove(storage[-1])
    yard.commit()
    return yard


def having(*names: str) -> dict[str, Any]:
    storage = [{"name": name, "mode": "rw"} for name in names]
    return paper.allocation(
        "train", "slice-1", node="gpu01", storage=storage, expiresAt=paper.LASTING
    )


def applied(yard: Yard, code: int = 0) -> None:
    done = yard.apply()
    assert done.code == code, done.document["problems"] or done.blocked


WALK = (
    "lock look refuse snapshot copy begin_run record begin_wave play prove finish_wave wait end_run"
    " publish"
)
ONCE = ("reconcile", "--once")
RESTORE = ("state", "restore", "copy.db")
SCENARIOS = (
    Scenario(
        name="create",
        lay=new,
        words=f"{WALK} observe",
        whole=True,
    ),
    Scenario(
        name="change",
        lay=changing,
        words=f"{WALK} observe",
        whole=True,
    ),
    Scenario(
        name="release",
        lay=releasing,
        words=WALK,
        whole=True,
    ),
    Scenario(
        name="loop",
        lay=following,
        words=f"{WALK} observe",
        command=ONCE,
        again=ONCE,
    ),
    Scenario(name="move", lay=moving, words="begin_wave.after play.during play.after"),
    Scenario(
        name="wait",
        lay=waiting,
        words="lock stop_waiting unsee refuse wait publish",
    ),
    Scenario(
        name="saved",
        lay=saved,
        words="use_plan",
        command=("apply", "all.plan", "--auto-approve=destroys"),
    ),
    Scenario(
        name="twice",
        lay=crashed,
        words="lock take_over_lock close_open_steps look.after observe begin_wave play"
        " finish_wave end_run",
    ),
    Scenario(
        name="tidy",
        lay=crowded,
        words="prune archive look observe",
        command=("plan", "--refresh"),
        again=("plan", "--refresh"),
    ),
    Scenario(name="migrate", lay=older, words="migrate copy.during"),
    Scenario(
        name="backup",
        lay=settled,
        words="copy",
        command=("state", "backup", "copy.db"),
        again=("state", "backup", "copy.db"),
        look=lambda yard: copied(yard),
        whole=True,
    ),
    Scenario(name="restore", lay=backed_up, words="restore", command=RESTORE, again=RESTORE),
    Scenario(
        name="init",
        lay=bare,
        words="migrate create",
        command=("init",),
        again=("init",),
        look=lambda yard: made(yard),
        whole=True,
    ),
)
ELSEWHERE: Mapping[str, str] = {
    "test_rebuild": "rebuild rebuilt judge_doubts",
    "test_discover": "scan",
    "test_drift_repair": "accept_drift retract_drift let_go",
    "test_suspend": "suspend resume",
    "test_suspensions_during_apply": "begin_revocation finish_revocation",
    "test_refusing_hosts": "retry",
    "test_cleanup": "override",
    "test_storage": "fence",
    "test_reopen": "reopen reopened",
    "test_bundle_builds": "build",
    "test_fleet_crash": "settle",
    "test_fleet_restart": "reboot",
    "test_crash_words": "accept_history approve",
}
"""Words for stops at which other tests kill: it takes a lost state, or a host that answers."""


def stops_of(words: str) -> tuple[str, ...]:
    """`look` stands for `look.before`, `look.during` and `look.after`, as far as there are."""
    named = set(words.split())
    return tuple(stop for stop in STOPS if {stop, stop.partition(".")[0]} & named)


# Killing.


@dataclass(frozen=True, slots=True, kw_only=True)
class Uninterrupted:
    """What came of a command that nobody killed: its stops, how often, and what was then there."""

    begin: Yard
    place: Path
    times: Mapping[str, int]
    seen: Mapping[str, Any]

    def again(self) -> Yard:
        """The fleet as it was before, always in one place: its path is told and published."""
        shutil.rmtree(self.place)
        return copy_of(self.begin, self.place)


def uninterrupted(scenario: Scenario, folder: Path) -> Uninterrupted:
    begin = scenario.lay(folder / "begin")
    whole = copy_of(begin, folder / "fleet")
    log = folder / "stops"
    process = start(whole, scenario.command, {STOP_LOG: str(log)})
    said = process.communicate(timeout=120)[0]
    assert process.returncode in (0, 3), said
    times = Counter(log.read_text().split())
    if scenario.whole:
        assert set(times) == set(scenario.stops), "the line of this scenario names other stops"
    assert set(scenario.stops) <= set(times)
    return Uninterrupted(begin=begin, place=whole.folder, times=times, seen=scenario.look(whole))


def start(yard: Yard, words: Sequence[str], more: Mapping[str, str]) -> subprocess.Popen[str]:
    """`gpuaas` in a process of its own, as it is typed."""
    return subprocess.Popen(
        [*program(), *words],
        cwd=yard.folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **more},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def kill(yard: Yard, words: Sequence[str], stop: str, number: int = 1) -> int:
    """The process id of a command that killed itself when it came to the stop."""
    process = start(yard, words, {STOP_AT: f"{stop}#{number}"})
    said = process.communicate(timeout=120)[0]
    assert process.returncode == -signal.SIGKILL, f"it was not killed: {said}"
    return process.pid


def end_of(pid: int, yard: Yard) -> None:
    """Of a killed command nobody works on."""
    until = time.monotonic() + GUARD_SECONDS
    while (left := list(workers(pid, yard.folder))) and time.monotonic() < until:
        time.sleep(0.01)
    assert left == []


def workers(pid: int, folder: Path) -> Iterator[str]:
    """Living processes that belong to a fleet, or to a call to hosts of this process."""
    marks = (os.fsencode(folder) + b"/", os.fsencode(short_folder() / f"{PREFIX}{pid}-"))
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            process = Path("/proc", name)
            if process.joinpath("stat").read_text().rpartition(")")[2].split()[0] in "ZX":
                continue
            told = [process.joinpath(part).read_bytes() for part in ("cmdline", "environ")]
            told.append(os.fsencode(os.readlink(process / "cwd")) + b"/")
            if any(mark in text for mark in marks for text in told):
                yield f"{name}: {told[0].replace(bytes(1), b' ').decode(errors='replace')}"


def files_of(pid: int, folder: Path) -> list[str]:
    """What a command has left of its calls to hosts, but for the logs that are kept."""
    calls = [*short_folder().glob(f"{PREFIX}{pid}-*"), *folder.glob("state/runs/*/*")]
    return [str(path) for path in calls if path.name not in ("log", FAILED)]


# Looking.

TABLES = {
    "claims": "SELECT ref, allocation_id, node, slot, shape, state, tenant, project, problem,"
    " proof IS NOT NULL FROM claim",
    "resources": "SELECT ref, digest, basis, phase, protect, generation, id, login, node, slots,"
    " shape, problem, normal, facts FROM resource",
    "billed": "SELECT allocation_id, ref, node, gpus, price_per_gpu_hour, ended <> ''"
    " FROM usage_record",
    "waiting": "SELECT ref FROM waiting",
    "incarnations": "SELECT ref, count FROM incarnation",
    "logins": "SELECT login, allocation_id, ref FROM login",
    "volumes": "SELECT id, storage, node, size_gib, state, made <> '' FROM volume",
    "attachments": "SELECT allocation_id, volume, mode, mount_path, ended <> '', step IS NOT NULL"
    " FROM attachment",
    "stored": "SELECT volume, gib, ended <> '' FROM storage_usage",
    "numbers": "SELECT kind, number, owner, ended <> '' FROM posix_id",
    "observed": "SELECT node, json_remove(facts, '$.volumes'), problem FROM observation",
    "unended": "SELECT id FROM run WHERE state = 'running'"
    " UNION SELECT id FROM step WHERE state = 'open'",
}


def seen(yard: Yard) -> dict[str, Any]:
    """What is on the books, on the hosts and published, and what is still to be done."""
    found: dict[str, Any] = {
        "hosts": tree(yard.folder / "nodes"),
        "published": tree(yard.folder / "published"),
    }
    for name, query in TABLES.items():
        found[name] = sorted(yard.rows(query), key=repr)
    planned = yard.plan()
    found["next plan"] = (planned.code, planned.actions, planned.blocked, planned.problems)
    found["check"] = yard.gpuaas("state", "check").document["problems"]
    return found


def copied(yard: Yard) -> dict[str, Any]:
    """Of a backup, and of what stands beside it."""
    restored = copy_of(yard, yard.folder.with_name("restored"))
    done = restored.gpuaas("state", "restore", str(yard.folder / "copy.db"))
    found = {
        **seen(restored),
        "restored": done.code,
        "beside": sorted(map(str, yard.folder.glob("copy*"))),
    }
    shutil.rmtree(restored.folder)
    return found


def made(yard: Yard) -> dict[str, Any]:
    """Of a new fleet: its state and its key are of no use to any other."""
    key = yard.fleet().settings.descriptor_key
    return {
        "files": tree(yard.folder, but=("state/gpuaas.db", "state/cache.db", key)),
        "key": len((yard.folder / key).read_text()),
        "check": yard.gpuaas("state", "check").document["problems"],
        "next plan": yard.plan().actions,
    }


def tree(folder: Path, but: tuple[str, ...] = ()) -> dict[str, str]:
    """Everything below a folder: its kind and mode, and what is in it but for the time of day."""
    return {
        str(path.relative_to(folder)): f"{path.lstat().st_mode:o} {content(path)}"
        for path in folder.rglob("*")
        if not (but and str(path.relative_to(folder)).startswith(but))
    }


def content(path: Path) -> str:
    if path.is_symlink():
        return os.readlink(path)
    return MOMENT.sub("TIME", path.read_text()) if path.is_file() else ""


def takes_nothing_held(yard: Yard) -> None:
    """F-PLC-02: whatever was killed, nobody is given what somebody holds."""
    held = {(c.node, c.slot) for c in yard.world.claims}
    yard.write(*NEWCOMERS)
    try:
        claims = yard.plan().plan["claims"]
    finally:
        yard.remove(*NEWCOMERS)
    planned = [(claim["node"], claim["slot"]) for claim in claims]
    assert len(planned) == len(set(planned))
    assert not held & set(planned)


def takeovers(yard: Yard, pid: int) -> int:
    """How often it was said that the lock of this process was taken over."""
    query = "SELECT count(*) FROM event WHERE type = 'lock_taken_over' AND reason LIKE ?"
    return int(yard.rows(query, f"%pid {pid} %")[0][0])
