"""Comparison: what this tree would change beyond a revision, for a review.

Two plans are made over one state at one moment, and one is taken from the other. No host is asked,
no key is needed, and nothing is written but remembered specs: the state may be a copy of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from reconciler import shipped
from reconciler.model.host.evidence import Observation
from reconciler.model.moment import format_moment, parse_moment
from reconciler.model.plan.comparison import Comparison, ComparisonBase
from reconciler.model.plan.plan import Plan
from reconciler.model.problem import ProblemError, refuse
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.settings import Settings
from reconciler.model.spec.desired import Origin
from reconciler.model.spec.document import DocumentCache, FileStamp
from reconciler.model.state.world import World
from reconciler.operations.fetch import Want, fetch_to, is_web, shown
from reconciler.operations.fleet import CACHE, Fleet, without_collector
from reconciler.planner import plan as planner_plan
from reconciler.planner.comparison import compare_plans
from reconciler.planner.core.request import PlanRequest
from reconciler.specs.desired import load_desired
from reconciler.specs.git import origins
from reconciler.specs.git.private_checkout import check_out, commit_of, commits_without, place_of
from reconciler.store.cache import SqliteCache
from reconciler.store.file.connection import has_log
from reconciler.store.file.database import Database
from reconciler.store.file.private_copy import open_private_copy
from reconciler.store.snapshot import read_world

STATE = Want(
    schemes=("https",),
    largest=1 << 30,
    seconds=300,
    code="state_copy_unreadable",
    hint="name a file that `gpuaas state backup` wrote, or an https address of one",
)
UNSIGNED = "0" * 64
"""In the place of each signature: a plan that is only looked at signs nothing."""


def compare_with(fleet: Fleet, revision: str, state: str | None = None) -> Comparison:
    """What the tree changes beyond what `revision` would. `state` is a copy, or an address of one.

    Raises ProblemError `revision_unknown`, `revision_unreadable` or `state_copy_unreadable`.
    """
    commit = commit_of(fleet.settings, revision)
    with previewing(fleet, state) as preview:
        settings = preview.check_out(commit, "base")
        ours = preview.plan_of_tree()
        theirs = preview.plan(settings)
    ahead = commits_without(fleet.settings, commit)
    base = ComparisonBase(revision=revision, commit=commit, ahead=ahead)
    return compare_plans(ours, theirs, base, place_of(fleet.settings))


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """Plans that are only looked at, over one state at one moment, and a folder to work in.

    `age` is how old the newest answer of a host really is.
    """

    fleet: Fleet
    folder: Path
    world: World
    now: datetime
    age: timedelta
    cache: DocumentCache

    def check_out(self, commit: str, name: str) -> Settings:
        """The fleet as a commit has it, in a folder of that name."""
        (place := self.folder / name).mkdir()
        return check_out(self.fleet.settings, commit, place, shipped.schemas()["settings"])

    def plan_of_tree(self) -> Plan:
        return self._plan(self.fleet.settings, self.cache)

    def plan(self, settings: Settings) -> Plan:
        """A plan of specs that are not in the fleet's folder."""
        return self._plan(settings, _OfContent(cache=self.cache))

    def _plan(self, settings: Settings, cache: DocumentCache) -> Plan:
        def authors(files: Mapping[Ref, str], gone: Collection[Ref]) -> Mapping[Ref, Origin]:
            return origins.origins(settings, files, gone, cache)

        made = planner_plan.plan(
            PlanRequest(
                desired=load_desired(settings, shipped.schemas(), cache),
                world=self.world,
                now=self.now,
                templates=shipped.templates(),
                sign=lambda text: UNSIGNED,
                origins=authors,
                actor=self.fleet.actor.name,
            )
        )
        return _as_seen(made, self.age)


@contextmanager
def previewing(fleet: Fleet, state: str | None = None) -> Iterator[Preview]:
    """A preview that leaves nothing behind. Raises ProblemError for a state that is none."""
    with without_collector(), TemporaryDirectory(prefix="gpuaas-") as temporary:
        folder, now = Path(temporary), fleet.now()
        with _reading(fleet, state, folder) as database:
            world = read_world(database)
            age = _age(world.observations.values(), now)
            world = _as_of_now(world, age)
            with _cache(fleet, folder) as cache:
                yield Preview(
                    fleet=fleet, folder=folder, world=world, now=now, age=age, cache=cache
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfContent:
    """What is remembered by content alone: the same files lie here under other stamps."""

    cache: DocumentCache

    def get_many(self, space: str, keys: Iterable[str]) -> Mapping[str, str]:
        return self.cache.get_many(space, keys)

    def put_many(self, space: str, rows: Mapping[str, str]) -> None:
        self.cache.put_many(space, rows)

    def stamps(self) -> Mapping[str, tuple[FileStamp, str]]:
        return {}

    def put_stamps(
        self, rows: Mapping[str, tuple[FileStamp, str]], gone: Iterable[str] = ()
    ) -> None:
        return


@contextmanager
def _cache(fleet: Fleet, folder: Path) -> Iterator[DocumentCache]:
    """That of the fleet; one for this once where there is no place for it."""
    place = fleet.state if fleet.state.is_dir() else folder
    with closing(SqliteCache(place / CACHE)) as cache:
        yield cache


@contextmanager
def _reading(fleet: Fleet, state: str | None, folder: Path) -> Iterator[Database]:
    """The state itself; or a copy of it, of which there is one more to read and throw away."""
    if state is None:
        with fleet.reading() as database:
            yield database
        return
    if not state:
        raise refuse(STATE.code, "no copy is named: the name is empty", STATE.hint)
    if not is_web(state) and Path(state).is_file() and has_log(Path(state)):
        raise refuse(
            STATE.code,
            f"{state} is a state that somebody may be writing to",
            "make a copy of it: gpuaas state backup FILE",
        )
    copy = folder / "gpuaas.db"
    fetch_to(state, copy, STATE)
    with _opened(copy, state) as database:
        yield database


def _opened(copy: Path, state: str) -> Database:
    """Open the copy; problems name what was given, not the copy that is thrown away."""
    try:
        return open_private_copy(copy)
    except ProblemError as error:
        raise ProblemError(
            tuple(
                replace(one, message=one.message.replace(str(copy), shown(state)), hint=STATE.hint)
                for one in error.problems
            )
        ) from error


def _age(seen: Iterable[Observation], now: datetime) -> timedelta:
    """How old the newest answer of a host is."""
    moments = [moment for one in seen if (moment := parse_moment(one.at))]
    return max(timedelta(0), now - max(moments)) if moments else timedelta(0)


def _as_of_now(world: World, age: timedelta) -> World:
    """The world as if the newest answer of a host had been given now.

    No host is asked here: that it is some time ago says nothing about the hosts.
    """
    return replace(
        world,
        observations={name: _later(one, age) for name, one in world.observations.items()},
    )


def _as_seen(plan: Plan, age: timedelta) -> Plan:
    """The plan with the true age of what hosts said, for people."""
    seen = plan.figures.observed_age
    if seen is None:
        return plan
    figures = replace(plan.figures, observed_age=seen + int(age.total_seconds()))
    return replace(plan, figures=figures)


def _later(one: Observation, age: timedelta) -> Observation:
    def moved(text: str) -> str:
        moment = parse_moment(text)
        return format_moment(moment + age) if moment else text

    return replace(
        one,
        at=moved(one.at),
        answered_at=moved(one.answered_at),
        unreachable_since=moved(one.unreachable_since),
    )
