"""`rollback`: specs as they were at a commit, what follows from it, and what stays gone.

A patch, files or a commit; no host is touched, and nothing happens before it is applied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from reconciler.model.moment import parse_moment
from reconciler.model.plan.comparison import Comparison, ComparisonBase
from reconciler.model.plan.plan import Change, Plan
from reconciler.model.problem import ProblemError, refuse
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.settings import Settings
from reconciler.model.spec.desired import Origin
from reconciler.model.spec.revision import Revision
from reconciler.model.spec.rollback import Reverted, Rollback, RollbackNote
from reconciler.operations.fleet import Fleet
from reconciler.operations.plan.comparison import Preview, previewing
from reconciler.planner.comparison import compare_plans
from reconciler.planner.diff.rollback import is_shut_since, lost, opened
from reconciler.specs.edit.edit import put
from reconciler.specs.edit.reversion import Reversion, revert, revert_all
from reconciler.specs.git import git
from reconciler.specs.git.private_checkout import commit_at, commit_of, insist_on_ancestor, place_of
from reconciler.specs.git.private_commit import commit_privately
from reconciler.specs.read.library import git_at_work, work_tree

SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackRequest:
    """What to roll back: a `ref` or everything, `to` a commit or a moment, and how far.

    Access that was taken away since is restored only `with_access`.
    """

    ref: Ref | None
    to: str
    write: bool = False
    commit: bool = False
    with_access: bool = False


def roll_back(fleet: Fleet, wish: RollbackRequest) -> Rollback:
    """Make the change, and write it where that is asked for.

    Raises ProblemError, and then nothing is written: for files with edits, a commit that is not
    here or not of this branch, a ref that is in neither, access that would be restored, and while
    git is at work.
    """
    settings = fleet.settings
    if (found := git_at_work(settings)) is not None:
        raise ProblemError((found,))
    head, commit = commit_of(settings, "HEAD"), _commit(settings, wish.to)
    insist_on_ancestor(settings, commit)
    with previewing(fleet) as preview:
        now, then = preview.check_out(head, "now"), preview.check_out(commit, "then")
        if now.spec_root != then.spec_root:
            raise refuse(
                "revision_unreadable",
                f"commit {commit[:7]}: its specs lay in {then.spec_root}, not in {now.spec_root}",
                "take what you want of it by git",
            )
        reversion = _reversion(preview, (now, then), wish)
        _insist_on_files(settings, reversion.files)
        made = Rollback(
            to=commit,
            reverted=reversion.reverted,
            files=tuple(reversion.files),
            lost=tuple(lost(reversion.reverted, preview.world, preview.now)),
            opens=tuple(_opened(reversion.reverted, preview)),
            excluded=tuple(_opened(reversion.held, preview)),
            message=f"Roll back {wish.ref or 'all specs'} to {commit[:7]}",
        )
        if not reversion.files:
            return made
        made = _followed(preview, now, reversion, made, head)
    return _written(settings, reversion.files, made, wish)


def _commit(settings: Settings, to: str) -> str:
    """The commit that was named; a text that is both a commit and a time is a commit."""
    try:
        return commit_of(settings, to)
    except ProblemError as error:
        moment, problem = parse_moment(to), error.problems[0]
        if problem.code != "revision_unknown":
            raise
        if moment is None:
            hint = f"{problem.hint}; a time is told with its zone: 2026-11-28T12:00:00Z"
            raise ProblemError((replace(problem, hint=hint),)) from None
        return commit_at(settings, moment)


def _reversion(
    preview: Preview, both: tuple[Settings, Settings], wish: RollbackRequest
) -> Reversion:
    now, then = both
    held: Callable[[Reverted], bool] | None = None
    if not wish.with_access:

        def held(one: Reverted) -> bool:
            return is_shut_since(one) and bool(opened(one, preview.now))

    if wish.ref is None:
        return revert_all(now, then, held)
    found = revert(now, then, wish.ref, held or (lambda one: False))
    for one in found.held:
        told = ", ".join(opened(one, preview.now))
        raise refuse(
            "rollback_opens_access",
            f"{one.ref} as it stood would let in again what was shut since: {told}",
            "if that is what you want, say so: --with-access",
        )
    return found


def _opened(reverted: Iterable[Reverted], preview: Preview) -> list[RollbackNote]:
    return [
        RollbackNote(ref=one.ref, text=text)
        for one in reverted
        for text in opened(one, preview.now)
    ]


def _insist_on_files(settings: Settings, files: Mapping[str, object]) -> None:
    """Check that none of them has edits, is hidden by git, or is in a submodule."""
    changed = sorted(work_tree(settings).changed & files.keys())
    if changed:
        raise refuse(
            "file_uncommitted",
            f"{_some(changed)} has edits that no commit has: they would be lost",
            "commit them, or put them aside: git stash",
        )
    folder = Path(settings.folder)
    for name in files:
        above = [
            folder.joinpath(*Path(name).parts[:end]) for end in range(1, len(Path(name).parts))
        ]
        if any((one / ".git").exists() for one in above):
            raise refuse(
                "revision_unreadable",
                f"{name} lies in a submodule, which has a history of its own",
                "roll it back there, by git",
            )


def _followed(
    preview: Preview, now: Settings, reversion: Reversion, made: Rollback, head: str
) -> Rollback:
    """With the patch, and the plan of what would be committed beside that of what is."""
    fleet = preview.fleet
    before = preview.plan(now)
    author = (fleet.actor.name, git.author_email(fleet.settings) or "nobody@localhost")
    patch = commit_privately(now, reversion.files, author)
    private = commit_of(now, "HEAD")
    after = preview.plan(now)
    tree = work_tree(fleet.settings).revision
    after = replace(after, revision=Revision(commit=head, branch=tree.branch, dirty=True))
    base = ComparisonBase(revision="HEAD", commit=head)
    compared = compare_plans(after, before, base, place_of(fleet.settings))
    return replace(made, patch=patch, comparison=_uncommitted(compared, private, author[0]))


def _uncommitted(compared: Comparison, commit: str, author: str) -> Comparison:
    """What was committed to see what follows is no commit that anybody could look for."""

    def told(change: Change) -> Change:
        return (
            replace(change, origin=Origin(author=author))
            if change.origin.commit == commit
            else change
        )

    plan: Plan = replace(compared.plan, changes=tuple(map(told, compared.plan.changes)))
    return replace(compared, plan=plan)


def _written(
    settings: Settings, files: Mapping[str, bytes | None], made: Rollback, wish: RollbackRequest
) -> Rollback:
    if not (wish.write or wish.commit):
        return made
    first, *others = files
    if wish.commit:
        git.insist_on_rest(settings, first)
    _put(settings, files)
    commit = git.commit(settings, first, made.message, others) if wish.commit else ""
    return replace(made, written=True, commit=commit)


def _put(settings: Settings, files: Mapping[str, bytes | None]) -> None:
    """What was written when one of them cannot be is said: git has it as it was."""
    done: list[str] = []
    for name, content in files.items():
        try:
            put(settings, name, content)
        except ProblemError as error:
            if not done:
                raise
            hint = (
                f"{_some(done)} was written before that; to take it back: git checkout, git clean"
            )
            problems = tuple(replace(one, hint=hint) for one in error.problems)
            raise ProblemError(problems) from error
        done.append(name)


def _some(names: list[str]) -> str:
    first = ", ".join(names[:SHOWN])
    return f"{first} and {len(names) - SHOWN} more" if len(names) > SHOWN else first
