"""Submodules of a commit: the path, the commit and the source of each.

Asked of the commit itself: what stands in `.gitmodules` is an author's word, and no setting.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

from reconciler.model.formats import why_no_repository
from reconciler.model.problem import ProblemError
from reconciler.model.records import dataclass

LINK = re.compile(r"160000 commit ([0-9a-f]{40}(?:[0-9a-f]{24})?)\t(.+)", re.DOTALL)
_ENTRY = re.compile(r"submodule\.(.+)\.(path|url)\n(.*)", re.DOTALL)

Ask = Callable[..., str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Submodule:
    """`url` is empty where nobody says it, or where nothing is fetched from."""

    path: str
    commit: str
    url: str

    @property
    def key(self) -> str:
        """Its place: what is called otherwise, or comes from elsewhere, is another one."""
        return hashlib.sha256(f"{self.path}\0{self.url}".encode()).hexdigest()[:16]


def submodules(ask: Ask, commit: str, url: str, beside: Path | None) -> Iterator[Submodule]:
    """The submodules of `commit`, which was fetched from `url`.

    Repositories of this machine are read only where they lie `beside` the one that is followed.
    """
    urls = dict(_urls(ask, commit))
    for entry in ask("ls-tree", "-r", "-z", "--full-tree", commit).split("\0"):
        if found := LINK.fullmatch(entry):
            address = resolved(urls.get(found[2], ""), url)
            known = address if is_followed(address, beside) else ""
            yield Submodule(path=found[2], commit=found[1], url=known)


def _urls(ask: Ask, commit: str) -> Iterator[tuple[str, str]]:
    said = ""
    with suppress(ProblemError):
        words = ("config", "-z", f"--blob={commit}:.gitmodules", "--get-regexp")
        said = ask(*words, r"^submodule\..*\.(path|url)$")
    named: dict[str, dict[str, str]] = {}
    for entry in said.split("\0"):
        if found := _ENTRY.fullmatch(entry):
            named.setdefault(found[1], {})[found[2]] = found[3]
    for one in named.values():
        if "path" in one and "url" in one:
            yield one["path"].rstrip("/"), one["url"]


def resolved(url: str, base: str) -> str:
    """The address that a relative one means; empty where it leads out of everything."""
    if not url.startswith(("./", "../")):
        return url
    base = base.rstrip("/")
    while url.startswith(("./", "../")):
        step, _, url = url.partition("/")
        if step == "..":
            head, slash, _ = base.rpartition("/")
            if not slash or head.endswith("/"):
                return ""
            base = head
    return f"{base}/{url}" if base and url else ""


def is_followed(url: str, beside: Path | None) -> bool:
    """Whether it may be fetched from there."""
    if not url or why_no_repository(url):
        return False
    if not is_local(url):
        return True
    return beside is not None and _folder(url).is_relative_to(beside)


def is_local(url: str) -> bool:
    return url.startswith(("/", "file:"))


def beside(url: str) -> Path | None:
    """The folder of this machine that the repository at `url` lies in."""
    return _folder(url).parent if is_local(url) else None


def _folder(url: str) -> Path:
    return Path(PurePosixPath(url.removeprefix("file://"))).resolve()
