"""Git as a program: it is asked about the fleet's repository, and told to commit one file.

Settings that the caller's environment states (`GIT_CONFIG_…`) count as in every git of theirs;
which repository, work tree or index is meant is never taken from there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from shlex import quote
from types import MappingProxyType
from typing import NamedTuple

from reconciler.model.problem import ProblemError, refuse
from reconciler.model.settings import Settings
from reconciler.specs.git.folder import repository_within, under_way
from reconciler.specs.git.process import (
    GIT_SECONDS,
    Stopped,
    Unanswered,
    answer_of,
    begun,
    run,
    run_apart,
)

COMMIT_SECONDS = 300
"""A commit runs the hooks of its author, and may ask for the passphrase of a signing key."""

_QUIET = (
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "core.fsmonitor=false"),
    *("-c", "core.quotePath=false"),
    *("-c", "log.showSignature=false"),
)
_SETTINGS = ("GIT_CONFIG_", "GIT_DISCOVERY_ACROSS_FILESYSTEM")
_IDENTITY = ("GIT_AUTHOR_", "GIT_COMMITTER_")
NOTHING: Mapping[str, str] = MappingProxyType({})


def repository(settings: Settings) -> Path | None:
    """The top of the repository that the fleet's folder lies in."""
    return repository_of(Path(settings.folder))


def repository_of(folder: Path) -> Path | None:
    """The top of the repository, the linked work tree or the submodule that a folder lies in."""
    return next((top for top in (folder, *folder.parents) if (top / ".git").exists()), None)


def ask(settings: Settings, *arguments: str, stdin: str = "", folder: str = "") -> str:
    """Ask git, in `folder` or the fleet's own: no hooks, no helpers, no locks, no prompt.

    Raises ProblemError `no_commit`: a repository that does not answer is not *no repository*.
    """
    with asking(settings, *arguments, stdin=stdin, folder=folder) as answer:
        return answer()


@contextmanager
def asking(
    settings: Settings, *arguments: str, stdin: str = "", folder: str = ""
) -> Iterator[Callable[[], str]]:
    """Like `ask`, in the background: the answer is waited for when it is called for.

    Leaving without the answer ends the question.
    """
    environment = {**_environment(), "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
    words = (*_QUIET, *arguments)
    place = folder or settings.folder
    if within := repository_within(Path(place).resolve()):
        raise refuse(
            "no_commit",
            f"{within} is a repository of git itself, inside of another one: nobody can tell which"
            " commit is meant",
            "take its HEAD, objects and refs away, and commit that",
        )

    def answer() -> str:
        with _telling_why():
            return answer_of(question)

    with _telling_why(), begun(place, words, environment, stdin) as question:
        yield answer


@contextmanager
def _telling_why() -> Iterator[None]:
    try:
        yield
    except Unanswered as why:
        raise refuse(
            "no_commit",
            f"there is a repository, but its commit is unknown: {why}",
            "make `git status` work for this user in this folder",
        ) from why


def author_email(settings: Settings) -> str:
    """The address that a commit made now would bear; empty where git knows none."""
    words = ("-c", "user.useConfigOnly=true", "var", "GIT_AUTHOR_IDENT")
    if repository_within(Path(settings.folder).resolve()):
        return ""
    with suppress(Unanswered):
        identity = run(settings.folder, words, _environment(keep=_IDENTITY))
        return identity.rpartition("<")[2].partition(">")[0]
    return ""


def insist_on_rest(settings: Settings, name: str) -> None:
    """Raise ProblemError `commit_failed` while git is at work on the tree of `name`, or where there
    is none: before anything is written, since git makes no commit of one file then.
    """
    if repository(settings) is None:
        why = "there is no repository here; nothing was written"
        raise _not_committed(name, why, "make one: git init; or leave --commit out")
    top = repository_of(Path(settings.folder, name).resolve().parent)
    if top is not None and (found := under_way(top)):
        raise _not_committed(
            name, f"{found.what} is under way; nothing was written", f"{found.hint}; then again"
        )


def commit(settings: Settings, name: str, message: str, beside: Sequence[str] = ()) -> str:
    """Commit a file of the fleet, those `beside` it and nothing else that may be staged.

    The new commit is the user's own: with their identity, hooks and signature. Raises ProblemError
    `commit_failed`; the file then stays as it is written.
    """
    top = repository(settings)
    if top is None:
        raise _not_committed(name, "there is no repository here", "make one: git init")
    if within := repository_within(Path(settings.folder).resolve()):
        raise _not_committed(
            name, f"{within} is a repository of git itself", "take its HEAD away, and commit that"
        )
    environment = _environment(keep=_IDENTITY)
    paths = [_path(settings, one) for one in (name, *beside)]
    by_hand = f"git add -- {quote(paths[0])} && git commit -- {quote(paths[0])}"
    if found := under_way(top):
        hint = f"the file is written; {found.hint}; then: {by_hand}"
        raise _not_committed(name, f"{found.what} is under way", hint)
    try:
        run(settings.folder, ("add", "--", *paths), environment)
        words = ("commit", "--quiet", "--message", message, "--", *paths)
        run(settings.folder, words, environment, seconds=COMMIT_SECONDS)
    except Unanswered as why:
        hint = f"the file is written; commit it yourself: {by_hand}"
        raise _not_committed(name, str(why), hint) from why
    return ask(settings, "rev-parse", "HEAD").strip()


def insist_on_commit(settings: Settings, name: str) -> None:
    """Raise ProblemError `commit_failed` where a file is not in the commit as it lies there."""
    if repository(settings) is None:
        raise _not_committed(name, "there is no repository here", "make one: git init")
    path = _path(settings, name)
    if ask(settings, "status", "--porcelain", "--ignored", "--", path):
        hint = f"commit it yourself: git add -- {quote(path)} && git commit -- {quote(path)}"
        raise _not_committed(name, "it says so already, and holds more than the commit does", hint)


def _path(settings: Settings, name: str) -> str:
    """Where a file lies, from the fleet's folder: git has a link for a file of its own, and no
    files behind one.
    """
    folder = os.path.realpath(settings.folder)
    return os.path.relpath(os.path.realpath(os.path.join(folder, name)), folder)


class Refused(NamedTuple):
    """What is told where git does not do what it is told: a problem code, and what helps."""

    code: str
    hint: str


def work(
    folder: Path,
    *words: str,
    refused: Refused,
    variables: Mapping[str, str] = NOTHING,
    seconds: int = GIT_SECONDS,
    stop: Callable[[], bool] | None = None,
) -> str:
    """Let git work in a repository that is nobody's but the program's; what it says.

    No hooks run and nobody is asked for a password. Raises ProblemError as `refused` says, and
    `interrupted` as soon as `stop` says so.
    """
    environment = {**_environment(), "GIT_TERMINAL_PROMPT": "0", **variables}
    try:
        return run_apart(str(folder), (*_QUIET, *words), environment, seconds=seconds, stop=stop)
    except Stopped as why:
        raise refuse("interrupted", "stopped on request", "") from why
    except Unanswered as why:
        raise refuse(refused.code, str(why), refused.hint) from why


def _not_committed(name: str, why: str, hint: str) -> ProblemError:
    return refuse("commit_failed", f"{name} was not committed: {why}", hint)


def _environment(keep: tuple[str, ...] = ()) -> dict[str, str]:
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith("GIT_") or key.startswith((*_SETTINGS, *keep))
    }
    return {**kept, "LC_ALL": "C"}
