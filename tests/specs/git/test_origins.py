"""Origins: a document is by whoever last changed its value, and an absence by whoever made it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from reconciler.model.ref import Ref
from reconciler.model.spec.desired import AuthorDoubt, Origin
from reconciler.model.spec.document import NoCache
from reconciler.specs.git import blobs
from reconciler.specs.git.origins import origins
from tests.specs.small_fleet import Fleet

HELLO = Ref("user", "", "hello")
OTHER = Ref("user", "", "other")
FILE = "specs/hello.yaml"


def text(name: str, mail: str = "a") -> str:
    head = f"apiVersion: gpuaas/v1\nkind: User\nmetadata: {{name: {name}}}\n"
    return head + f"spec: {{emails: [{mail}@corp.example]}}\n"


class Story:
    """A fleet in a repository, told commit by commit; each author commits what lies there."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.git("init", "-q", "-b", "main")
        self.git("config", "user.name", "nobody")
        self.git("config", "user.email", "nobody@x")
        self.by("first")

    def git(self, *words: str, folder: Path | None = None) -> str:
        return subprocess.check_output(
            ["git", "-C", str(folder or self.fleet.folder), *words],
            text=True,
            env={**os.environ, "GIT_EDITOR": "true"},
            stderr=subprocess.DEVNULL,
        ).strip()

    def write(self, content: str, file: str = FILE) -> Story:
        path = self.fleet.folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        return self

    def remove(self, file: str = FILE) -> Story:
        (self.fleet.folder / file).unlink()
        return self

    def by(self, author: str) -> str:
        self.git("add", "-A")
        self.git(
            "-c",
            f"user.name={author}",
            "-c",
            f"user.email={author}@x",
            "commit",
            "--allow-empty",
            "-qm",
            "x",
        )
        return self.git("rev-parse", "HEAD")

    def merge(self, branch: str, author: str, *words: str) -> None:
        who = ("-c", f"user.name={author}", "-c", f"user.email={author}@x")
        subprocess.run(
            ["git", "-C", self.fleet.folder, *who, "merge", "-q", "--no-edit", *words, branch],
            check=False,
            capture_output=True,
        )

    def of(self, ref: Ref = HELLO, file: str = FILE, gone: Iterable[Ref] = ()) -> Origin:
        return origins(self.fleet.settings, {ref: file}, tuple(gone), NoCache())[ref]

    def author(self, ref: Ref = HELLO, file: str = FILE) -> str:
        return self.of(ref, file).author

    def remover(self, ref: Ref = HELLO, file: str = FILE) -> str:
        return self.of(ref, file, {ref}).author


@pytest.fixture
def story(fleet: Fleet) -> Story:
    return Story(fleet)


def test_a_comment_and_a_layout_are_nobodys_word(story: Story) -> None:
    """F-REAL-17: neither makes a document theirs."""
    made = story.write(text("hello")).by("op")
    story.write("# fine\n" + text("hello")).by("member")
    story.write("---\nspec:\n    emails: ['a@corp.example']\n" + HEAD).by("formatter")
    assert story.of() == Origin(commit=made, author="op", email="op@x")


HEAD = "kind: User\nmetadata: {name: hello}\napiVersion: gpuaas/v1\n"


def test_a_file_with_an_odd_name_moves_no_answer(story: Story) -> None:
    """F-REAL-17: git is asked for many files at once, each on a line of its own."""
    made = story.write(text("hello")).write(text("other"), "specs/z.yaml").by("op")
    story.write("---\n" + text("hello")).write("", "specs/a\nb.yaml")
    story.write("---\n" + text("other"), "specs/z.yaml")
    assert story.of().commit == story.of(OTHER, "specs/z.yaml").commit == made


def test_a_removal_before_it_was_made_anew_is_none_of_it(story: Story) -> None:
    """F-REAL-01: on an older branch the commit is found that once took away its namesake."""
    story.write(text("hello")).by("op")
    old = story.remove().by("op")
    made = story.write(text("hello", "b")).by("op")
    story.git("checkout", "-q", old)
    assert story.remover() == "op"
    found = origins(story.fleet.settings, {HELLO: FILE}, {HELLO: (made, "")}, NoCache())[HELLO]
    assert found == Origin()
    story.git("checkout", "-q", "main")
    gone = story.remove().by("member")
    found = origins(story.fleet.settings, {HELLO: FILE}, {HELLO: (made, "")}, NoCache())[HELLO]
    assert (found.commit, found.author) == (gone, "member")


@pytest.mark.parametrize(("applied", "is_gone"), [("2000-01-01", True), ("2999-01-01", False)])
def test_what_was_applied_without_a_commit_is_not_gone_by_an_earlier_one(
    story: Story, applied: str, is_gone: bool
) -> None:
    """F-REAL-01: it was written anew, its file was lost, and a commit had once removed another."""
    story.write(text("hello")).by("op")
    gone = story.remove().by("op")
    when = ("", f"{applied}T00:00:00Z")
    found = origins(story.fleet.settings, {HELLO: FILE}, {HELLO: when}, NoCache())[HELLO]
    assert found.commit == (gone if is_gone else "")


def test_another_value_is(story: Story) -> None:
    """F-REAL-17"""
    story.write(text("hello")).by("op")
    story.write(text("hello", "b")).by("member")
    assert story.author() == "member"


def test_each_document_of_a_file_has_its_own(story: Story) -> None:
    """F-REAL-17: whoever wrote the one beside it wrote no other."""
    story.write(text("hello")).by("op")
    story.write(text("hello") + "---\n" + text("other")).by("member")
    story.write(text("other", "b") + "---\n" + text("hello")).by("third")
    assert (story.author(), story.author(OTHER)) == ("op", "third")


def test_who_moves_it_has_not_written_it(story: Story) -> None:
    """F-REAL-17: by a rename of its file, into another file, and into one that is there."""
    story.write(text("hello")).by("op")
    story.git("mv", FILE, "specs/b.yaml")
    story.by("mover")
    assert story.author(file="specs/b.yaml") == "op"
    story.remove("specs/b.yaml").write(text("other") + "---\n" + text("hello"), "specs/c.yaml")
    story.by("joiner")
    assert story.author(file="specs/c.yaml") == "op"
    assert story.author(OTHER, "specs/c.yaml") == "joiner"
    story.write(text("other"), "specs/c.yaml").write(text("hello", "z"), "specs/d/e.yaml")
    story.by("changer")
    assert story.author(file="specs/d/e.yaml") == "changer"


def test_escapes_hide_no_author(story: Story) -> None:
    """F-REAL-17: a name that is spelled otherwise is the same name."""
    story.write(text('"h\\x65llo"')).by("member")
    story.write(text("hello")).by("op")
    assert story.author() == "member"
    story.git("mv", FILE, "specs/b.yaml")
    story.by("mover")
    assert story.author(file="specs/b.yaml") == "member"


def test_a_revert_is_by_who_reverts(story: Story) -> None:
    """F-REAL-17: what was taken away and comes back has a new author."""
    story.write(text("hello")).by("op")
    gone = story.remove().by("op")
    assert story.of(gone={HELLO}).commit == gone
    story.git("-c", "user.name=member", "-c", "user.email=m@x", "revert", "--no-edit", "HEAD")
    assert story.author() == "member"


def test_sides_of_a_merge(story: Story) -> None:
    """F-REAL-17: each document of a merged file is by who wrote it on its side."""
    story.write(text("hello") + "---\n" + "# \n" * 9 + text("other")).by("op")
    story.git("checkout", "-q", "-b", "side")
    story.write(text("hello") + "---\n" + "# \n" * 9 + text("other", "b")).by("member")
    story.git("checkout", "-q", "main")
    story.write(text("hello", "c") + "---\n" + "# \n" * 9 + text("other")).by("owner")
    story.merge("side", "merger")
    assert story.git("rev-list", "--count", "--merges", "HEAD") == "1"
    assert (story.author(), story.author(OTHER)) == ("owner", "member")


def test_a_merge_that_brings_back_what_was_taken_away_is_its_author(story: Story) -> None:
    """F-REAL-17: whoever merges an old branch so is not covered by its old author."""
    story.write(text("hello")).by("op")
    story.git("branch", "old")
    story.remove().by("op")
    story.git("checkout", "-q", "old")
    story.write("# x\n", "specs/x.yaml").by("member")
    story.merge("main", "member", "--no-commit", "--no-ff")
    story.write(text("hello")).by("member")
    story.git("checkout", "-q", "main")
    story.merge("old", "member")
    assert story.author() == "member"


def test_an_ordinary_merge_keeps_the_author(story: Story) -> None:
    """F-REAL-17: of a branch that only one side has changed, however often it is merged."""
    story.write(text("hello")).by("op")
    story.git("checkout", "-q", "-b", "side")
    story.write(text("hello", "b")).by("member")
    story.git("checkout", "-q", "main")
    story.write("# x\n", "specs/x.yaml").by("owner")
    story.merge("side", "merger", "--no-ff")
    story.write("# y\n", "specs/x.yaml").by("owner")
    assert story.author() == "member"


def test_only_a_commit_that_removes_it_is_named(story: Story) -> None:
    """F-REAL-01: a reason never names a commit that does not take away what it is about."""
    story.write(text("hello") + "---\n" + text("other")).by("op")
    story.write(text("other")).by("remover")
    story.write(text("other", "b")).by("later")
    assert story.remover() == "remover"
    assert story.of(file="specs/never.yaml", gone={HELLO}) == Origin()
    story.remove()
    assert story.of(OTHER, gone={OTHER}) == Origin(), "not committed"


def test_what_moved_before_it_was_removed(story: Story) -> None:
    """F-REAL-01: the move took it away from its file, and is no removal."""
    story.write(text("hello")).by("op")
    story.git("mv", FILE, "specs/b.yaml")
    story.by("mover")
    story.remove("specs/b.yaml").by("remover")
    assert story.remover() == "remover"


def test_uncommitted_values_are_by_no_commit(story: Story) -> None:
    story.write(text("hello")).by("op")
    story.write(text("hello") + "# a comment alone\n")
    assert story.author() == "op"
    story.write(text("hello", "b"))
    assert story.of() == Origin()
    story.remove().write(text("hello"), "specs/b.yaml")
    assert story.author(file="specs/b.yaml") == "op", "moved, and not committed yet"


def test_a_shallow_clone_does_not_know(story: Story, tmp_path: Path) -> None:
    """F-REAL-17: and names nobody for what lies beyond its end."""
    story.write(text("hello")).by("op")
    story.write(text("other"), "specs/other.yaml").by("member")
    story.write("# x\n", "specs/x.yaml").by("last")
    clone = tmp_path / "clone"
    story.git("clone", "-q", "--depth=2", f"file://{story.fleet.folder}", str(clone))
    shallow = Fleet(clone)
    files = {HELLO: FILE, OTHER: "specs/other.yaml"}
    found = origins(shallow.settings, files, (), NoCache())
    assert {one.doubt for one in found.values()} == {AuthorDoubt.SHALLOW}
    story.git("fetch", "-q", "--unshallow", folder=clone)
    found = origins(shallow.settings, files, (), NoCache())
    assert [found[ref].author for ref in files] == ["op", "member"]


def test_git_that_does_not_answer_is_nobody(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    """F-REAL-17: unknown is not whoever asks."""
    monkeypatch.setenv("PATH", "/nonexistent")
    assert story.of().doubt is AuthorDoubt.SILENT


def test_specs_in_a_submodule(story: Story, tmp_path: Path) -> None:
    """F-REAL-17: its history is that of its own repository."""
    inner = tmp_path / "inner"
    inner.mkdir()
    story.git("init", "-q", "-b", "main", folder=inner)
    (inner / "hello.yaml").write_text(text("hello"))
    story.git("add", "-A", folder=inner)
    who = ("-c", "user.name=inner", "-c", "user.email=inner@x")
    story.git(*who, "commit", "-qm", "x", folder=inner)
    allow = ("-c", "protocol.file.allow=always")
    story.git(*allow, "submodule", "add", "-q", str(inner), "specs/team")
    story.by("outer")
    assert story.author(file="specs/team/hello.yaml") == "inner"


def test_what_is_larger_than_any_spec_is_never_asked_for(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says nothing that anybody knows, so whoever commits a spec in its place may not be its
    author.
    """
    story.write(text("hello")).by("ana")
    story.write(text("hello") + "#" * 4000).by("bo")
    assert story.author() == "ana"
    monkeypatch.setattr(blobs, "SIZE_LIMIT", 3000)
    story.write(text("hello") + "# small\n").by("cem")
    assert story.of().doubt is AuthorDoubt.UNCLEAR


RULES = """operators: [ana]
ownership:
  - {path: 'theirs/*', kinds: [Allocation]}
  - {path: 'mine/*', kinds: [User]}
  - {path: '*'}
"""
COPY = "specs/theirs/copy.yaml"


def test_a_copy_out_of_place_keeps_nothing(story: Story) -> None:
    """Not even beside something that has gone from there as well."""
    (story.fleet.folder / "gpuaas.yaml").write_text(RULES)
    story.write(text("hello")).write(text("other"), COPY).by("op")
    story.write(text("hello"), COPY).by("cem")
    story.remove().by("remover")
    files = {HELLO: FILE, OTHER: COPY}
    found = origins(story.fleet.settings, files, (HELLO, OTHER), NoCache())
    assert [found[ref].author for ref in files] == ["remover", "cem"]
    story.write("# out of the way\n", COPY)
    assert story.remover() == "remover", "nor what somebody took out of there without a commit"


@pytest.mark.parametrize("copied", [text("hello"), text("hello", "b"), text("hello") + "x: 1\n"])
def test_a_copy_that_the_folder_has_as_well_keeps_nothing(story: Story, copied: str) -> None:
    """Whoever calls a document gone has seen that copy, and why it counts for nothing."""
    story.write(text("hello")).write(text("other"), COPY).by("op")
    story.write(copied, COPY).by("cem")
    story.remove().by("remover")
    found = origins(story.fleet.settings, {HELLO: FILE, OTHER: COPY}, (HELLO, OTHER), NoCache())
    assert found[HELLO].author == "remover"
    story.write(copied + "# more\n", COPY)
    assert story.remover() == "remover"
    story.write("# somebody took it out of there\n", COPY)
    assert story.of(gone={HELLO}) == Origin(), "and has not said so in a commit"


def test_line_ends_that_git_calls_modified_keep_nothing(story: Story) -> None:
    """Whoever commits such a file could otherwise hold every removal of what it names."""
    story.write(text("hello")).write(text("hello").replace("\n", "\r\n"), COPY).by("op")
    story.write("*.yaml text eol=lf\n", "specs/theirs/.gitattributes")
    story.git("add", "specs/theirs/.gitattributes")
    story.git("rm", "-q", FILE)
    story.git("-c", "user.name=remover", "commit", "-qm", "x")
    os.utime(story.fleet.folder / COPY)
    assert "copy.yaml" in story.git("status", "--short")
    assert story.remover() == "remover"


def test_what_went_where_it_counts_for_nothing_is_gone(story: Story) -> None:
    """By the commit that moved it, whether no rule lets it stand there or it has errors there."""
    story.write(text("hello")).by("op")
    moved = story.remove().write(text("hello") + "x: 1\n", COPY).by("mover")
    assert story.of(gone={HELLO}).commit == moved
    (story.fleet.folder / "gpuaas.yaml").write_text(RULES)
    assert story.of(gone={HELLO}).commit == moved
    story.git("mv", COPY, "specs/theirs/other.yaml")
    story.by("later")
    assert story.of(gone={HELLO}).commit == moved
