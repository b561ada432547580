"""Mirror: our own copy of a repository, and exactly one commit of it as files.

Nobody else writes to it, so what is read there is never half written. A folder in which people
work has edits, conflicts, a sparse checkout or a rebase under way; its commits have none of that.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath

from reconciler.model.problem import ProblemError, refuse
from reconciler.model.records import dataclass
from reconciler.model.settings import SourceSettings
from reconciler.specs.git import git
from reconciler.specs.git.git import Refused
from reconciler.specs.git.maintenance import maintain, unlock
from reconciler.specs.submodules import Submodule, beside, is_local, submodules

FETCH_SECONDS, CHECK_OUT_SECONDS, AGAIN_SECONDS = 300, 300, 300
WANTED, FOLLOWED = "refs/gpuaas/wanted", "refs/gpuaas/followed"
HEADS = "refs/gpuaas/heads/"
APPLIED = "refs/gpuaas/applied"
"""What nothing else may lead to any more: kept, since the next head has to come of it."""

PROTOCOLS = "https:ssh:file"
SSH = "ssh -o BatchMode=yes -o ConnectTimeout=15 -o ServerAliveInterval=10"
FETCHING = {"GIT_ALLOW_PROTOCOL": PROTOCOLS, "GIT_SSH_COMMAND": SSH}
SLOW = ("-c", "http.lowSpeedLimit=1000", "-c", "http.lowSpeedTime=30")

PLAIN = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
"""No filter of anybody's settings runs on what is checked out (F-REC-09)."""
BYTE_FOR_BYTE = ("-c", "core.autocrlf=false", "-c", "core.symlinks=true")

AWAY = Refused("source_unreachable", "see that git can fetch from it as this user, then wait")
UNREADABLE = Refused(
    "source_unreadable", "see what git says of it; the copy is made anew: rm -r it, and wait"
)

ACCEPTED_MEANWHILE = Refused("changed_meanwhile", "the next round follows what is accepted by then")

LINK_MODE, SUBMODULE_MODE = "120000 ", "160000 "
BYTES = "* -text -ident -filter !working-tree-encoding\n"
"""What no `.gitattributes` of a commit outdoes: files are as they were committed and signed."""

NOWHERE = "/nonexistent"


def nobody_stops() -> bool:
    """A wish to stop that never comes."""
    return False


def was_stopped(error: ProblemError) -> bool:
    """Whether nothing is wrong but that somebody wants no more of it."""
    return all(problem.code == "interrupted" for problem in error.problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """Whose signatures count: of the keys in a file of allowed signers, and in a keyring."""

    signers: Path | None = None
    keyring: Path | None = None


class Mirror:
    """`place` is the folder of both: the bare repository, and the tree that is checked out.

    As soon as `stop` says so, what takes long ends with `interrupted`; it is done anew next time.
    """

    def __init__(self, place: Path, stop: Callable[[], bool] = nobody_stops) -> None:
        self.bare, self.tree = place / "mirror.git", place / "tree"
        self._complete, self._partial = place / "checked-out", place / "partial"
        self._modules = place / "modules"
        self._stop = stop
        self._beside: Path | None = None

    def fetch(self, url: str, source: SourceSettings) -> str:
        """The commit that `source` has at `url` now. Raises ProblemError `source_unreachable`."""
        self._make()
        wanted = "HEAD"
        if source.branch:
            wanted = f"refs/heads/{source.branch}"
        elif source.tag:
            wanted = f"refs/tags/{source.tag}"
        self._fetch(url, f"+{wanted}:{WANTED}")
        return self._ask("rev-parse", "--verify", f"{WANTED}^{{commit}}").strip()

    def _fetch(self, url: str, refs: str) -> None:
        git.work(
            self.bare,
            *SLOW,
            *("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--update-shallow"),
            *("--no-recurse-submodules", "--no-auto-maintenance"),
            *("--", url, refs),
            refused=AWAY,
            variables=FETCHING,
            seconds=FETCH_SECONDS,
            stop=self._stop,
        )

    def maintain(self, applied: str, stop: Callable[[], bool]) -> None:
        """It stays small, and keeps what was `applied` last and what is read.

        Raises ProblemError `interrupted` as soon as `stop` says so, else `source_unreadable`.
        """
        if not (self.bare / "HEAD").is_file():
            return
        if self.has(applied):
            self._ask("update-ref", APPLIED, applied)
        for bare in (self.bare, *self._modules.glob("**/mirror.git")):
            maintain(bare, stop)

    def has(self, commit: str) -> bool:
        with suppress(ProblemError):
            return bool(commit and self._ask("rev-parse", "--verify", f"{commit}^{{commit}}"))
        return False

    def descends(self, commit: str, former: str) -> bool:
        """Whether `commit` came of `former`, as far as both are known here."""
        if not self.has(former):
            return False
        return not self._ask("rev-list", "--max-count=1", former, "--not", commit).strip()

    def unsigned(self, commit: str, former: str, folders: Sequence[str], trust: Trust) -> list[str]:
        """Commits after `former` that touch any of `folders`, by no signature that is trusted.

        Git itself verifies each: whose key is known and trusted is good (`%G?` of git-log(1) is G),
        and nothing else is. A merge that differs from any of its parents counts as well: it may
        bring back what was undone, or what is signed and was never merged. Where a link leads out
        of what `folders` hold, every commit counts.
        """
        within = () if self._links(commit, folders) else folders
        signers = str(trust.signers) if trust.signers else os.devnull
        said = git.work(
            self.bare,
            *("-c", f"gpg.ssh.allowedSignersFile={signers}", "-c", "gpg.minTrustLevel=fully"),
            *("log", "-z", "--full-history", "--format=%G?%h by %an"),
            *(f"{former}..{commit}", "--", *within),
            refused=UNREADABLE,
            variables={**PLAIN, "GNUPGHOME": str(trust.keyring or NOWHERE)},
            seconds=CHECK_OUT_SECONDS,
            stop=self._stop,
        )
        told = ("".join(filter(str.isprintable, one)) for one in said.split("\0") if one)
        return [one[1:] for one in told if one[:1] != "G"]

    def _links(self, commit: str, folders: Sequence[str]) -> bool:
        """Whether any of them is a link, lies behind one, or has one below it."""
        above = {str(one) for name in folders for one in PurePosixPath(name).parents}
        names = (*above.difference((".",)), *folders)
        said = self._ask("ls-tree", "-z", "--full-tree", commit, "--", *names)
        said += self._ask("ls-tree", "-r", "-z", "--full-tree", commit, "--", *folders)
        return any(entry.startswith(LINK_MODE) for entry in said.split("\0"))

    def followed(self) -> str:
        """The commit that was followed last; empty where none was."""
        if not (self.bare / "HEAD").is_file():
            return ""
        words = ("for-each-ref", "--format=%(refname) %(objectname)", FOLLOWED)
        if found := self._ask(*words).split():
            return found[1]
        if (self.bare / FOLLOWED).exists():
            raise refuse(UNREADABLE.code, f"{FOLLOWED} of the copy is damaged", UNREADABLE.hint)
        return ""

    def follow(self, commit: str, former: str) -> None:
        """Follow another history than `former`. Raises ProblemError `changed_meanwhile`."""
        if former != commit:
            words = ("update-ref", FOLLOWED, commit, former)
            git.work(self.bare, *words, refused=ACCEPTED_MEANWHILE)

    def check_out(self, commit: str, url: str) -> Path:
        """The tree, with exactly what `commit` has, and of submodules what is to be had.

        Raises ProblemError `source_unreadable`.
        """
        if self.standing() == commit and not self._lacks():
            return self.tree
        self._complete.unlink(missing_ok=True)
        if not self._is_ours():
            shutil.rmtree(self.tree, ignore_errors=True)
            shutil.rmtree(self.bare / "worktrees", ignore_errors=True)
            words = ("worktree", "add", "--force", "--detach", "--no-checkout")
            self._ask(*words, str(self.tree), commit)
        self._unlock()
        self._drop_submodules(commit)
        self._in_tree("reset", "--quiet", "--hard", commit)
        self._in_tree("clean", "-ffdxq")
        self._partial.unlink(missing_ok=True)
        if not self._submodules(commit, url):
            self._partial.touch()
        self._complete.write_text(commit, encoding="ascii")
        return self.tree

    def standing(self) -> str:
        """The commit that the tree has whole; empty while it is made, or where there is none."""
        return self._done() if self._is_ours() else ""

    def spoilt(self) -> None:
        """Somebody has been at the files: they are checked out anew next time."""
        self._complete.unlink(missing_ok=True)

    def _submodules(self, commit: str, url: str) -> bool:
        """Whether all are had. One that cannot be keeps what it holds unknown, and nothing else."""
        near = self._beside or beside(url)
        had, wanted = True, list(submodules(self._ask, commit, url, near))
        for one in wanted:
            mirror = self._of(one, near)
            try:
                if not one.url or not mirror.tree.resolve().is_relative_to(self.tree.resolve()):
                    had = False
                    continue
                mirror.bring(one.commit, one.url)
                mirror.check_out(one.commit, one.url)
                had = had and not mirror._partial.exists()
            except ProblemError as error:
                if was_stopped(error):
                    raise
                had = False
        self._forget({one.key for one in wanted})
        return had

    def bring(self, commit: str, url: str) -> None:
        """Exactly that commit, from there. Raises ProblemError `source_unreachable`."""
        self._make()
        if self.has(commit):
            return
        try:
            self._fetch(url, f"+{commit}:{WANTED}")
        except ProblemError as error:
            if was_stopped(error):
                raise
            # As old servers want it, which give what is at the end of a branch alone.
            self._fetch(url, f"+refs/heads/*:{HEADS}*")
        if not self.has(commit):
            raise refuse(AWAY.code, f"{url} has no commit {commit[:7]}", AWAY.hint)

    def _drop_submodules(self, commit: str) -> None:
        """What was one, and is none in `commit`, is no repository any more."""
        now = {one.path for one in submodules(self._ask, commit, "", None)}
        for line in self._in_tree("ls-files", "-z", "--stage").split("\0"):
            about, _, path = line.partition("\t")
            if about.startswith(SUBMODULE_MODE) and path not in now:
                shutil.rmtree(self.tree / path, ignore_errors=True)

    def _of(self, one: Submodule, near: Path | None) -> Mirror:
        found = Mirror(self._modules / one.key, self._stop)
        found.tree, found._beside = self.tree / one.path, near if is_local(one.url) else None
        return found

    def _forget(self, keys: Collection[str]) -> None:
        """Those that no commit in hand has."""
        with suppress(FileNotFoundError):
            for place in self._modules.iterdir():
                if place.name not in keys:
                    shutil.rmtree(place, ignore_errors=True)

    def _make(self) -> None:
        if not (self.bare / "HEAD").is_file():
            self.bare.mkdir(parents=True, exist_ok=True)
            git.work(
                self.bare, "init", "--quiet", "--bare", ".", refused=UNREADABLE, variables=PLAIN
            )
            for key, value in (("core.autocrlf", "false"), ("gc.autoDetach", "false")):
                self._ask("config", key, value)
        unlock(self.bare)
        attributes = self.bare / "info/attributes"
        if not attributes.is_file() or attributes.read_text(encoding="ascii") != BYTES:
            attributes.parent.mkdir(exist_ok=True)
            attributes.write_text(BYTES, encoding="ascii")

    def _lacks(self) -> bool:
        """Whether something of it could not be had, a while ago."""
        with suppress(OSError):
            return abs(time.time() - self._partial.stat().st_mtime) >= AGAIN_SECONDS
        return False

    def _is_ours(self) -> bool:
        """Whether git takes the tree for one of this copy. They name each other by whole paths, and
        where a fleet was copied or moved these lead to the place before, and into another loop's.
        """
        with suppress(OSError):
            word, _, told = (self.tree / ".git").read_text(errors="replace").strip().partition(": ")
            place = (self.tree / told).resolve()
            back = (place / "gitdir").read_text(errors="replace").strip()
            leads = place.parent == (self.bare / "worktrees").resolve()
            return word == "gitdir" and leads and (place / back).samefile(self.tree / ".git")
        return False

    def _done(self) -> str:
        with suppress(OSError):
            return self._complete.read_text(encoding="ascii", errors="replace").strip()
        return ""

    def _unlock(self) -> None:
        """What a killed round has left: nobody else is at work here."""
        for lock in (self.bare / "worktrees").glob("*/*.lock"):
            lock.unlink(missing_ok=True)

    def _in_tree(self, *words: str) -> str:
        return git.work(
            self.tree,
            *(*BYTE_FOR_BYTE, *words),
            refused=UNREADABLE,
            variables=PLAIN,
            seconds=CHECK_OUT_SECONDS,
            stop=self._stop,
        )

    def _ask(self, *words: str) -> str:
        return git.work(self.bare, *words, refused=UNREADABLE)
