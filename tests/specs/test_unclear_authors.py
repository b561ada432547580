"""Where it is not clear who gave a value last, it is nobody's: neither who tidied up after them,
nor who once wrote it and has taken it away since.
"""

from __future__ import annotations

import os

import pytest

from reconciler.model.spec.desired import AuthorDoubt
from tests.specs.git.test_origins import FILE, HELLO, OTHER, RULES, Story, text
from tests.specs.small_fleet import Fleet

OTHER_FILE = "specs/b.yaml"
UNREADABLE = "\t- [\n"
TWICE = text("hello") + "---\n" + text("hello")


@pytest.fixture
def story(fleet: Fleet) -> Story:
    return Story(fleet)


def test_who_moves_it_there_and_back_has_not_written_it(story: Story) -> None:
    story.write(text("hello")).by("cem")
    for source, target in ((FILE, OTHER_FILE), (OTHER_FILE, FILE)) * 2:
        story.git("mv", source, target)
        story.by("mover")
        assert story.author(file=target) == "cem"


@pytest.mark.parametrize("before", [text("hello") + UNREADABLE, "# hello\n" + UNREADABLE, TWICE])
def test_who_mends_a_text_has_not_written_all_that_it_says(story: Story, before: str) -> None:
    story.write(before).by("cem")
    story.write(text("hello")).by("op")
    assert story.of().doubt is AuthorDoubt.UNCLEAR
    story.write("# fine\n" + text("hello")).by("op")
    assert story.of().doubt is AuthorDoubt.UNCLEAR
    story.git("mv", FILE, OTHER_FILE)
    story.by("op")
    assert story.of(file=OTHER_FILE).doubt is AuthorDoubt.UNCLEAR


@pytest.mark.parametrize("before", [text("hello") + UNREADABLE, TWICE])
def test_who_moves_and_mends_a_text_in_one_commit_has_not(story: Story, before: str) -> None:
    story.write(before).by("cem")
    story.remove().write(text("hello"), OTHER_FILE).by("op")
    assert story.of(file=OTHER_FILE).doubt is AuthorDoubt.UNCLEAR


def test_who_breaks_and_mends_it_has_not(story: Story) -> None:
    """Nor is it by who wrote it before: it was taken away, and came back."""
    story.write(text("hello")).by("cem")
    story.write(text("hello") + UNREADABLE).by("op")
    story.write(text("hello")).by("op")
    assert story.of().doubt is AuthorDoubt.UNCLEAR


def test_what_is_written_anew_after_that_is_by_who_writes_it(story: Story) -> None:
    """As the hint of the problem says."""
    story.write(text("hello") + UNREADABLE).by("cem")
    story.write(text("hello")).by("op")
    story.remove().by("op")
    story.write(text("hello"), OTHER_FILE).by("op")
    assert story.author(file=OTHER_FILE) == "op"


def test_another_value_than_any_of_several_is_by_who_writes_it(story: Story) -> None:
    story.write(TWICE).by("cem")
    story.write(text("hello", "b")).by("op")
    assert story.author() == "op"


def test_a_text_that_does_not_hold_the_name_says_nothing_of_it(story: Story) -> None:
    story.write(text("other") + UNREADABLE).by("cem")
    story.write(text("other") + "---\n" + text("hello")).by("op")
    assert story.author() == "op"
    assert story.of(OTHER).doubt is AuthorDoubt.UNCLEAR


@pytest.mark.parametrize(
    "aside",
    ["specs/hello.yaml.disabled", "specs/.attic/hello.yaml", "specs/off.yaml/hello.yaml", "x.yaml"],
)
def test_what_was_put_where_nothing_is_read_is_by_who_brings_it_back(
    story: Story, aside: str
) -> None:
    story.write(text("hello")).by("op")
    (story.fleet.folder / aside).parent.mkdir(exist_ok=True)
    story.git("mv", FILE, aside)
    gone = story.by("op")
    assert story.of(gone={HELLO}).commit == gone
    story.git("mv", aside, FILE)
    story.by("cem")
    assert story.author() == "cem"


def test_what_a_link_shows_is_by_nobody(story: Story) -> None:
    """Neither by who wrote it, and put it aside since, nor surely by who made the link."""
    story.write(text("hello")).by("op")
    story.git("mv", FILE, f"{FILE}.disabled")
    story.by("op")
    story.write("# x\n", "specs/theirs/x.yaml").remove("specs/theirs/x.yaml")
    os.symlink("../hello.yaml.disabled", story.fleet.folder / "specs/theirs/x.yaml")
    story.by("cem")
    assert story.of(file="specs/theirs/x.yaml").doubt is AuthorDoubt.UNCLEAR


def test_what_comes_from_where_it_might_not_stand_is_by_nobody(story: Story) -> None:
    """It was no document there, and whoever moves it may not have looked at what it says."""
    (story.fleet.folder / "gpuaas.yaml").write_text(RULES)
    story.write(text("hello"), "specs/theirs/x.yaml").by("cem")
    story.git("mv", "specs/theirs/x.yaml", FILE)
    story.by("op")
    assert story.of().doubt is AuthorDoubt.UNCLEAR


def test_a_merge_of_what_one_side_broke_is_never_its_earlier_authors(story: Story) -> None:
    story.write(text("hello")).by("op")
    story.git("checkout", "-q", "-b", "side")
    story.write("# x\n", "specs/x.yaml").by("cem")
    story.git("checkout", "-q", "main")
    story.write(text("hello") + UNREADABLE).by("op")
    story.git("checkout", "-q", "side")
    story.merge("main", "cem", "-s", "ours")
    assert story.author() == "cem"
