"""Provenance: who wrote a document, which is who last changed its value.

A comment, a new layout, a change of the document beside it and a move to another file are none of
that. What a commit took away it has written too. Many documents are traced side by side, so that
git is asked a few times, however many they are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from dataclasses import field, replace

from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import AuthorDoubt, Origin
from reconciler.model.spec.document import DocumentCache
from reconciler.specs.git.blobs import ABSENT, ANY, Blobs, may_come_from
from reconciler.specs.git.history import Commit, Git, Log, Touch, read_commits, read_log, signed
from reconciler.specs.read.library import is_spec

ARGUMENT_LIMIT = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A document whose author is asked for: its file in the tree, and its value there.

    `value` None is that of the commit in hand; ABSENT is asked for what was taken away, UNSAID for
    what no commit says.
    """

    ref: Ref
    path: str
    value: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Need:
    """What a trace must know before it goes on."""

    path: str = ""
    blobs: frozenset[str] = frozenset()
    commit: str = ""


_Files = list[tuple[str, Touch]]
_Others = Mapping[str, _Files]
_Trace = Generator[_Need, None, Origin]


@dataclass(slots=True, kw_only=True)
class Provenance:
    """The history of one tree; `ends` are the commits at which a shallow one ends.

    Where a document may not stand it is none: it neither goes there nor comes from there.
    """

    git: Git
    cache: DocumentCache
    may_stand: Callable[[Ref, str], bool]
    ends: frozenset[str] = frozenset()
    _blobs: Blobs = field(init=False)
    _logs: dict[str, Log] = field(default_factory=dict)
    _commits: dict[str, Log] = field(default_factory=dict)
    _moves: dict[tuple[str, bool], _Files] = field(default_factory=dict)
    _sides: dict[tuple[str, bool], _Others] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._blobs = Blobs(self.git, self.cache)

    def origins(self, wanted: Iterable[Wanted]) -> Mapping[Ref, Origin]:
        """The origin of each; an empty Origin for what no commit has made so."""
        traces = {one.ref: self._trace(one) for one in wanted}
        found: dict[Ref, Origin] = {}
        needs: dict[Ref, _Need] = {}
        while traces:
            for ref in list(traces):
                try:
                    needs[ref] = next(traces[ref])
                except StopIteration as ended:
                    found[ref] = ended.value
                    del traces[ref]
                    needs.pop(ref, None)
            self._answer(needs.values())
        self._blobs.keep()
        known = signed(self.git, {origin.commit for origin in found.values() if origin.commit})
        return {ref: replace(one, signed=one.commit in known) for ref, one in found.items()}

    def _answer(self, needs: Collection[_Need]) -> None:
        paths = sorted({need.path for need in needs} - self._logs.keys() - {""})
        if paths:
            log = read_log(self.git, paths if len(paths) <= ARGUMENT_LIMIT else ["."])
            self._logs.update(dict.fromkeys(paths, log))
        # Many ask for the same: their sets are told apart before they are joined.
        self._blobs.load(frozenset().union(*{need.blobs for need in needs}))
        commits = {need.commit for need in needs} - self._commits.keys() - {""}
        if commits:
            self._commits.update(dict.fromkeys(commits, read_commits(self.git, commits)))

    def _trace(self, wanted: Wanted) -> _Trace:
        """Back from the commit in hand, from file to file, to the commit that wrote it."""
        ref, path, value = wanted.ref, wanted.path, wanted.value
        before, seen, left = "", {wanted.path}, None
        while True:
            if path not in self._logs:
                yield _Need(path=path)
            log = self._logs[path]
            touches = _below(log, log.touched.get(path, []), before)
            if value is None and (len(touches) != 1 or any(touches[0].before)):
                name = touches[0].blob if log.linear and touches else f"HEAD:./{path}"
                value = yield from self._value(name, ref)
            event = yield from self._event(ref, path, value, touches)
            if event is None:
                # Where it went it still stands, and counts for nothing: else it would not be gone.
                return _by(left) if left else self._unseen(wanted)
            commit = log.commits[event.number]
            if commit.id in self.ends:
                return Origin(doubt=AuthorDoubt.SHALLOW)
            if value is None:
                value = yield from self._value(event.blob, ref)
            moved = yield from self._moved(ref, path, value, event)
            if moved is None or (value == ABSENT and moved in seen):
                return Origin(doubt=AuthorDoubt.UNCLEAR)
            if not moved:
                return _by(commit)
            seen.add(moved)
            if value == ABSENT:
                path, left = moved, commit
            else:
                path, before = moved, commit.id

    def _value(self, blob: str, ref: Ref) -> Generator[_Need, None, str]:
        yield _Need(blobs=frozenset({blob}))
        return self._blobs.value(blob, ref)

    def _unseen(self, wanted: Wanted) -> Origin:
        """No commit is known that made it so. What is not asked for as gone is nobody's for that.

        Where git says that a file is as committed, it is not by who happens to ask.
        """
        if self.ends:
            return Origin(doubt=AuthorDoubt.SHALLOW)
        return Origin() if wanted.value == ABSENT else Origin(doubt=AuthorDoubt.UNCLEAR)

    def _event(
        self, ref: Ref, path: str, value: str | None, touches: list[Touch]
    ) -> Generator[_Need, None, Touch | None]:
        """The commit that gave it its value; where sides of a merge disagree, the merge."""
        if value is None:
            return touches[0] if touches else None
        log = self._logs[path]
        ends: list[Touch] = []
        for touch in touches:
            if any(log.is_older(touch.number, end.number) for end in ends):
                continue
            yield _Need(blobs=frozenset({touch.blob, *touch.before}))
            if self._changes(ref, touch):
                ends.append(touch)
        made = [touch for touch in ends if self._blobs.value(touch.blob, ref) == value]
        if value == ABSENT or len(made) == len(ends):
            return made[0] if made else None
        return (yield from self._merge(ref, path, value, ends))

    def _changes(self, ref: Ref, touch: Touch) -> bool:
        after = self._blobs.value(touch.blob, ref)
        return all(after != self._blobs.value(before, ref) for before in touch.before)

    def _merge(
        self, ref: Ref, path: str, value: str, ends: list[Touch]
    ) -> Generator[_Need, None, Touch | None]:
        """The oldest merge that had all of them before it, and took this value."""
        log = self._logs[path]
        wanted = {touch.number for touch in ends}
        for number in range(min(wanted) - 1, -1, -1):
            commit = log.commits[number]
            if len(commit.parents) < 2 or not all(log.is_older(end, number) for end in wanted):
                continue
            name = f"{commit.id}:./{path}"
            if (yield from self._value(name, ref)) == value:
                return Touch(number=number, blob=name, before=(name,))
        return None

    def _moved(
        self, ref: Ref, path: str, value: str, event: Touch
    ) -> Generator[_Need, None, str | None]:
        """The file that it came from, unchanged; or where it went, if it was taken away here.

        None if it may have been there before, and nobody can say so: whoever mends a text has not
        written all that it says, and whoever wrote that once may have taken it away since.
        """
        gone = value == ABSENT
        if not gone:
            yield _Need(blobs=frozenset(event.before))
            earlier = [self._blobs.value(blob, ref) for blob in event.before]
            if any(earlier):
                return None if any(may_come_from(value, one) for one in earlier) else ""
        commit = self._logs[path].commits[event.number].id
        if commit not in self._commits:
            yield _Need(commit=commit)
        move = commit, gone
        if move not in self._sides:
            yield self._contents(move)
        if move not in self._sides:
            self._sides[move] = self._by_name(self._moves[move], gone)
        sides = self._sides[move]
        # By whatever name each was found, they are looked at in one order.
        others = sorted([*sides.get(ref.name, ()), *sides.get(ANY, ())], key=_by_path)
        yield _Need(blobs=frozenset(b for _, touch in others for b in (touch.blob, *touch.before)))
        others = [(other, touch) for other, touch in others if other != path]
        if not gone and self._is_unclear(ref, value, others):
            return None
        places = self._places(ref, value, others)
        return next((other for other in places if self.may_stand(ref, other)), "")

    def _is_unclear(self, ref: Ref, value: str, others: _Files) -> bool:
        """Whether it may have come from what nobody can read, or came from where it was none."""
        if any(
            may_come_from(value, self._blobs.value(blob, ref))
            for _, touch in others
            for blob in touch.before
        ):
            return True
        places = list(self._places(ref, value, others))
        return bool(places) and not any(self.may_stand(ref, other) for other in places)

    def _contents(self, move: tuple[str, bool]) -> _Need:
        """Of its files, asked for by the first who may have moved: the others wait for it."""
        if move in self._moves:
            return _Need()
        files = self._moves[move] = self._others(*move)
        return _Need(blobs=frozenset(b for _, touch in files for b in _side(touch, move[1])))

    def _others(self, commit: str, gone: bool) -> _Files:
        """The spec files of a commit that a document may have come from, or have gone to."""
        return [
            (other, touch)
            for other, touches in self._commits[commit].touched.items()
            for touch in touches
            if self._commits[commit].commits[touch.number].id == commit
            and is_spec(other)
            and any(_side(touch, gone))
        ]

    def _by_name(self, others: _Files, gone: bool) -> _Others:
        """By the names that documents of them may have."""
        found: dict[str, _Files] = {}
        for one in others:
            for name in {name for blob in _side(one[1], gone) for name in self._blobs.names(blob)}:
                found.setdefault(name, []).append(one)
        return found

    def _places(self, ref: Ref, value: str, others: _Files) -> Iterator[str]:
        for other, touch in others:
            after = self._blobs.value(touch.blob, ref)
            before = [self._blobs.value(blob, ref) for blob in touch.before]
            if value == ABSENT and after != ABSENT and ABSENT in before:
                yield other
            if value != ABSENT and after == ABSENT and value in before:
                yield other


def _by(commit: Commit) -> Origin:
    return Origin(commit=commit.id, author=commit.author, email=commit.email)


def _side(touch: Touch, gone: bool) -> tuple[str, ...]:
    """What a file held before the commit; or after it."""
    return (touch.blob,) if gone else touch.before


def _by_path(one: tuple[str, Touch]) -> tuple[str, int]:
    return one[0], one[1].number


def _below(log: Log, touches: list[Touch], commit: str) -> list[Touch]:
    """Those that a commit came from; all of them without one."""
    if not commit:
        return touches
    at = log.number(commit)
    return [touch for touch in touches if log.is_older(touch.number, at)]
