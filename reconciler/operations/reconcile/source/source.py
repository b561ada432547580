"""The source of a round: one commit, checked out where nobody works, and what is wrong with it.

Level-triggered: whatever woke the loop, the newest commit is asked for. Where git is away, or its
history was rewritten, the last good commit stands.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path, PurePosixPath

from reconciler.kinds.fleet_rules import POLICY
from reconciler.model.formats import why_no_repository, why_no_revision
from reconciler.model.problem import Problem, ProblemError, Severity, refuse
from reconciler.model.records import dataclass
from reconciler.model.settings import SourceSettings
from reconciler.operations.fleet import Fleet
from reconciler.operations.journal import insist_on_state
from reconciler.operations.liveness.presence import alone
from reconciler.operations.reconcile.source.tree import (
    TreeReading,
    as_it_reads,
    inner_of,
    mirror_of,
    stands,
)
from reconciler.specs.git import git
from reconciler.specs.git.folder import branch_on_hold, repository_within
from reconciler.specs.git.mirror import Mirror, Trust, was_stopped
from reconciler.store.serial import read_last_commit, read_normal

UNSIGNED, SHOWN = "commit_unsigned", 3
AWAY, REWRITTEN = "source_unreachable", "history_rewritten"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sourced:
    """`fleet` reads exactly `commit`; `stale` says why that is not the newest, if it is not.

    With a `stale` source nothing new is begun: what was applied is kept as it should be.
    """

    fleet: Fleet
    commit: str
    stale: Problem | None = None
    notes: tuple[Problem, ...] = ()


def follow(fleet: Fleet, *, looks: bool = False) -> Sourced:
    """The newest commit of the source, or the last good one. Whoever only `looks` does not make
    it the one that the next has to come of: a loop may be told of another source than the settings.

    Raises ProblemError where neither is to be had: `source_unreachable`, `source_unreadable`,
    `no_commit` without a repository; `interrupted` if somebody leaves meanwhile.
    """
    source, mirror = fleet.settings.loop.source, mirror_of(fleet)
    url, inner = _place(fleet, source)
    followed = mirror.followed()
    former = followed or applied_last(fleet)
    stale: Problem | None = None
    try:
        commit = mirror.fetch(url, _wanted(fleet, source))
    except ProblemError as error:
        if was_stopped(error):
            raise
        stale = error.problems[0]
        commit = former
        if not mirror.has(former):
            raise
    if stale is None and former and not mirror.descends(commit, former):
        stale = _rewritten(former, commit)
        commit = former if mirror.has(former) else ""
        if not commit:
            raise ProblemError((stale,))
    if stale is None and commit != former:
        stale = _unsigned(fleet, mirror, commit, former, inner)
        if stale is not None:
            commit = former
            if not mirror.has(former):
                raise ProblemError((stale,))
    tree = mirror.check_out(commit, url) / inner
    if unreadable := _unreadable(mirror, tree / fleet.settings.spec_root, commit):
        if stale is not None or not mirror.has(former) or former == commit:
            raise ProblemError((unreadable,))
        stale, commit = unreadable, former
        tree = mirror.check_out(commit, url) / inner
        if again := _unreadable(mirror, tree / fleet.settings.spec_root, commit):
            raise ProblemError((again,))
    if stale is None and not looks:
        mirror.follow(commit, followed)
    read = replace(fleet, tree=str(tree))
    return Sourced(fleet=read, commit=commit, stale=stale, notes=tuple(_notes(fleet, source)))


def as_followed(fleet: Fleet) -> TreeReading:
    """The fleet as the loop's next round reads it, and its commit; as it is where none ever ran.

    Where a loop lives, nothing of its tree is touched. Raises ProblemError `loop_running` while it
    is at work on that for long.
    """
    insist_on_state(fleet)
    mirror = mirror_of(fleet)
    if not mirror.bare.is_dir() or not mirror.followed():
        return TreeReading(fleet, "")
    try:
        with alone(fleet):
            sourced = follow(fleet, looks=True)
            return TreeReading(sourced.fleet, sourced.commit)
    except ProblemError as error:
        if all(problem.code != "loop_running" for problem in error.problems):
            raise
        running = error
    reading = as_it_reads(fleet)
    if not reading.commit:
        raise running
    return reading


def is_as_followed(fleet: Fleet, commit: str) -> bool:
    """Whether what was read meanwhile is of that commit, and of no other."""
    return stands(TreeReading(fleet, commit))


def asked_for(fleet: Fleet, commit: str) -> tuple[str, str]:
    """The commit that is followed now, and the one that the source has, which `commit` names.

    Raises ProblemError `not_found` for one that the source does not have now.
    """
    source, mirror = fleet.settings.loop.source, mirror_of(fleet)
    url, _ = _place(fleet, source)
    wanted = mirror.fetch(url, _wanted(fleet, source))
    if len(commit) < MIN_DIGITS or not wanted.startswith(commit):
        raise refuse(
            "not_found",
            f"the source is at {wanted[:7]}, and not at {commit}",
            f"look at what it holds, then: gpuaas reconcile accept {wanted[:12]} --reason WHY",
        )
    return mirror.followed() or applied_last(fleet), wanted


MIN_DIGITS = 7


def check_source(source: SourceSettings) -> str:
    """Why nothing could be fetched from there; empty if it could."""
    names = (source.branch, source.tag)
    found = [why_no_repository(source.url)] if source.url else []
    found += [why_no_revision(name) for name in names if name]
    return next(filter(None, found), "")


def _place(fleet: Fleet, source: SourceSettings) -> tuple[str, str]:
    """Where to fetch from, and what leads from the top of that to the fleet's folder."""
    if source.url:
        return source.url, source.path
    top = git.repository(fleet.settings)
    if top is None:
        raise refuse(
            "no_commit",
            f"{fleet.folder} lies in no repository, and the loop follows commits only",
            "git init, commit the specs; or name a repository: loop.source.url in gpuaas.yaml",
        )
    return str(top), inner_of(fleet)


def _wanted(fleet: Fleet, source: SourceSettings) -> SourceSettings:
    """The branch or tag that is followed, as it is stated.

    During a rebase in the fleet's folder it is the branch that the rebase began from: commits on
    the way there may never be of any branch, and lack what a later one brings back.
    """
    top = git.repository(fleet.settings)
    if source.url or source.branch or source.tag or top is None:
        return source
    branch = branch_on_hold(top)
    if branch == "":
        message = f"a rebase or a bisect is under way in {top}, and began from no branch"
        raise refuse("source_unreachable", message, "end it: git status says how")
    return replace(source, branch=branch or "")


def applied_last(fleet: Fleet) -> str:
    """The commit that was, by whomever; empty where none was."""
    with fleet.reading() as database:
        return read_last_commit(database)


def _rewritten(former: str, commit: str) -> Problem:
    return Problem(
        code=REWRITTEN,
        message=f"{commit[:7]} does not come of {former[:7]}, which was followed last:"
        " history was rewritten, or this is another branch",
        hint=f"if that is meant: gpuaas reconcile accept {commit[:12]} --reason WHY;"
        f" until then {former[:7]} stands",
    )


def _unreadable(mirror: Mirror, root: Path, commit: str) -> Problem | None:
    """Why no specs are read of it: there are none, a link leads to what no commit has, or they
    would have another history than the commit's own.
    """
    if not root.resolve().is_relative_to(mirror.tree.resolve()):
        return Problem(
            code="source_unreadable",
            message=f"in {commit[:7]} the spec root is a link that leads out of the repository",
            hint="commit the specs themselves",
        )
    if within := repository_within(root):
        return Problem(
            code="source_unreadable",
            message=f"in {commit[:7]} {within.relative_to(mirror.tree) or '.'} is a repository of"
            " git itself, with a history of its own",
            hint="commit without its HEAD, objects and refs",
        )
    if not root.is_dir():
        return Problem(
            code="spec_root_missing",
            message=f"in {commit[:7]} there is no folder {root.relative_to(mirror.tree)}",
            hint="bring it back; or name another one: specRoot in gpuaas.yaml",
        )
    return None


def _unsigned(fleet: Fleet, mirror: Mirror, commit: str, former: str, inner: str) -> Problem | None:
    """By the Policy as it was applied: a commit does not say of itself that it needs none."""
    with fleet.reading() as database:
        spec = read_normal(database, POLICY).get("spec", {})
    rules = spec.get("source", {})
    if not rules.get("requireSigned"):
        return None
    hint = f"if all of it is meant: gpuaas reconcile accept {commit[:12]} --reason WHY"
    if not former:
        message = f"{commit[:7]} is the first one, and the Policy wants signed commits only"
        return Problem(code=UNSIGNED, message=message, hint=hint)
    root = PurePosixPath(inner, fleet.settings.spec_root)
    folders = [str(root / name) for name in rules.get("folders", ())] or [str(root)]
    found = mirror.unsigned(commit, former, folders, _trust(fleet))
    if not found:
        return None
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return Problem(
        code=UNSIGNED,
        message=f"{', '.join(found[:SHOWN])}{more}: signed by nobody whose key is trusted here",
        hint=f"sign them (git commit -S), or add the key to loop.source.allowedSigners; {hint}",
    )


def _trust(fleet: Fleet) -> Trust:
    source = fleet.settings.loop.source
    files = (source.allowed_signers, source.gnupg_home)
    signers, keyring = (fleet.folder / Path(name).expanduser() if name else None for name in files)
    return Trust(signers=signers, keyring=keyring)


def _notes(fleet: Fleet, source: SourceSettings) -> list[Problem]:
    """What people may take for followed and is not: edits in the folder that no commit has."""
    if source.url:
        return []
    try:
        changed = len(git.ask(fleet.settings, *_STATUS, fleet.settings.spec_root).splitlines())
    except ProblemError:
        return []
    if not changed:
        return []
    return [
        Problem(
            code="source_uncommitted",
            message=f"{changed} edits below {fleet.settings.spec_root} are in no commit yet:"
            " the loop follows commits only",
            hint="git commit them, or git stash them",
            severity=Severity.WARNING,
        )
    ]


_STATUS = ("status", "--porcelain", "--untracked-files=all", "--")


def local_repository(fleet: Fleet) -> Path | None:
    """The repository that can be watched; None for one of another machine."""
    url = fleet.settings.loop.source.url
    if not url:
        return git.repository(fleet.settings)
    path = Path(url.removeprefix("file://"))
    return path if path.is_absolute() and path.is_dir() else None
