"""Git as a program: asked about the fleet's repository, and told to commit one file of it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from reconciler.model.problem import ProblemError, refuse
from reconciler.model.settings import Settings

GIT_SECONDS = 60
COMMIT_SECONDS = 300
"""A commit runs the hooks of its author, and may ask for the passphrase of a signing key."""

_QUIET = (
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "core.fsmonitor=false"),
    *("-c", "core.quotePath=false"),
    *("-c", "log.showSignature=false"),
)
_IDENTITY = ("GIT_AUTHOR_", "GIT_COMMITTER_")


def repository(settings: Settings) -> Path | None:
    """The top of the repository that the fleet's folder lies in."""
    folder = Path(settings.folder)
    return next((top for top in (folder, *folder.parents) if (top / ".git").exists()), None)


def ask(settings: Settings, *arguments: str, stdin: str = "") -> str:
    """Ask git: no hooks, no helpers, no locks, no prompt, and none of the caller's GIT_ settings.

    Raises ProblemError `no_commit`: a repository that does not answer is not *no repository*.
    """
    environment = {**_environment(), "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
    try:
        return _run(settings, (*_QUIET, *arguments), environment, stdin=stdin)
    except _Unanswered as why:
        raise refuse(
            "no_commit",
            f"there is a repository, but its commit is unknown: {why}",
            "make `git status` work for this user in this folder",
        ) from why


def author_email(settings: Settings) -> str:
    """The address that a commit made now would bear; empty where git knows none."""
    environment = _environment(keep=_IDENTITY)
    if stated := environment.get("GIT_AUTHOR_EMAIL"):
        return stated
    with suppress(_Unanswered):
        return _run(settings, ("config", "--get", "user.email"), environment).strip()
    return ""


def commit(settings: Settings, name: str, message: str, beside: Sequence[str] = ()) -> str:
    """Commit a file of the fleet, those `beside` it and nothing else that may be staged.

    The new commit is the user's own: with his identity, hooks and signature. Raises ProblemError
    `commit_failed`; the file then stays as it is written.
    """
    if repository(settings) is None:
        raise _not_committed(name, "there is no repository here", "make one: git init")
    environment = _environment(keep=_IDENTITY)
    try:
        _run(settings, ("add", "--", name, *beside), environment)
        words = ("commit", "--quiet", "--message", message, "--", name, *beside)
        _run(settings, words, environment, seconds=COMMIT_SECONDS)
    except _Unanswered as why:
        hint = f"the file is written; commit it yourself: git commit -- {name}"
        raise _not_committed(name, str(why), hint) from why
    return ask(settings, "rev-parse", "HEAD").strip()


class _Unanswered(Exception):
    """Git did not do it; the text is why."""


def _not_committed(name: str, why: str, hint: str) -> ProblemError:
    return refuse("commit_failed", f"{name} was not committed: {why}", hint)


def _environment(keep: tuple[str, ...] = ()) -> dict[str, str]:
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith("GIT_") or key.startswith(keep)
    }
    return {**kept, "LC_ALL": "C"}


def _run(
    settings: Settings,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    *,
    stdin: str = "",
    seconds: int = GIT_SECONDS,
) -> str:
    try:
        done = subprocess.run(
            ["git", "--no-pager", "--literal-pathspecs", *arguments],
            cwd=settings.folder,
            env=environment,
            input=stdin.encode("utf-8", "surrogateescape"),
            capture_output=True,
            timeout=seconds,
            check=True,
        )
        return _text(done.stdout)
    except FileNotFoundError:
        reason = "git is not installed"
    except subprocess.TimeoutExpired:
        reason = f"git did not answer within {seconds} s"
    except subprocess.CalledProcessError as error:
        said = _text(error.stderr).strip() or _text(error.stdout).strip()
        reason = next(iter(said.splitlines()), f"git ended with {error.returncode}")
    raise _Unanswered(reason)


def _text(said: bytes) -> str:
    """Every byte as it is: not even a line break of another system is turned into ours."""
    return said.decode("utf-8", "surrogateescape")
