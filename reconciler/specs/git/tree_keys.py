"""Tree keys: whether specs have changed, without reading them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from operator import attrgetter

from reconciler.model.problem import ProblemError
from reconciler.model.settings import Settings
from reconciler.model.spec.document import DocumentCache
from reconciler.specs.git import git, history
from reconciler.specs.git.trees import is_plain, spec_tree
from reconciler.specs.read.library import asking_how_it_stands, list_specs

TreeKey = Callable[[DocumentCache], str]


def tree_key(settings: Settings, cache: DocumentCache) -> str:
    """A key that is equal only for equal specs of one revision; "" where only reading would tell.

    Git says that they are as committed, or the stamps of all files that their content is known.
    Where git was told not to look at some, nobody knows.
    """
    with asking_for_tree(settings) as key:
        return key(cache)


@contextmanager
def asking_for_tree(settings: Settings) -> Iterator[TreeKey]:
    """Like `tree_key`, in the background: git's answer is waited for when the key is asked for."""
    with ExitStack() as stack:
        try:
            stand, tree = asking_how_it_stands(settings, stack), spec_tree(settings)
            words = (settings, *history.TAGS)
            tags = tree and stack.enter_context(git.asking(*words, folder=tree.folder))
        except ProblemError:
            yield lambda cache: ""
            return

        def key(cache: DocumentCache) -> str:
            try:
                now = stand().revision
                if tags and history.read_tags(tags()):
                    return ""
                committed = now.commit and not now.dirty and tree and is_plain(settings, tree)
                content = "as committed" if committed else _known(settings, cache)
            except ProblemError:
                return ""
            return f"{now.commit} {now.branch} {content}" if content else ""

        yield key


def _known(settings: Settings, cache: DocumentCache) -> str:
    listing, stamps = list_specs(settings), cache.stamps()
    lines = []
    for file in sorted(listing.files, key=attrgetter("name")):
        stamp, content = stamps.get(file.name, (None, ""))
        if stamp != file.stamp:
            return ""
        lines.append(f"{file.name} {content}")
    lines += sorted(f"{name} is ignored" for name in listing.ignored)
    return "" if listing.broken else sha256("\n".join(lines).encode()).hexdigest()
