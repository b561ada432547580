"""Whatever is remembered, and in whatever order files are met, the answer is the same."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pytest

from reconciler.model.codec import encode
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired, Origin
from reconciler.model.spec.document import FileStamp
from reconciler.specs.git import origins
from reconciler.specs.read import loader
from tests.specs.git.test_origins import Story, text
from tests.specs.small_fleet import PEOPLE, PROJECT, Fleet, allocation

RULES = """operators: [ana]
ownership:
  - {path: 'theirs/**', kinds: [Allocation]}
  - {path: 'vision', projects: [vision]}
  - {path: '*'}
"""
NAMES = ("hello", "other", "third")
FILES = ("a.yaml", "b.yaml", "deep/c.yaml", "h.yaml")


@dataclass
class Memory:
    """A cache that forgets nothing."""

    rows: dict[tuple[str, str], str] = field(default_factory=dict)
    files: dict[str, tuple[FileStamp, str]] = field(default_factory=dict)

    def get_many(self, space: str, keys: Iterable[str]) -> Mapping[str, str]:
        return {key: self.rows[space, key] for key in keys if (space, key) in self.rows}

    def put_many(self, space: str, rows: Mapping[str, str]) -> None:
        self.rows.update({(space, key): row for key, row in rows.items()})

    def stamps(self) -> Mapping[str, tuple[FileStamp, str]]:
        return self.files

    def put_stamps(
        self, rows: Mapping[str, tuple[FileStamp, str]], gone: Iterable[str] = ()
    ) -> None:
        self.files = {**self.files, **rows}
        for name in gone:
            self.files.pop(name, None)


def spoilt(fleet: Fleet) -> None:
    """Everything of which there may be more than one: duplicates, readings, what is astray."""
    fleet.write("theirs/a.yaml", PEOPLE.replace("[ana@corp.example]", "[]") + "---\n" + PROJECT)
    fleet.write("theirs/z.yaml", PEOPLE + "---\n" + allocation("train") + "  colour: red\n")
    fleet.write("again.yaml", PEOPLE + "---\n" + allocation("train") + "---\n" + PROJECT)
    fleet.write("vision/m.yaml", allocation("train") + "---\n" + allocation("other"))
    fleet.write("vision/x.yaml", allocation("x").replace("ana", "anna"))
    fleet.write("b.yaml", PEOPLE.replace("spec: {", "spec: {state: suspended, ", 1) + "\t- [\n")


def sight(desired: Desired) -> object:
    """All that a plan is made from, and in the order in which it is told."""
    return {
        "digest": desired.digest,
        "problems": desired.problems,
        "frozen": sorted(desired.frozen),
        "broken": sorted(desired.broken),
        "resources": [(ref, one.file, one.digest) for ref, one in desired.resources.items()],
        "readings": [(ref, encode(said)) for ref, said in sorted(desired.readings.items())],
        "misplaced": sorted((ref, sorted(files)) for ref, files in desired.misplaced.items()),
    }


@pytest.mark.parametrize("rules", ["operators: [ana]\n", RULES])
def test_a_second_look_and_another_order_see_the_same(
    fleet: Fleet, rules: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the first saved plan after a commit is never the plan of what is there."""
    (fleet.folder / "gpuaas.yaml").write_text(rules)
    spoilt(fleet)
    monkeypatch.setattr(loader, "is_settled", lambda stamp: True)
    cold = sight(fleet.load())
    memory = Memory()
    looks = [sight(fleet.load(memory)) for _ in range(3)]
    listed = os.scandir
    for seed in range(6):
        dice = random.Random(seed)

        def shuffled(path: str, dice: random.Random = dice) -> object:
            entries = list(listed(path))
            dice.shuffle(entries)
            return Closing(entries)

        monkeypatch.setattr(os, "scandir", shuffled)
        half = Memory(dict(dice.sample(sorted(memory.rows.items()), len(memory.rows) // 2)))
        looks += [sight(fleet.load()), sight(fleet.load(half)), sight(fleet.load(half))]
    assert all(look == cold for look in looks)


class Closing(list[os.DirEntry[str]]):
    """What a walk of a folder finds, in another order."""

    def close(self) -> None:
        """There is nothing to close."""


def test_the_same_author_cold_and_warm(story: Story) -> None:
    """A name that an unreadable text does not hold is not in it, however often it was read."""
    story.write(text("hello")).by("cem")
    story.write("# about other\n\t- [\n", "specs/h.yaml").by("cem")
    story.remove().write(text("hello") + "---\n" + text("other"), "specs/h.yaml").by("olga")
    memory = Memory()
    looks = [authors(story, memory) for _ in range(3)]
    assert looks == [authors(story, Memory())] * 3
    assert looks[0][Ref("user", "", "hello"), "h.yaml", False].author == "cem"


SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 10))]


@pytest.mark.parametrize("seed", SEEDS)
def test_any_history_has_one_answer(story: Story, seed: int) -> None:
    """With moves, copies, escapes, texts that nobody can read, pointers and merges."""
    dice, memory = random.Random(seed), Memory()
    for number in range(8):
        if dice.random() < 0.25:
            story.git("checkout", "-q", "-B", f"side{number}", "HEAD~1" if number else "HEAD")
            anything(story, dice)
            story.by(dice.choice("xyz"))
            story.git("checkout", "-q", "main")
            anything(story, dice)
            story.by(dice.choice("xyz"))
            story.merge(f"side{number}", "merger", "-X", dice.choice(("ours", "theirs")))
            story.git("reset", "-q", "--hard")
        else:
            anything(story, dice)
            story.by(dice.choice("xyz"))
        cold = authors(story, Memory())
        assert authors(story, memory) == cold
        assert authors(story, memory) == cold


def anything(story: Story, dice: random.Random) -> None:
    for file in dice.sample(FILES, dice.randint(1, 2)):
        documents = [text(name, dice.choice("ab")) for name in dice.sample(NAMES, 2)]
        endings = ("", "# fine\n", "\t- [\n", '# "\\x65"\n\t- [\n', "# third\n\t- [\n")
        content = "---\n".join(documents[: dice.randint(0, 2)]) + dice.choice(endings)
        if dice.random() < 0.1:
            content = "version https://git-lfs.github.com/spec/v1\n"
        story.write(
            content.replace("hello", dice.choice(("hello", '"h\\x65llo"'))), f"specs/{file}"
        )


def authors(story: Story, memory: Memory) -> Mapping[tuple[Ref, str, bool], Origin]:
    refs = [Ref("user", "", name) for name in NAMES]
    found: dict[tuple[Ref, str, bool], Origin] = {}
    for file in FILES:
        asked = dict.fromkeys(refs, f"specs/{file}")
        for gone in ((), tuple(refs)):
            told = origins.origins(story.fleet.settings, asked, gone, memory)
            found |= {(ref, file, bool(gone)): one for ref, one in told.items()}
    return found


@pytest.fixture
def story(fleet: Fleet) -> Story:
    return Story(fleet)
