"""A private commit: a private checkout after a change, committed only there."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from reconciler.model.settings import Settings
from reconciler.specs.edit.edit import put
from reconciler.specs.git import git
from reconciler.specs.git.private_checkout import place_of

PLAIN, GONE = "100644", "0"
NOBODY = "0" * 40

_DIFF = (
    *("diff", "--no-ext-diff", "--no-textconv", "--no-color", "--no-renames", "--full-index"),
    *("--binary", "--src-prefix=a/", "--dst-prefix=b/", "HEAD^", "HEAD", "--"),
)


def commit_privately(
    settings: Settings, files: Mapping[str, bytes | None], author: tuple[str, str]
) -> str:
    """Let the checkout hold these files, as the last commit of `author`, a name and an address.

    The patch of it, from the top of the repository. Nothing but the checkout is written to.
    """
    ask, place = partial(git.ask, settings), place_of(settings)
    modes = {}
    for line in ask("ls-files", "--stage", "-z").split("\0"):
        about, _, name = line.partition("\t")
        modes[name] = about.split(" ")[0]
    for name, content in files.items():
        put(settings, name, content)
    there = [name for name, content in files.items() if content is not None]
    said = ask("hash-object", "-w", "--no-filters", "--stdin-paths", stdin=_lines(there, place))
    blobs = dict(zip(there, said.split(), strict=True))
    index = "".join(
        f"{modes.get(name, PLAIN) if name in blobs else GONE}"
        f" {blobs.get(name, NOBODY)}\t{place}{name}\0"
        for name in files
    )
    ask("update-index", "-z", "--index-info", stdin=index)
    name, address = author
    who = ("-c", f"user.name={name}", "-c", f"user.email={address}")
    tree = ask("write-tree").strip()
    made = ask(*who, "commit-tree", tree, "-p", "HEAD", "-m", "as it would be").strip()
    ask("update-ref", "--no-deref", "HEAD", made)
    return ask(*_DIFF)


def _lines(names: list[str], place: str) -> str:
    """From the top of the repository, wherever git is asked."""
    return "".join(f"{place}{name}\n" for name in names)
