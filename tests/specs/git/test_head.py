"""HEAD: what a commit has and the folder has not is hidden or deleted, and never removed."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Absence, Desired
from tests.specs.git.test_origins import FILE, HELLO, OTHER, Story, text
from tests.specs.small_fleet import Fleet

SPARSE, UNCHANGED = "a sparse checkout, or skip-worktree", "assume-unchanged"


@pytest.fixture
def story(fleet: Fleet) -> Story:
    told = Story(fleet)
    told.write(text("hello") + "---\n" + text("other")).by("op")
    return told


def codes(found: Desired) -> set[str]:
    """Those that are about git and its files."""
    return {problem.code for problem in found.problems} & CODES


CODES = {"specs_hidden", "submodule_missing", "lfs_pointer", "git_under_way", "no_commit"}


def test_nothing_is_absent_from_a_whole_folder(story: Story) -> None:
    found = story.fleet.load()
    assert (found.knows, found.blind, dict(found.absent)) == (True, "", {})
    assert not codes(found)


@pytest.mark.parametrize("way", ["sparse", "cone", "skip", "assume"])
def test_what_git_hides_is_frozen_and_said(story: Story, way: str) -> None:
    """F-REAL-01: git says `clean` of all of these."""
    story.write(text("bo2"), "specs/deep/er.yaml").by("op")
    if way == "sparse":
        story.git("sparse-checkout", "set", "--no-cone", "/*", "!/specs/hello.yaml")
    elif way == "cone":
        story.git("sparse-checkout", "set", "--cone", "--sparse-index", "specs/vision")
    elif way == "skip":
        story.git("update-index", "--skip-worktree", FILE)
        story.remove()
    else:
        story.git("update-index", "--assume-unchanged", FILE)
        story.remove()
    found = story.fleet.load()
    assert "specs_hidden" in codes(found)
    hidden = Ref("user", "", "bo2") if way == "cone" else HELLO
    why = UNCHANGED if way == "assume" else SPARSE
    assert found.absent[hidden].hidden == why
    assert hidden in found.frozen


def test_an_edit_that_git_does_not_look_at(story: Story) -> None:
    """F-REAL-01: a document taken out of a file of which git was told to take no notice."""
    story.git("update-index", "--assume-unchanged", FILE)
    story.write(text("other"))
    found = story.fleet.load()
    assert found.absent == {HELLO: Absence(file=FILE)}


@pytest.mark.parametrize("way", ["deleted", "staged", "renamed", "outside", "dotted", "edited"])
def test_what_is_not_committed_is_no_removal(story: Story, way: str) -> None:
    """F-REAL-01: whoever deletes a file has not said so yet; the same goes for other ways."""
    path = story.fleet.folder / FILE
    if way == "deleted":
        path.unlink()
    elif way == "staged":
        story.git("rm", "-q", FILE)
    elif way == "renamed":
        path.rename(path.with_suffix(".yaml.bak"))
    elif way == "outside":
        path.rename(story.fleet.folder / "hello.yaml")
    elif way == "dotted":
        path.rename(path.with_name(".hello.yaml"))
    else:
        path.write_text("# nothing any more\n" + text("somebody"))
    found = story.fleet.load()
    assert found.absent == {HELLO: Absence(file=FILE), OTHER: Absence(file=FILE)}
    assert HELLO not in found.frozen


def test_what_moved_is_not_absent(story: Story) -> None:
    """Wherever in the specs it stands now."""
    story.remove().write(text("hello"), "specs/a.yaml").write(text("other"), "specs/b/c.yaml")
    assert not story.fleet.load().absent


def test_a_commit_is_a_removal(story: Story) -> None:
    story.remove().by("op")
    assert not story.fleet.load().absent


def test_a_submodule_that_is_not_there_freezes_what_it_may_hold(
    story: Story, tmp_path: Path
) -> None:
    """F-REAL-01: deinitialised, emptied by hand, and there again."""
    inner = tmp_path / "inner"
    inner.mkdir()
    story.git("init", "-q", "-b", "main", folder=inner)
    (inner / "team.yaml").write_text(text("teamster"))
    story.git("add", "-A", folder=inner)
    story.git("-c", "user.name=i", "-c", "user.email=i@x", "commit", "-qm", "x", folder=inner)
    allow = ("-c", "protocol.file.allow=always")
    story.git(*allow, "submodule", "add", "-q", str(inner), "specs/team")
    story.by("op")
    assert not codes(story.fleet.load())
    (story.fleet.folder / "specs/team/team.yaml").unlink()
    assert story.fleet.load().absent == {
        Ref("user", "", "teamster"): Absence(file="specs/team/team.yaml")
    }
    story.git("submodule", "deinit", "-q", "-f", "specs/team")
    found = story.fleet.load()
    assert codes(found) == {"submodule_missing"}
    assert found.is_broken("specs/team/team.yaml")


def _with_submodule(story: Story, tmp_path: Path) -> Path:
    """A team of two documents in one file; the folder of the submodule."""
    inner = tmp_path / "inner"
    inner.mkdir()
    story.git("init", "-q", "-b", "main", folder=inner)
    (inner / "team.yaml").write_text(text("teamster") + "---\n" + text("foreman"))
    _commit(story, inner)
    allow = ("-c", "protocol.file.allow=always")
    story.git(*allow, "submodule", "add", "-q", str(inner), "specs/team")
    story.by("op")
    return story.fleet.folder / "specs/team"


def _commit(story: Story, folder: Path) -> None:
    story.git("add", "-A", folder=folder)
    story.git("-c", "user.name=i", "-c", "user.email=i@x", "commit", "-qm", "x", folder=folder)


def test_a_submodule_counts_as_the_commit_has_it(story: Story, tmp_path: Path) -> None:
    """F-REAL-01: whoever moved it to another commit, or to none, has not said so in the fleet's."""
    team = _with_submodule(story, tmp_path)
    gone = {Ref("user", "", "foreman"): Absence(file="specs/team/team.yaml")}
    (team / "team.yaml").write_text(text("teamster"))
    assert story.fleet.load().absent == gone
    _commit(story, team)
    assert story.fleet.load().absent == gone
    story.git("checkout", "-q", "--orphan", "none", folder=team)
    assert story.fleet.load().absent == gone
    story.git("checkout", "-q", "-f", "main", folder=team)
    story.by("op")
    assert not story.fleet.load().absent


def test_a_submodule_is_looked_at_whatever_it_is_told(story: Story, tmp_path: Path) -> None:
    """F-REAL-01: `ignore` hides its changes from `git status`, and not from us."""
    team = _with_submodule(story, tmp_path)
    story.git("config", "submodule.specs/team.ignore", "all")
    assert not story.fleet.load().revision.dirty
    (team / "team.yaml").write_text(text("teamster", "b"))
    assert story.fleet.load().revision.dirty


def test_a_pointer_is_not_the_file(story: Story) -> None:
    """F-REAL-01: of git-lfs, checked out without it."""
    story.write("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12\n")
    found = story.fleet.load()
    assert codes(found) == {"lfs_pointer"}
    assert found.is_broken(FILE)


def test_a_link_to_the_specs_leads_to_their_own_repository(story: Story) -> None:
    """F-REAL-01: absence is decided where the files lie."""
    story.git("mv", "specs", "real")
    (story.fleet.folder / "specs").symlink_to("real")
    story.by("op")
    assert not story.fleet.load().absent
    (story.fleet.folder / "real/hello.yaml").unlink()
    assert set(story.fleet.load().absent) == {HELLO, OTHER}


def test_a_linked_work_tree_has_its_own_head(story: Story, tmp_path: Path) -> None:
    """F-REAL-01"""
    linked = Fleet(tmp_path / "linked")
    story.git("worktree", "add", "-q", str(linked.folder))
    assert not linked.load().absent
    (linked.folder / FILE).unlink()
    assert set(linked.load().absent) == {HELLO, OTHER}
    assert not story.fleet.load().absent


def test_git_that_does_not_answer_leaves_all_unknown(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-REAL-01: unknown is not absent."""
    story.remove()
    monkeypatch.setenv("PATH", "/nonexistent")
    found = story.fleet.load()
    assert found.blind and not found.knows


def test_what_git_is_at_work_on_is_said(story: Story) -> None:
    """F-REAL-01"""
    (story.fleet.folder / ".git/index.lock").touch()
    (problem,) = (p for p in story.fleet.load().problems if p.code in CODES)
    assert (problem.code, problem.is_error) == ("git_under_way", False)
