"""Git, told to commit: one file, as its author would, and nothing else."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from reconciler.model.problem import ProblemError
from reconciler.specs import git
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
