"""Guards: changes that look like a mistake, however clearly git asks for them.

Too many releases, of one plan or of a day; and where nobody is asked, a whole project and a whole
folder that are gone. What somebody has approved, known to end or begun is no mistake.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta

from reconciler.model.moment import format_moment, parse_moment
from reconciler.model.plan.approval import Removal
from reconciler.model.plan.lifecycle import Phase
from reconciler.model.plan.plan import Action
from reconciler.model.problem import Problem
from reconciler.model.ref import Ref
from reconciler.model.state.volume import VolumeState
from reconciler.model.state.world import Recorded, World
from reconciler.planner.automation.hold import only_takes
from reconciler.planner.automation.revocation_guard import guard_revocations
from reconciler.planner.context import Situation
from reconciler.planner.core.difference import Difference, is_consented
from reconciler.planner.core.refusal import Refusal, problem_of, refuse_all

DAY = timedelta(days=1)
HOLDERS = frozenset({"allocation", "storage"})
THERE = frozenset({VolumeState.PENDING, VolumeState.MADE})


def guard_removals(situation: Situation, refused: dict[Ref, Problem]) -> None:
    """Refuse many removals at once, which look like a faulty merge. What has begun is not counted.

    Where no person looks at the plan, the removals of the last day count as well: many small plans
    may do no more than one large one.
    """
    removals = [d for d in _leaving(situation, refused) if d.action is Action.RELEASE]
    if not removals:
        return
    world = situation.world
    going = {(one.ref, _thing(one.recorded, world)) for one in removals if one.recorded}
    past = [one for one in _of_the_day(situation) if (one.ref, one.thing) not in going]
    held = sum(1 for ref, one in world.recorded.items() if one.id or ref in world.volumes)
    total = held + sum(one.ref not in world.recorded for one in past)
    limit = removal_limit(situation, total)
    if len(removals) + len(past) <= limit:
        return
    what = "allocations and storages" if world.volumes else "allocations"
    before = f", and {len(past)} were within a day" if past else ""
    message = (
        f"{len(removals)} of {total} {what} would be released at once{before}, more than {limit}"
    )
    hint = "release some of them with --only, or raise guard in the Policy"
    refused |= refuse_all(removals, Refusal("removals_guard", message, hint))


def guard_projects(situation: Situation, refused: dict[Ref, Problem]) -> None:
    """Refuse the release of everything that a project has at once, or the last of it with the
    project.

    It is likelier that its folder or file is gone than that its work is over. Either all of it is
    approved or nothing: what is left would be few enough to go by itself.
    """
    if not situation.unattended:
        return
    leaving: dict[str, list[Difference]] = {}
    for one in _leaving(situation, refused, approved=True):
        if one.ref.kind in HOLDERS:
            leaving.setdefault(one.ref.project, []).append(one)
        elif one.ref.kind == "project":
            leaving.setdefault(one.ref.name, []).append(one)
    leaving = {name: its for name, its in leaving.items() if _are_a_project(its)}
    if not leaving:
        return
    staying = {
        ref.project
        for ref, one in situation.world.recorded.items()
        if ref.kind in HOLDERS and ref.project in leaving and _stays(one, situation)
    }
    for name, its in leaving.items():
        if name not in staying and not _are_approved(its, situation):
            count = sum(one.ref.kind in HOLDERS for one in its)
            message = f"project {name} would lose all that it has at once ({count})"
            hint = "bring back what is gone, or approve all of it"
            refused |= refuse_all(its, Refusal("project_guard", message, hint))


def guard_folders(situation: Situation, refused: dict[Ref, Problem]) -> None:
    """Refuse the removal of everything that was applied from one folder.

    Documents that let people in have a guard of their own, and not this one.
    """
    if not situation.unattended:
        return
    leaving: dict[str, list[Difference]] = {}
    for one in _leaving(situation, refused, approved=True):
        for folder in () if only_takes(one) else _folders(one.file):
            leaving.setdefault(folder, []).append(one)
    leaving = {name: its for name, its in leaving.items() if len(its) > 1}
    if not leaving:
        return
    for recorded in situation.world.recorded.values():
        if _stays(recorded, situation):
            for folder in _folders(recorded.file):
                leaving.pop(folder, None)
        if not leaving:
            return
    for name in sorted(leaving, key=len):
        its = [one for one in leaving[name] if one.ref not in refused]
        if _are_approved(its, situation):
            continue
        message = f"all of the folder {name} is gone, and {len(leaving[name])} resources with it"
        hint = "bring the folder back, or approve all of it"
        refused |= refuse_all(its, Refusal("folder_guard", message, hint))


def guard_all_revocations(situation: Situation, refused: dict[Ref, Problem]) -> None:
    """The same for people who would be shut out by what is absent."""

    def limit(held: int) -> int:
        return removal_limit(situation, held)

    held = guard_revocations(situation, refused, limit)
    for difference, why in list(held):
        found = problem_of(difference, Refusal(*why))
        refused[difference.ref] = found


def removal_limit(situation: Situation, held: int) -> int:
    """The larger of the number and the share: a small fleet may lose a few, a large one some."""
    guard = situation.policy.guard
    return max(guard.max_removals, held * guard.max_removal_percent // 100)


def next_of_the_day(world: World, now: datetime) -> datetime | None:
    """When the first of the removals of the last day is a day old."""
    ends = (moment + DAY for one in world.removals if (moment := parse_moment(one.at)))
    return min((end for end in ends if end > now), default=None)


def _leaving(
    situation: Situation, refused: Mapping[Ref, Problem], *, approved: bool = False
) -> Iterator[Difference]:
    """What would be released without consent, and unless it is `approved`."""
    for one in situation.differences:
        if one.action not in (Action.RELEASE, Action.FORGET) or one.recorded is None:
            continue
        if one.ref in refused or is_consented(one):
            continue
        if approved or one.ref not in situation.approved:
            yield one


def _of_the_day(situation: Situation) -> list[Removal]:
    """Those that nobody looked at plan by plan, and that have not come back."""
    counts = situation.unattended or situation.hold_above is not None
    if not counts or situation.now is None:
        return []
    since = format_moment(situation.now - DAY)
    world = situation.world
    return [one for one in world.removals if one.at > since and not _is_back(one, world)]


def _is_back(one: Removal, world: World) -> bool:
    recorded, volume = world.recorded.get(one.ref), world.volumes.get(one.ref)
    if recorded is None or _thing(recorded, world) != one.thing:
        return False
    return recorded.phase is Phase.ACTIVE and (volume is None or volume.state in THERE)


def _thing(recorded: Recorded, world: World) -> str:
    """What goes, whatever else has its name later: an allocation, or the volume of a storage."""
    volume = world.volumes.get(recorded.ref)
    return recorded.id or (volume.id if volume else "")


def _stays(recorded: Recorded, situation: Situation) -> bool:
    """Whether something names it still, by this or another name; or nobody can say."""
    ref, desired = recorded.ref, situation.desired
    named = ref in desired.resources or ref in desired.frozen or ref in situation.renamed
    return named or desired.is_broken(recorded.file)


def _are_approved(differences: Iterable[Difference], situation: Situation) -> bool:
    return all(one.ref in situation.approved for one in differences)


def _are_a_project(differences: list[Difference]) -> bool:
    return len(differences) > 1 and any(one.ref.kind in HOLDERS for one in differences)


def _folders(file: str) -> Iterator[str]:
    """Every folder that it lies in, but for that of everything."""
    parts = file.split("/")[:-1]
    yield from ("/".join(parts[:end]) for end in range(1, len(parts) + 1))
