"""What somebody commits is data: nothing of it is run, or stands for what it is not (F-REC-09)."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from reconciler.model.problem import ProblemError
from reconciler.model.settings import SourceSettings
from reconciler.operations.reconcile.source import follow, mirror_of
from reconciler.specs import git as asked
from tests.operations.reconcile.test_source import git, tree
from tests.operations.yard import Yard


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """There as soon as something has run that an author chose."""
    return tmp_path / "mark"


@pytest.fixture
def inner(yard: Yard, tmp_path: Path) -> Yard:
    """The same fleet in a folder of a repository, which is followed."""
    top = tmp_path / "top"
    found = Yard(top / "fleet")
    top.mkdir()
    ignored = shutil.ignore_patterns("top", ".git")
    shutil.copytree(yard.folder, found.folder, symlinks=True, ignore=ignored)
    git(top, "init", "-q", "-b", "main")
    git(top, "add", "fleet/specs", "fleet/gpuaas.yaml")
    git(top, "commit", "-qm", "one")
    mirror = mirror_of(found.fleet())
    commit = mirror.fetch(str(top), SourceSettings())
    mirror.follow(commit, mirror.followed())
    return found


@pytest.fixture
def forged(inner: Yard, tmp_path: Path, mark: Path) -> Path:
    """All that a bare repository consists of, with another author of the same files."""
    place = tmp_path / "forged"
    shutil.copytree(inner.specs, place / "specs")
    git(place, "init", "-q", "-b", "main")
    git(place, "add", "-A")
    git(place, "commit", "-qm", "forged", "--author", "olga <olga@corp.example>")
    for name in ("fsmonitor", "pager", "sshCommand"):
        git(place, "config", f"core.{name}", f"touch {mark}")
    (place / ".git/refs/tags/kept").write_text("")
    return place / ".git"


PARTS = ("HEAD", "config", "objects", "refs")


@pytest.mark.parametrize("where", ["", "specs"])
def test_a_repository_among_the_files_has_no_say_in_who_wrote_them(
    inner: Yard, forged: Path, mark: Path, where: str
) -> None:
    """Git would take it for the one that the fleet lies in, its history and settings as well."""
    good = follow(inner.fleet())
    for name in PARTS:
        part = forged / name
        target = inner.folder / where / name
        shutil.copytree(part, target) if part.is_dir() else shutil.copy(part, target)
    git(inner.folder.parent, "add", "-f", *(str(inner.folder / where / one) for one in PARTS))
    git(inner.folder.parent, "commit", "-qm", "two")
    found = follow(inner.fleet())
    assert (found.commit, found.stale and found.stale.code) == (good.commit, "source_unreadable")
    ask = ("log", "-1", "--format=%s", "--", "specs/user/ana.yaml")
    assert asked.ask(found.fleet.specs, *ask).strip() == "one"
    if not where:
        # Nor is a person told anything by it who works there.
        with pytest.raises(ProblemError) as error:
            asked.ask(inner.fleet().settings, *ask)
        assert error.value.problems[0].code == "no_commit"
        assert asked.author_email(inner.fleet().settings) == ""
    assert not mark.exists()


def test_links_lead_to_nothing_outside(yard: Yard, tmp_path: Path) -> None:
    """Neither a file nor a folder of the machine is read, nor repeated in a message."""
    secret = tmp_path / "secret.yaml"
    secret.write_text("topsecret: [\n")
    (yard.specs / "user/x.yaml").symlink_to(secret)
    (yard.specs / "etc").symlink_to("/etc")
    git(yard.folder, "add", "-A", "specs")
    git(yard.folder, "commit", "-qm", "x")
    said = yard.gpuaas("reconcile", "--once")
    assert said.problems.count("file_outside_tree") == 2
    assert "topsecret" not in str(said.document) + said.told


def test_names_of_files_are_no_options_and_no_lines(yard: Yard, tmp_path: Path) -> None:
    names = ("--output=made.yaml", "-n.yaml", "--help", "a\nb.yaml", "\x1b[31mred.yaml")
    for name in names:
        (yard.specs / "user" / name).write_text("kind: [\n")
    git(yard.folder, "add", "-A", "specs")
    git(yard.folder, "commit", "-qm", "x")
    said = yard.gpuaas("reconcile", "--once")
    assert len(said.problems) == len(names)
    assert "\x1b" not in said.told + said.messages
    assert not list(tmp_path.rglob("made.yaml"))
    assert os.path.exists(tree(follow(yard.fleet())) / "specs/user/--help")
