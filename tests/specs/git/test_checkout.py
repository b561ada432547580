"""Checkout: a file that says what its commit does not is by nobody, unless somebody edited it."""

from __future__ import annotations

import pytest

from reconciler.model.spec.desired import AuthorDoubt, Origin
from tests.specs.git.test_origins import FILE, HELLO, OTHER, Story, text
from tests.specs.small_fleet import Fleet


@pytest.fixture
def story(fleet: Fleet) -> Story:
    return Story(fleet)


def attribute(story: Story, words: str) -> None:
    story.write(f"*.yaml {words}\n", "specs/.gitattributes").by("cem")


def check_out(story: Story) -> str:
    """The file as a new clone would have it; what git then says of it."""
    story.remove()
    story.git("checkout", "-q", "--", "specs")
    return story.git("status", "--short")


@pytest.mark.parametrize("commits", [1, 2])
def test_an_encoding_makes_nobody_the_author(story: Story, commits: int) -> None:
    """Git says that nothing was edited, and no commit says what the file says."""
    attribute(story, "text working-tree-encoding=IBM037")
    for number in range(commits):
        story.write(text("hello") + f"# {number}\n").by("cem")
    assert not check_out(story)
    assert story.of() == Origin(doubt=AuthorDoubt.UNCLEAR)


def test_what_git_itself_makes_another_is_nobodys_edit(story: Story) -> None:
    """Of an expanded `$Id$` git says that it was modified, in every new clone."""
    hello = text("hello").replace("a@corp", '"$Id: x $"').replace(".example", "")
    story.write(hello.replace("spec: {emails: [", "spec: {displayName: ").replace("]}", "}"))
    story.by("cem")
    attribute(story, "ident")
    check_out(story)
    assert "$Id: x $" not in (story.fleet.folder / FILE).read_text()
    assert story.of() == Origin(doubt=AuthorDoubt.UNCLEAR)
    story.write(text("hello", "mine"))
    assert story.of() == Origin(), "edited, and by who asks"


@pytest.mark.parametrize("word", ["--assume-unchanged", "--skip-worktree"])
def test_an_edit_that_git_does_not_look_at_is_not_its_commits(story: Story, word: str) -> None:
    story.write(text("hello")).by("op")
    story.git("update-index", word, FILE)
    story.write("# fine\n" + text("hello"))
    assert story.author() == "op"
    story.write(text("hello", "b"))
    assert story.of() == Origin(doubt=AuthorDoubt.UNCLEAR)


def test_line_ends_of_another_system_change_no_author(story: Story) -> None:
    story.write(text("hello")).by("op")
    attribute(story, "text eol=crlf")
    check_out(story)
    assert b"\r\n" in (story.fleet.folder / FILE).read_bytes()
    assert story.author() == "op"


def test_what_is_not_there_silences_git_for_nobody_else(story: Story) -> None:
    story.write(text("hello")).write(text("other"), "specs/other.yaml").by("op")
    story.remove().by("op")
    assert story.of().doubt is AuthorDoubt.UNCLEAR
    assert story.author(OTHER, "specs/other.yaml") == "op"
    assert story.of(HELLO, gone={HELLO}).author == "op"
