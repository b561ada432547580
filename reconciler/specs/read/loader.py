"""The loader of all files; it skips what was read, parsed or judged before.

A file whose stamp is known is not opened; content that is known is not parsed. Only content
without any problem is remembered. A large cold load is shared with helper processes.
"""

from __future__ import annotations

import gc
import json
import signal
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from hashlib import sha256
from itertools import islice

from reconciler.model.canonical import canonical, text_digest
from reconciler.model.problem import Problem, ProblemError
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.spec.document import DocumentCache
from reconciler.model.spec.resource import Resource
from reconciler.specs.read.check_file import CheckedFile, Judge, Unsound, restore, store
from reconciler.specs.read.library import Listing, SpecFile, is_settled, program_digest, read_file

CHUNK = 500
HELPERS = 2
SHARED_FROM = 2000
"""So many unknown files are worth the start of helper processes."""


@dataclass(slots=True, kw_only=True)
class Loaded:
    """What all files say; `frozen` holds each document with errors of its own, by its file.

    `suspended` are files with errors and whom their text calls so.
    """

    resources: list[Resource] = field(default_factory=list)
    frozen: list[tuple[str, Unsound]] = field(default_factory=list)
    suspended: list[tuple[str, Ref]] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    broken: set[str] = field(default_factory=set)
    content: dict[str, str] = field(default_factory=dict)
    """File → digest of its content, for all that could be read."""

    def add(self, judged: CheckedFile) -> None:
        self.resources += judged.resources
        self.frozen += ((judged.file, one) for one in judged.frozen)
        self.suspended += ((judged.file, ref) for ref in judged.suspended)
        self.problems += judged.problems
        if judged.broken:
            self.broken.add(judged.file)


def load(listing: Listing, schemas: Mapping[str, str], cache: DocumentCache) -> Loaded:
    """What the files of the listing say, and what could not be listed in the first place."""
    loaded = Loaded(problems=list(listing.problems), broken=set(listing.broken))
    space = f"documents {version(schemas)}"
    stamps = cache.stamps()
    known = {
        file.name: stamps[file.name][1]
        for file in listing.files
        if file.name in stamps and stamps[file.name][0] == file.stamp
    }
    rows = cache.get_many(space, set(known.values()))
    unknown = []
    for file in listing.files:
        row = rows.get(known.get(file.name, ""))
        if row is None:
            unknown.append(file)
        else:
            loaded.content[file.name] = known[file.name]
            loaded.resources += _restored(file.name, row)
    if unknown:
        _Reading(loaded=loaded, space=space, cache=cache, schemas=schemas).read(unknown)
    cache.put_stamps(
        {
            file.name: (file.stamp, loaded.content[file.name])
            for file in unknown
            if file.name in loaded.content and is_settled(file.stamp)
        },
        gone=stamps.keys() - {file.name for file in listing.files} if listing.whole else (),
    )
    return loaded


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """Reads files by chunks; what is known by its content is not judged again."""

    loaded: Loaded
    space: str
    cache: DocumentCache
    schemas: Mapping[str, str]

    def read(self, files: Sequence[SpecFile]) -> None:
        unjudged = self.unjudged(files)
        if len(files) < SHARED_FROM:
            judge = Judge(self.schemas)
            for batch in unjudged:
                self.keep(_judge_all(judge, batch))
            return
        # Costs every command more than the files it reads, and serves big cold loads alone.
        from concurrent.futures import Future, ProcessPoolExecutor
        from multiprocessing import get_context

        with ProcessPoolExecutor(
            HELPERS, get_context("fork"), initializer=_begin_helping, initargs=(self.schemas,)
        ) as helpers:
            waiting: deque[Future[list[_Verdict]]] = deque()
            for batch in unjudged:
                waiting.append(helpers.submit(_help, batch))
                if len(waiting) > 2 * HELPERS:
                    self.keep(waiting.popleft().result())
            for verdicts in waiting:
                self.keep(verdicts.result())

    def unjudged(self, files: Iterable[SpecFile]) -> Iterator[list[tuple[str, bytes]]]:
        """The content of files that must be judged; the others are taken from the cache."""
        rest = iter(files)
        while chunk := list(islice(rest, CHUNK)):
            read = ((file.name, self.content_of(file)) for file in chunk)
            contents = {name: text for name, text in read if text is not None}
            digests = {name: sha256(text).hexdigest() for name, text in contents.items()}
            self.loaded.content.update(digests)
            rows = self.cache.get_many(self.space, set(digests.values()))
            batch = []
            for name, content in contents.items():
                if row := rows.get(digests[name]):
                    self.loaded.resources += _restored(name, row)
                else:
                    batch.append((name, content))
            if batch:
                yield batch

    def content_of(self, file: SpecFile) -> bytes | None:
        try:
            return read_file(file.name, file.path)
        except ProblemError as error:
            self.loaded.problems += error.problems
            self.loaded.broken.add(file.name)
            return None

    def keep(self, verdicts: Iterable[_Verdict]) -> None:
        rows = {}
        for judged, row in verdicts:
            self.loaded.add(judged)
            if row:
                rows[self.loaded.content[judged.file]] = row
                if not judged.resources:
                    self.loaded.resources += _restored(judged.file, row)
        self.cache.put_many(self.space, rows)


_Verdict = tuple[CheckedFile, str]
"""What a file says, and the same to be remembered; "" if it has problems."""

_helper: list[Judge] = []


PR_SET_PDEATHSIG = 1


def _begin_helping(schemas: Mapping[str, str]) -> None:
    """A helper ends when whoever it helps does, and leaves all signals of a terminal to them."""
    # Needed in helpers alone.
    import ctypes

    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    gc.disable()
    _helper.append(Judge(schemas))


def _help(batch: Iterable[tuple[str, bytes]]) -> list[_Verdict]:
    """In a helper process: sound files go back as rows alone, which are cheaper to send."""
    return [
        (replace(judged, resources=()) if row else judged, row)
        for judged, row in _judge_all(_helper[0], batch)
    ]


def _judge_all(judge: Judge, batch: Iterable[tuple[str, bytes]]) -> list[_Verdict]:
    verdicts = []
    for name, content in batch:
        judged = judge.judge(name, content)
        row = "" if judged.problems else json.dumps([store(one) for one in judged.resources])
        verdicts.append((judged, row))
    return verdicts


def _restored(file: str, row: str) -> list[Resource]:
    return [restore(file, stored) for stored in json.loads(row)]


def version(schemas: Mapping[str, str]) -> str:
    """What every remembered row depends on besides the files: this program and the schemas."""
    return text_digest(program_digest() + canonical(dict(schemas)))
