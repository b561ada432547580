"""The loop follows exactly one commit, whatever people do in their folders (F-REC-09, 15 – 17)."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.model.formats import why_no_repository, why_no_revision
from reconciler.model.problem import ProblemError
from reconciler.model.settings import LoopSettings, SourceSettings
from reconciler.operations.fleet import Fleet
from reconciler.operations.reconcile.source.accept import accept_history
from reconciler.operations.reconcile.source.source import Sourced, follow
from reconciler.operations.reconcile.source.tree import mirror_of
from tests.harness.yard import Yard, copy_of
from tests.planner import fleet as paper

DESK = paper.allocation("desk", node="gpu02", expiresAt=paper.LASTING)


def git(folder: Path, *words: str) -> str:
    who = {f"GIT_{r}_{k}": v for r in ("AUTHOR", "COMMITTER") for k, v in WHO.items()}
    said = subprocess.run(
        ["git", "-C", folder, *words],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, **who},
    )
    return said.stdout.strip()


WHO = {"NAME": "olga", "EMAIL": "olga@corp.example"}


def from_place(yard: Yard, **source: str) -> Fleet:
    fleet = yard.fleet()
    loop = LoopSettings(source=SourceSettings(**source))
    return replace(fleet, settings=replace(fleet.settings, loop=loop))


def tree(found: Sourced) -> Path:
    return Path(found.fleet.specs.folder)


@pytest.fixture
def bare(yard: Yard, tmp_path: Path) -> Path:
    place = tmp_path / "fleet.git"
    git(tmp_path, "init", "-q", "--bare", "-b", "main", str(place))
    git(yard.folder, "push", "-q", str(place), "HEAD:refs/heads/main")
    return place


def test_edits_that_no_commit_has_are_not_followed_and_are_told(yard: Yard) -> None:
    """F-REC-17: modified, untracked and staged files."""
    yard.write(DESK)
    (yard.specs / "user/ana.yaml").write_text("half of a file: [", encoding="utf-8")
    git(yard.folder, "add", "specs/user/ana.yaml")
    found = follow(yard.fleet())
    assert not (tree(found) / "specs/allocation/vision/desk.yaml").exists()
    assert "half of" not in (tree(found) / "specs/user/ana.yaml").read_text()
    assert [note.code for note in found.notes] == ["source_uncommitted"]
    assert found.commit == git(yard.folder, "rev-parse", "HEAD")


@pytest.mark.parametrize("what", ["index.lock", "sparse", "merge", "detached"])
def test_work_of_git_in_the_folder_changes_nothing(yard: Yard, what: str) -> None:
    """What is under way there, or out of sight there, is in the commit all the same."""
    head = git(yard.folder, "rev-parse", "HEAD")
    match what:
        case "index.lock":
            (yard.folder / ".git/index.lock").write_text("")
        case "sparse":
            git(yard.folder, "sparse-checkout", "set", "specs/user")
        case "merge":
            (yard.folder / ".git/MERGE_HEAD").write_text(f"{head}\n")
        case "detached":
            git(yard.folder, "checkout", "-q", "--detach")
    found = follow(yard.fleet())
    assert found.commit == head
    assert found.stale is None
    assert (tree(found) / "specs/allocation/vision/train.yaml").is_file()


@pytest.mark.parametrize("start", ["branch", "detached"])
def test_a_rebase_in_the_folder_is_followed_when_it_is_over(yard: Yard, start: str) -> None:
    """What is checked out meanwhile lacks what the commits bring that are still to come."""
    for document in (DESK, paper.user("eve", "laptop")):
        yard.write(document)
        yard.commit()
    if start == "detached":
        git(yard.folder, "checkout", "-q", "--detach")
    head = follow(yard.fleet()).commit
    git(yard.folder, "-c", "sequence.editor=sed -i 1s/pick/edit/", "rebase", "-qi", "HEAD~2")
    yard.write(paper.user("zoe", "laptop"))
    yard.commit()
    found = follow(yard.fleet())
    assert found.commit == head
    code = found.stale.code if found.stale else ""
    assert code == ("source_unreachable" if start == "detached" else "")
    git(yard.folder, "rebase", "--continue")
    found = follow(yard.fleet())
    assert found.stale is not None
    assert found.stale.code == "history_rewritten"


def test_a_bisect_in_the_folder_is_not_followed(yard: Yard) -> None:
    for document in (DESK, paper.user("eve", "laptop")):
        yard.write(document)
        yard.commit()
    head = follow(yard.fleet()).commit
    git(yard.folder, "bisect", "start", "HEAD", "HEAD~2")
    assert git(yard.folder, "rev-parse", "HEAD") != head
    found = follow(yard.fleet())
    assert (found.commit, found.stale) == (head, None)


def test_a_branch_of_a_bare_repository_is_followed(yard: Yard, bare: Path) -> None:
    fleet = from_place(yard, url=str(bare), branch="main")
    first = follow(fleet)
    yard.write(DESK)
    yard.commit()
    assert follow(fleet).commit == first.commit, "it is not pushed yet"
    git(yard.folder, "push", "-q", str(bare), "HEAD:refs/heads/main")
    found = follow(fleet)
    assert found.commit == git(yard.folder, "rev-parse", "HEAD") != first.commit
    assert (tree(found) / "specs/allocation/vision/desk.yaml").is_file()


def test_a_killed_checkout_is_done_anew(yard: Yard) -> None:
    """Files of two commits never lie beside each other where they are read."""
    first = follow(yard.fleet())
    yard.write(DESK)
    yard.commit()
    mirror = mirror_of(yard.fleet())
    (mirror.tree / "specs/user/ana.yaml").unlink()
    (mirror.tree / "left").write_text("left")
    lock = next((mirror.bare / "worktrees").iterdir()) / "index.lock"
    lock.write_text("")
    found = follow(yard.fleet())
    assert found.commit != first.commit
    assert (tree(found) / "specs/user/ana.yaml").is_file()
    assert not (tree(found) / "left").exists()


def test_a_copy_of_a_fleet_has_a_tree_of_its_own(yard: Yard, tmp_path: Path) -> None:
    """Else it reads, and writes, what the first loop has: git names a tree by its whole path."""
    first = copy_of(yard, tmp_path / "first")
    follow(first.fleet())
    second = copy_of(first, tmp_path / "second")
    second.write(DESK)
    second.commit()
    found = follow(second.fleet())
    assert (tree(found) / "specs/allocation/vision/desk.yaml").is_file()
    inner = Path(git(tree(found), "rev-parse", "--absolute-git-dir"))
    assert inner.is_relative_to(second.folder)
    before = mirror_of(first.fleet())
    assert git(before.tree, "rev-parse", "HEAD") == follow(first.fleet()).commit != found.commit


def test_a_fleet_that_was_moved_is_followed(yard: Yard, tmp_path: Path) -> None:
    """With a new commit, and without: by whom documents are is asked of git in that tree."""
    first = copy_of(yard, tmp_path / "first")
    follow(first.fleet())
    moved = Yard(first.folder.rename(tmp_path / "second"))
    head = git(moved.folder, "rev-parse", "HEAD")
    assert git(tree(follow(moved.fleet())), "rev-parse", "HEAD") == head
    moved.write(DESK)
    moved.commit()
    assert (tree(follow(moved.fleet())) / "specs/allocation/vision/desk.yaml").is_file()


def test_while_git_is_away_the_last_good_commit_stands(yard: Yard, bare: Path) -> None:
    fleet = from_place(yard, url=str(bare), branch="main")
    first = follow(fleet)
    elsewhere = bare.rename(bare.with_name("away"))
    found = follow(fleet)
    assert found.commit == first.commit
    assert found.stale is not None
    assert found.stale.code == "source_unreachable"
    elsewhere.rename(bare)
    assert follow(fleet).stale is None


def test_git_away_before_anything_was_followed_is_an_error(yard: Yard, tmp_path: Path) -> None:
    """F-REC-01, F-REC-15: never from nothing."""
    shutil.rmtree(yard.folder / "state/source", ignore_errors=True)
    with pytest.raises(ProblemError) as error:
        follow(from_place(yard, url=str(tmp_path / "nowhere"), branch="main"))
    assert error.value.problems[0].code == "source_unreachable"


def test_a_folder_without_a_repository_is_refused(yard: Yard) -> None:
    shutil.rmtree(yard.folder / ".git")
    with pytest.raises(ProblemError) as error:
        follow(yard.fleet())
    assert error.value.problems[0].code == "no_commit"


def test_a_rewritten_history_is_held_until_it_is_accepted(yard: Yard, bare: Path) -> None:
    """F-REC-16: a force push; the accident is one, and the honest case goes through by a word."""
    fleet = from_place(yard, url=str(bare), branch="main")
    first = follow(fleet)
    git(yard.folder, "commit", "-q", "--amend", "-m", "another")
    git(yard.folder, "push", "-qf", str(bare), "HEAD:refs/heads/main")
    head = git(yard.folder, "rev-parse", "HEAD")
    found = follow(fleet)
    assert found.commit == first.commit
    assert found.stale is not None
    assert found.stale.code == "history_rewritten"
    assert head[:7] in found.stale.message
    with pytest.raises(ProblemError):
        accept_history(fleet, first.commit[:12], "the wrong one")
    done = accept_history(fleet, head[:12], "ana squashed it")
    assert (done.former, done.commit) == (first.commit, head)
    found = follow(fleet)
    assert (found.commit, found.stale) == (head, None)
    told = yard.rows("SELECT reason FROM event WHERE type = 'history_accepted'")
    assert told == [("ana squashed it",)]


def test_a_first_commit_has_to_come_of_what_was_applied_last(yard: Yard, tmp_path: Path) -> None:
    """A copy that was lost has forgotten what was followed; the state has not."""
    other = tmp_path / "other"
    shutil.copytree(yard.folder / "specs", other / "specs")
    git(tmp_path, "init", "-q", "-b", "main", str(other))
    git(other, "add", ".")
    git(other, "commit", "-qm", "one")
    with pytest.raises(ProblemError) as error:
        follow(from_place(yard, url=str(other), branch="main"))
    assert error.value.problems[0].code == "history_rewritten"


def test_a_moved_tag_is_a_rewritten_history_too(yard: Yard, bare: Path) -> None:
    git(yard.folder, "tag", "live")
    git(yard.folder, "push", "-q", str(bare), "live")
    fleet = from_place(yard, url=str(bare), tag="live")
    first = follow(fleet)
    git(yard.folder, "checkout", "-q", "--orphan", "elsewhere")
    git(yard.folder, "commit", "-qm", "elsewhere")
    git(yard.folder, "tag", "-f", "live")
    git(yard.folder, "push", "-qf", str(bare), "live")
    found = follow(fleet)
    assert found.commit == first.commit
    assert found.stale is not None


def test_a_shallow_source_is_followed(yard: Yard, tmp_path: Path) -> None:
    yard.write(DESK)
    yard.commit()
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{yard.folder}", str(shallow))
    fleet = from_place(yard, url=str(shallow))
    mirror_of(fleet)
    with pytest.raises(ProblemError) as error:
        follow(fleet)
    assert error.value.problems[0].code == "history_rewritten", "what was applied is beyond its end"
    accept_history(fleet, git(yard.folder, "rev-parse", "HEAD"), "it is the same")
    assert follow(fleet).commit == git(yard.folder, "rev-parse", "HEAD")


def test_a_folder_inside_of_a_repository(yard: Yard, tmp_path: Path) -> None:
    """The fleet's folder need not be the top."""
    top = tmp_path / "top"
    top.mkdir()
    inner = top / "fleets/one"
    inner.parent.mkdir()
    shutil.rmtree(yard.folder / ".git")
    shutil.copytree(yard.folder, inner, symlinks=True, ignore=shutil.ignore_patterns("top"))
    git(top, "init", "-q")
    git(top, "add", "fleets/one/specs", "fleets/one/gpuaas.yaml")
    git(top, "commit", "-qm", "one")
    other = Yard(inner)
    git_head = git(top, "rev-parse", "HEAD")
    mirror = mirror_of(other.fleet())
    mirror.fetch(str(top), SourceSettings())
    mirror.follow(git_head, mirror.followed())
    found = follow(other.fleet())
    assert tree(found).name == "one"
    assert (tree(found) / "specs/user/ana.yaml").is_file()


@pytest.mark.parametrize(
    "url",
    [
        "ext::sh -c touch% /tmp/x",
        "--upload-pack=touch /tmp/x",
        "git://host/x",
        "http://host/x",
        "fd::17",
        "-oProxyCommand=x:y",
        "user@-host:x",
        "host:-x",
        "https://",
        "ssh://-oProxyCommand=x/y",
        "relative/folder",
        "",
    ],
)
def test_an_address_that_is_a_command_is_refused(url: str) -> None:
    """F-REC-09."""
    assert why_no_repository(url)


@pytest.mark.parametrize(
    "url",
    ["https://git.corp.example/fleet.git", "ssh://git@host:22/x", "git@host:team/x", "/srv/x.git"],
)
def test_addresses_as_people_write_them(url: str) -> None:
    assert why_no_repository(url) == ""


@pytest.mark.parametrize("name", ["--upload-pack=x", "-b", "a..b", "a b", "x.lock", "a//b", "@{1}"])
def test_a_branch_that_is_an_option_is_refused(name: str) -> None:
    assert why_no_revision(name)
    assert why_no_revision("feature/one-2.x") == ""


def test_no_hook_and_no_filter_of_the_repository_runs(
    yard: Yard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-REC-09: not by attributes either, whatever this user's own settings define."""
    mark = tmp_path / "ran"
    (yard.folder / ".gitattributes").write_text("*.yaml filter=evil\n")
    for hook in ("post-checkout", "reference-transaction"):
        path = yard.folder / ".git/hooks" / hook
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\ntouch {mark}\n")
        path.chmod(0o755)
    git(yard.folder, "-c", "core.hooksPath=/dev/null", "add", ".gitattributes")
    git(yard.folder, "-c", "core.hooksPath=/dev/null", "commit", "-qm", "evil")
    settings = with_filter(tmp_path, mark)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    follow(yard.fleet())
    assert not mark.exists()
    git(tmp_path, "clone", "-q", str(yard.folder), str(tmp_path / "clone"))
    assert mark.exists(), "it would have run elsewhere"


def with_filter(folder: Path, mark: Path) -> Path:
    """Settings of a user in which the filter `evil` is a program."""
    program = folder / "evil"
    program.write_text(f"#!/bin/sh\ntouch {mark}\ncat\n")
    program.chmod(0o755)
    settings = folder / "gitconfig"
    settings.write_text(f'[filter "evil"]\nsmudge = {program}\n')
    return settings


def test_attributes_of_a_commit_change_no_byte_of_its_files(yard: Yard) -> None:
    """What was signed is what is read: nobody has to sign the attributes at the top."""
    (yard.folder / ".gitattributes").write_text("*.yaml text eol=crlf ident\n")
    path = yard.specs / "user/ana.yaml"
    path.write_text(f"{path.read_text()}# $Id$\n")
    git(yard.folder, "add", ".gitattributes", "specs")
    git(yard.folder, "commit", "-qm", "x")
    words = ["git", "-C", yard.folder, "show", "HEAD:specs/user/ana.yaml"]
    committed = subprocess.run(words, check=True, capture_output=True).stdout
    assert (tree(follow(yard.fleet())) / "specs/user/ana.yaml").read_bytes() == committed


def test_a_spec_root_that_leads_out_of_the_repository_is_not_followed(
    yard: Yard, bare: Path, tmp_path: Path
) -> None:
    """What lies there is in no commit."""
    fleet = from_place(yard, url=str(bare), branch="main")
    good = follow(fleet)
    work = tmp_path / "work"
    git(tmp_path, "clone", "-q", str(bare), str(work))
    (work / "specs").rename(tmp_path / "outside")
    (work / "specs").symlink_to(tmp_path / "outside")
    git(work, "add", "-A")
    git(work, "commit", "-qm", "x")
    git(work, "push", "-q", "origin", "HEAD:main")
    found = follow(fleet)
    assert (found.commit, found.stale and found.stale.code) == (good.commit, "source_unreadable")
    assert (tree(found) / "specs/user/ana.yaml").is_file()


def test_what_is_followed_is_not_taken_for_nothing_where_its_record_is_damaged(yard: Yard) -> None:
    """As after a power cut: else a rewritten history would be followed from before that on."""
    follow(yard.fleet())
    mirror = mirror_of(yard.fleet())
    (mirror.bare / "refs/gpuaas/followed").write_text("")
    for ask in (mirror.followed, lambda: follow(yard.fleet())):
        with pytest.raises(ProblemError) as error:
            ask()
        assert error.value.problems[0].code == "source_unreadable"


def test_a_round_does_not_undo_what_was_accepted_meanwhile(yard: Yard) -> None:
    mirror, first = mirror_of(yard.fleet()), follow(yard.fleet()).commit
    git(yard.folder, "commit", "-q", "--allow-empty", "-m", "next")
    accepted = follow(yard.fleet()).commit
    with pytest.raises(ProblemError) as error:
        mirror.follow("0" * 39 + "1", first)
    assert error.value.problems[0].code == "changed_meanwhile"
    assert mirror.followed() == accepted
