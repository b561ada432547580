"""Files and git: what is read, what never is, and what is said about the rest."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler import shipped
from reconciler.model.problem import ProblemError
from reconciler.model.ref import Ref
from reconciler.model.spec.document import NoCache
from reconciler.specs.git import tree_keys
from reconciler.specs.git.origins import origins
from reconciler.specs.read import library
from reconciler.specs.settings import load_settings
from tests.privileges import FOREIGN, giving_away, needs
from tests.specs.small_fleet import Fleet, allocation

SECRET = "root:$6$secret"


def link(fleet: Fleet, name: str, target: str | Path) -> Path:
    path = fleet.folder / "specs" / name
    path.symlink_to(target)
    return path


def test_the_sample_fleet_is_sound(fleet: Fleet) -> None:
    assert not fleet.problems()
    assert len(fleet.load().resources) == 7


# -- links and strange files


def test_a_link_out_of_the_tree_is_refused_unread(fleet: Fleet, tmp_path: Path) -> None:
    """F-PAR-05: by its resolved path, through as many links as it takes."""
    outside = tmp_path / "shadow.yaml"
    outside.write_text(SECRET)
    link(fleet, "a.yaml", outside)
    link(fleet, "b.yaml", "a.yaml")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "c.yaml").write_text(SECRET)
    link(fleet, "folder", tmp_path / "elsewhere")
    problems = fleet.problems()
    assert [p.code for p in problems] == ["file_outside_tree"] * 3
    assert SECRET not in repr(problems)
    desired = fleet.load()
    assert desired.broken == {"specs/a.yaml", "specs/b.yaml", "specs/folder"}
    assert desired.is_broken("specs/folder/deep/x.yaml")
    assert not desired.is_broken("specs/folders.yaml")


def test_looping_links_end_the_walk(fleet: Fleet) -> None:
    """F-PAR-05"""
    link(fleet, "loop", ".")
    link(fleet, "vision/up", "..")
    link(fleet, "self.yaml", "self.yaml")
    (fleet.folder / "specs" / "x").mkdir()
    (fleet.folder / "specs" / "y").mkdir()
    link(fleet, "x/y", "../y")
    link(fleet, "y/x", "../x")
    begin = time.perf_counter()
    problems = fleet.problems()
    assert time.perf_counter() - begin < 1
    found = {p.source.file: p.code for p in problems if p.source}
    assert found == {
        "specs/loop": "file_link_loop",
        "specs/vision/up": "file_link_loop",
        "specs/self.yaml": "file_unreadable",
    }


def test_a_link_within_the_tree_is_read_once(fleet: Fleet) -> None:
    fleet.write(".store/real.yaml", allocation("linked"))
    link(fleet, "linked.yaml", ".store/real.yaml")
    link(fleet, "again", "vision")
    desired = fleet.load()
    assert desired.get("allocation", "linked", "vision") is not None
    assert len(desired.resources) == 8
    assert "specs/again" in desired.ignored


def test_what_is_called_a_spec_and_is_none(fleet: Fleet) -> None:
    """F-CLI-04: a folder, a pipe, a socket and a device are named and never opened."""
    root = fleet.folder / "specs"
    (root / "folder.yaml").mkdir()
    os.mkfifo(root / "pipe.yaml")
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(root / "s.yml"))
    link(fleet, "null.yaml", "/dev/null")
    found = {p.source.file: p for p in fleet.problems() if p.source}
    assert {name: p.code for name, p in found.items()} == {
        "specs/folder.yaml": "file_not_regular",
        "specs/pipe.yaml": "file_not_regular",
        "specs/s.yml": "file_not_regular",
        "specs/null.yaml": "file_outside_tree",
    }
    assert all(p.hint and p.source and p.source.line == 1 for p in found.values())


@pytest.mark.parametrize("content", [b"\x7fELF\x02\x01\x00\x00", b"\x89PNG\r\n\x1a\n\x00"])
def test_a_binary_file_is_named(fleet: Fleet, content: bytes) -> None:
    """F-CLI-04"""
    fleet.write("x.yaml", content)
    assert fleet.one().code == "encoding_unsupported"


def test_what_may_not_be_read_is_broken_not_missing(fleet: Fleet) -> None:
    """F-CLI-04, F-REC-01, F-REC-02: a file and a folder without permission."""
    as_nobody(fleet, lambda: os.chmod(fleet.folder / "specs/vision/train.yaml", 0))
    as_nobody(fleet, lambda: os.chmod(fleet.folder / "specs/vision", 0))


def as_nobody(fleet: Fleet, take_away: Callable[[], None]) -> None:
    take_away()
    if os.geteuid() == 0:
        for path in (fleet.folder, *list(fleet.folder.parents)[:-1]):
            path.chmod(path.stat().st_mode | 0o055)
        os.seteuid(65534)
    try:
        desired = fleet.load()
    finally:
        if os.getuid() == 0:
            os.seteuid(0)
    unreadable = [p for p in desired.problems if p.code == "file_unreadable"]
    assert len(unreadable) == 1 and unreadable[0].source
    assert unreadable[0].source.file in desired.broken
    assert desired.get("allocation", "train", "vision") is None


def test_a_name_of_strange_bytes_is_shown_safely(fleet: Fleet) -> None:
    for name in (b"a\xff.yaml", b"b\x1b[2J.yaml"):
        Path(os.fsdecode(bytes(fleet.folder / "specs") + b"/" + name)).write_text("x: 1\n")
    problems = fleet.problems()
    assert [p.code for p in problems] == ["file_unreadable"] * 2
    assert all(p.source and p.source.file.isprintable() for p in problems)
    repr(problems).encode()


def test_a_deep_tree_is_walked(fleet: Fleet) -> None:
    fleet.write("/".join(["d"] * 400) + "/x.yaml", allocation("deep"))
    assert fleet.load().get("allocation", "deep", "vision")


# -- which files are specs


def test_leftovers_are_ignored_with_a_note(fleet: Fleet) -> None:
    """F-PAR-15"""
    names = [
        "x.yaml~",
        ".x.yaml.swp",
        ".goutputstream-AB",
        "x.yaml.BAK",
        "x.yaml.orig",
        "#x.yaml#",
        ".hidden.yaml",
    ]
    for name in names:
        fleet.write(name, allocation("train"))
    link(fleet, ".#x.yaml", "ana@host.1234:5678")
    fleet.write("README.md", "words")
    fleet.write(".git/x.yaml", allocation("train"))
    desired = fleet.load()
    assert not fleet.problems()
    assert desired.ignored == {f"specs/{name}" for name in [*names, ".#x.yaml"]}


def test_both_endings_are_specs(fleet: Fleet) -> None:
    fleet.write("a.yml", allocation("by-yml"))
    assert fleet.load().get("allocation", "by-yml", "vision")


# -- an empty source


def test_a_missing_root_is_refused(fleet: Fleet) -> None:
    """F-REC-01"""
    (fleet.folder / "specs").rename(fleet.folder / "gone")
    with pytest.raises(ProblemError) as refused:
        fleet.load()
    assert [p.code for p in refused.value.problems] == ["spec_root_missing"]
    (fleet.folder / "specs").write_text("a file\n")
    with pytest.raises(ProblemError):
        fleet.load()


def test_an_empty_root_is_an_error(tmp_path: Path) -> None:
    """F-REC-01"""
    (tmp_path / "gpuaas.yaml").write_text("operators: [ana]\n")
    (tmp_path / "specs").mkdir()
    problem = Fleet(tmp_path).one()
    assert (problem.code, problem.is_error) == ("spec_root_empty", True)
    Fleet(tmp_path).write("a.yaml", "# nothing\n")
    assert [p.code for p in Fleet(tmp_path).problems()] == ["file_empty", "spec_root_empty"]


# -- settings


def test_the_folder_is_found_from_below(fleet: Fleet) -> None:
    assert library.find_folder(fleet.folder / "specs" / "vision") == fleet.folder.resolve()


@needs(giving_away)
@pytest.mark.parametrize("name", [".", "gpuaas.yaml"])
def test_settings_of_somebody_else_are_not_followed(
    fleet: Fleet, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a folder nor a file of another user's, named by `-C` or found above; unless it is
    that of who called sudo, or is named where nobody else writes.
    """

    def code() -> str:
        try:
            library.find_folder(fleet.folder / "specs")
        except ProblemError as refused:
            return refused.problems[0].code
        return "followed"

    os.chown(fleet.folder / name, FOREIGN, FOREIGN)
    monkeypatch.delenv("SUDO_UID", raising=False)
    assert code() == "settings_foreign"
    for caller, found in ((str(FOREIGN), "followed"), ("1", "settings_foreign"), ("x", code())):
        monkeypatch.setenv("SUDO_UID", caller)
        assert code() == found
    for named in (".", "", str(fleet.folder.parent), f"{fleet.folder}/specs"):
        monkeypatch.setenv("GPUAAS_SAFE_DIRECTORY", named)
        assert code() == "settings_foreign", named
    for named in (str(fleet.folder), f"/elsewhere:{fleet.folder}/", "*"):
        monkeypatch.setenv("GPUAAS_SAFE_DIRECTORY", named)
        assert code() == "followed", named


def test_no_settings_is_said_plainly(tmp_path: Path) -> None:
    with pytest.raises(ProblemError) as refused:
        library.find_folder(tmp_path)
    assert refused.value.problems[0].code == "settings_missing"


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ("operators: [ana]\nspecroot: x\n", "field_unknown", 2),
        ("operators: [ana]\nstate: no\n", "yaml_ambiguous", 2),
        ("operators: [ana]\nspecRoot: ../other\n", "settings_invalid", 2),
        ("operators: [ana]\n---\noperators: [bo]\n", "settings_invalid", 1),
        ("", "settings_invalid", 1),
        ("operators: [ana]\nnetwork:\n  closed: [10.0.0.0/33]\n", "settings_invalid", 3),
        ("operators: [ana]\nnetwork: {closed: ['1.2.3.4 }']}\n", "value_pattern", 2),
        ("operators: [ana]\npublish:\n  proxyJump: me@::1:22\n", "settings_invalid", 3),
        ("operators: [ana]\npublish:\n  proxyJump: a,none\n", "settings_invalid", 3),
        ("operators: [ana]\npublish:\n  sshHostSuffix: a..b\n", "settings_invalid", 3),
        ("operators: [ana]\nindex:\n  own: https://300.1.1.1/\n", "settings_invalid", 3),
    ],
)
def test_settings_are_checked_like_a_spec(fleet: Fleet, text: str, code: str, line: int) -> None:
    """F-REAL-19: what means something is told at its place where it means nothing."""
    (fleet.folder / "gpuaas.yaml").write_text(text)
    with pytest.raises(ProblemError) as refused:
        load_settings(fleet.folder, shipped.schemas()["settings"])
    [problem] = refused.value.problems
    assert problem.source is not None
    assert (problem.code, problem.source.line) == (code, line)


# -- git


def git(fleet: Fleet, *arguments: str) -> str:
    names = ("-c", "user.name=Ana", "-c", "user.email=ana@corp.example")
    return subprocess.run(
        ["git", *names, *arguments], cwd=fleet.folder, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def committed(fleet: Fleet) -> Fleet:
    git(fleet, "init", "-q", "-b", "main")
    git(fleet, "add", ".")
    git(fleet, "commit", "-qm", "first")
    return fleet


def test_without_a_repository_there_is_no_commit(fleet: Fleet) -> None:
    revision = fleet.load().revision
    assert (revision.commit, revision.branch, revision.dirty) == ("", "", False)
    assert tree_keys.tree_key(fleet.settings, NoCache()) == ""


def test_the_revision_tells_commit_branch_and_edits(committed: Fleet) -> None:
    revision = library.revision(committed.settings)
    assert revision.commit == git(committed, "rev-parse", "HEAD")
    assert (revision.branch, revision.dirty) == ("main", False)
    (committed.folder / "elsewhere.txt").write_text("not of the fleet")
    assert not library.revision(committed.settings).dirty
    committed.write("new.yaml", allocation("new"))
    assert library.revision(committed.settings).dirty


def test_a_repository_without_commits(fleet: Fleet) -> None:
    git(fleet, "init", "-q", "-b", "main")
    revision = library.revision(fleet.settings)
    assert (revision.commit, revision.branch, revision.dirty) == ("", "main", True)


def test_the_tree_key_follows_specs_and_settings(committed: Fleet) -> None:
    key = tree_keys.tree_key(committed.settings, NoCache())
    assert key and key == tree_keys.tree_key(committed.settings, NoCache())
    (committed.folder / ".git/info/exclude").write_text("*.yml\n")
    ignored = committed.write("ignored.yml", allocation("new"))
    assert tree_keys.tree_key(committed.settings, NoCache()) == "", "ignored by git, but read by us"
    ignored.unlink()
    assert tree_keys.tree_key(committed.settings, NoCache()) == key
    (committed.folder / "gpuaas.yaml").write_text("operators: [bo]\n")
    assert tree_keys.tree_key(committed.settings, NoCache()) == ""


def test_a_fleet_below_the_top_of_its_repository(fleet: Fleet) -> None:
    git(fleet, "init", "-q", "-b", "main")
    inner = Fleet(fleet.folder / "fleets" / "lab ä")
    inner.folder.mkdir(parents=True)
    (inner.folder / "gpuaas.yaml").write_text("operators: [ana]\n")
    inner.write("a b.yaml", "kind: x\n")
    git(fleet, "add", ".")
    git(fleet, "commit", "-qm", "first")
    assert not library.revision(inner.settings).dirty
    assert tree_keys.tree_key(inner.settings, NoCache())
    inner.write("a b.yaml", "kind: y\n")
    assert library.revision(inner.settings).dirty


def test_a_repository_that_git_refuses_is_a_warning(
    committed: Fleet, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Never *no version*: git is there, and would know."""
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    [doubt] = [p for p in committed.load().problems if p.code == "no_commit"]
    assert not doubt.is_error and "git is not installed" in doubt.message
    monkeypatch.undo()
    (committed.folder / ".git" / "HEAD").write_text("damaged\n")
    [doubt] = [p for p in committed.load().problems if p.code == "no_commit"]
    assert not doubt.is_error and doubt.hint
    assert tree_keys.tree_key(committed.settings, NoCache()) == ""


def test_git_runs_nothing_that_the_repository_brings(committed: Fleet, tmp_path: Path) -> None:
    trap = tmp_path / "trap.sh"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\n")
    trap.chmod(0o755)
    git(committed, "config", "core.fsmonitor", str(trap))
    git(committed, "config", "core.pager", str(trap))
    git(committed, "config", "core.hooksPath", str(tmp_path))
    library.revision(committed.settings)
    origins(committed.settings, {Ref("user", "", "bo"): "specs/people.yaml"}, (), NoCache())
    assert not (tmp_path / "sprung").exists()


def test_the_callers_git_variables_do_not_count(
    committed: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", "/nonexistent")
    assert library.revision(committed.settings).commit
