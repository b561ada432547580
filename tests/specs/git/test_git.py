"""Git, told to commit: one file, as its author would, and nothing else."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from reconciler.model.problem import ProblemError
from reconciler.specs.git import git, process
from reconciler.specs.git.folder import under_way
from tests.specs.small_fleet import Fleet

NAME = "specs/people.yaml"


def run(folder: Path, *words: str) -> str:
    return subprocess.check_output(["git", "-C", str(folder), *words], text=True).strip()


@pytest.fixture(autouse=True)
def nobody_in_particular(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for role in ("AUTHOR", "COMMITTER"):
        for word in ("NAME", "EMAIL"):
            monkeypatch.delenv(f"GIT_{role}_{word}", raising=False)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("HOME", str(tmp_path / "nowhere"))


@pytest.fixture
def repository(fleet: Fleet) -> Fleet:
    run(fleet.folder, "init", "-q")
    run(fleet.folder, "config", "user.name", "Olga")
    run(fleet.folder, "config", "user.email", "olga@corp.example")
    run(fleet.folder, "add", "-A")
    run(fleet.folder, "commit", "-qm", "all")
    return fleet


def test_one_file_and_nothing_else_that_is_staged(repository: Fleet) -> None:
    folder = repository.folder
    for name in (NAME, "specs/platform.yaml"):
        (folder / name).write_text((folder / name).read_text() + "# x\n")
    run(folder, "add", "specs/platform.yaml")
    made = git.commit(repository.settings, NAME, "Approve gpu01")
    assert run(folder, "rev-parse", "HEAD") == made
    said = run(folder, "show", "--format=%an %ae %s", "--name-only")
    assert said.split("\n") == ["Olga olga@corp.example Approve gpu01", "", NAME]
    assert run(folder, "diff", "--cached", "--name-only") == "specs/platform.yaml"


def test_a_file_that_git_does_not_know_yet(repository: Fleet) -> None:
    (repository.folder / "specs/new.yaml").write_text("a: 1\n")
    git.commit(repository.settings, "specs/new.yaml", "New")
    assert run(repository.folder, "status", "--porcelain") == ""


def test_who_commits_is_who_the_environment_names(
    repository: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert git.author_email(repository.settings) == "olga@corp.example"
    monkeypatch.setenv("GIT_AUTHOR_EMAIL", "ana@corp.example")
    assert git.author_email(repository.settings) == "ana@corp.example"


def test_hooks_may_say_no_and_the_file_stays(repository: Fleet) -> None:
    hook = repository.folder / ".git/hooks/pre-commit"
    hook.write_text("#!/bin/sh\necho no ticket >&2\nexit 1\n")
    hook.chmod(0o755)
    (repository.folder / NAME).write_text("# x\n")
    with pytest.raises(ProblemError) as refused:
        git.commit(repository.settings, NAME, "x")
    (problem,) = refused.value.problems
    assert (problem.code, "no ticket" in problem.message) == ("commit_failed", True)
    assert (repository.folder / NAME).read_text() == "# x\n"


def test_without_a_repository_there_is_nothing_to_commit_to(fleet: Fleet) -> None:
    with pytest.raises(ProblemError) as refused:
        git.commit(fleet.settings, NAME, "x")
    assert refused.value.problems[0].code == "commit_failed"
    assert git.author_email(fleet.settings) == ""


def test_settings_of_git_that_the_environment_states_count(
    repository: Fleet, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """F-REAL-20: people state who they are, and what is safe, by GIT_CONFIG_… as well."""
    for word in ("user.name", "user.email"):
        run(repository.folder, "config", "--unset", word)
    mine = tmp_path / "mine"
    mine.write_text("[user]\n name = Op\n email = op@example.test\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(mine))
    assert git.author_email(repository.settings) == "op@example.test"
    stated = {"COUNT": "1", "KEY_0": "user.email", "VALUE_0": "counted@example.test"}
    for word, value in stated.items():
        monkeypatch.setenv(f"GIT_CONFIG_{word}", value)
    assert git.author_email(repository.settings) == "counted@example.test"
    (repository.folder / NAME).write_text("# x\n")
    git.commit(repository.settings, NAME, "x")
    assert run(repository.folder, "log", "-1", "--format=%ae") == "counted@example.test"


@pytest.mark.parametrize("word", ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR"])
def test_another_repository_that_the_environment_means_does_not(
    repository: Fleet, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, word: str
) -> None:
    """F-REAL-20: which repository is meant, the fleet's folder says alone."""
    head = git.ask(repository.settings, "rev-parse", "HEAD")
    monkeypatch.setenv(word, str(tmp_path / "elsewhere"))
    assert git.ask(repository.settings, "rev-parse", "HEAD") == head
    assert git.ask(repository.settings, "status", "--porcelain") == ""


def test_nobody_is_made_up_where_git_knows_no_author(repository: Fleet) -> None:
    for word in ("user.name", "user.email"):
        run(repository.folder, "config", "--unset", word)
    assert git.author_email(repository.settings) == ""


@pytest.mark.parametrize(
    ("left", "what"),
    [
        ("MERGE_HEAD", "a merge"),
        ("CHERRY_PICK_HEAD", "a cherry-pick"),
        ("rebase-merge", "a rebase"),
        ("index.lock", "a git command"),
    ],
)
def test_no_commit_in_the_middle_of_something(repository: Fleet, left: str, what: str) -> None:
    """F-REAL-20: git makes no commit of one file in a merge; how to end that is said."""
    (repository.folder / ".git" / left).touch()
    with pytest.raises(ProblemError) as refused:
        git.insist_on_rest(repository.settings, NAME)
    (problem,) = refused.value.problems
    assert problem.code == "commit_failed"
    assert f"{what} is under way" in problem.message
    with pytest.raises(ProblemError, match="under way"):
        git.commit(repository.settings, NAME, "x")


def test_a_linked_work_tree_is_at_work_by_itself(repository: Fleet, tmp_path: Path) -> None:
    """F-REAL-20: what is under way in one tree is not so in the other."""
    linked = tmp_path / "linked"
    run(repository.folder, "worktree", "add", "-q", str(linked))
    assert git.repository_of(linked) == linked
    (repository.folder / ".git/MERGE_HEAD").touch()
    assert under_way(repository.folder)
    assert under_way(linked) is None
    (repository.folder / ".git/worktrees/linked/index.lock").touch()
    assert under_way(linked)


def test_what_git_says_has_an_end(repository: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    assert git.ask(repository.settings, "cat-file", "--batch-check", stdin="HEAD\n" * 99)
    monkeypatch.setattr(process, "MAX_SAID", 100)
    with pytest.raises(ProblemError, match="git says more than") as refused:
        git.ask(repository.settings, "cat-file", "-p", "HEAD")
    assert refused.value.problems[0].code == "no_commit"


def test_a_pipe_in_the_place_of_gits_folder_is_not_waited_for(fleet: Fleet) -> None:
    os.mkfifo(fleet.folder / ".git")
    assert under_way(fleet.folder) is None


def test_a_folder_that_is_asked_for_a_file_stays_open_to_nobody(tmp_path: Path) -> None:
    """Whoever asks again and again would come to the end of what may be open."""
    (tmp_path / ".git").mkdir()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        under_way(tmp_path)
    assert len(os.listdir("/proc/self/fd")) <= before
