"""A private checkout: exactly a commit in a folder of its own; the repository stays as it is."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import pytest

from reconciler import shipped
from reconciler.model.problem import ProblemError
from reconciler.model.settings import Settings
from reconciler.model.spec.desired import Desired
from reconciler.model.spec.document import NoCache
from reconciler.specs.desired import load_desired
from reconciler.specs.git.origins import origins
from reconciler.specs.git.private_checkout import check_out, commit_of, commits_without, place_of
from reconciler.specs.settings import load_settings
from tests.specs.git.test_origins import HELLO, Story, text
from tests.specs.small_fleet import Fleet

SCHEMA = shipped.schemas()["settings"]


@pytest.fixture
def story(fleet: Fleet) -> Story:
    return Story(fleet)


def settings_of(story: Story, inner: str = ".") -> Settings:
    return load_settings(story.fleet.folder / inner, SCHEMA)


def digest(folder: Path) -> str:
    """Of every file of it with its times, so that whatever is written shows."""
    seen = sha256()
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        seen.update(f"{path} {status.st_mode} {status.st_mtime_ns}".encode())
        if path.is_file():
            seen.update(path.read_bytes())
    return seen.hexdigest()


def errors(desired: Desired) -> list[str]:
    return [one.code for one in desired.problems if one.is_error]


def laid_out(story: Story, revision: str, folder: Path, inner: str = ".") -> Settings:
    settings = settings_of(story, inner)
    folder.mkdir()
    return check_out(settings, commit_of(settings, revision), folder, SCHEMA)


def refusal(story: Story, revision: str) -> tuple[str, str]:
    with pytest.raises(ProblemError) as refused:
        commit_of(settings_of(story), revision)
    (problem,) = refused.value.problems
    return problem.code, problem.hint


def test_it_is_that_commit_and_its_authors(story: Story, tmp_path_factory) -> None:
    """Whatever lies in the tree by now, or is staged, has no part in it."""
    story.write(text("hello")).by("bo")
    first = story.git("rev-parse", "HEAD")
    story.write(text("hello", "b")).write("- [", "specs/broken.yaml").by("cem")
    story.write(text("hello", "c"))
    story.git("add", "-A")
    before = digest(story.fleet.folder)
    settings = laid_out(story, first, tmp_path_factory.mktemp("at") / "base")
    desired = load_desired(settings, shipped.schemas(), NoCache())
    assert not errors(desired) and desired.knows
    assert (desired.revision.commit, desired.revision.dirty) == (first, False)
    assert desired.resources[HELLO].normal["spec"]["emails"] == ["a@corp.example"]
    found = origins(settings, {HELLO: desired.resources[HELLO].file}, (), NoCache())
    assert (found[HELLO].author, found[HELLO].commit) == ("bo", first)
    assert digest(story.fleet.folder) == before
    assert story.git("worktree", "list").count("\n") == 0


def test_no_hook_filter_or_attribute_has_a_part_in_it(story: Story, tmp_path_factory) -> None:
    folder = tmp_path_factory.mktemp("at")
    shown = folder / "ran"
    for hook in ("post-checkout", "post-index-change", "reference-transaction"):
        place = story.fleet.folder / ".git/hooks" / hook
        place.write_text(f"#!/bin/sh\ntouch {shown}\n")
        place.chmod(0o755)
    story.git("config", "filter.mine.smudge", f"touch {shown}; cat")
    story.git("config", "filter.mine.clean", f"touch {shown}; cat")
    story.git("config", "core.fsmonitor", f"touch {shown}; true")
    story.write("*.yaml filter=mine export-ignore ident eol=crlf\n", ".gitattributes")
    story.write(text("hello")).by("bo")
    shown.unlink(missing_ok=True)
    settings = laid_out(story, "HEAD", folder / "base")
    load_desired(settings, shipped.schemas(), NoCache())
    assert not shown.exists()
    assert Path(settings.folder, "specs/hello.yaml").read_text() == text("hello")


def test_a_fleet_below_the_top(story: Story, tmp_path_factory) -> None:
    (story.fleet.folder / "inner/specs").mkdir(parents=True)
    story.write("operators: [ana]\n", "inner/gpuaas.yaml").write(
        text("hello"), "inner/specs/h.yaml"
    )
    story.write("x" * 100, "elsewhere").by("bo")
    assert place_of(settings_of(story, "inner")) == "inner/"
    base = tmp_path_factory.mktemp("at") / "base"
    settings = laid_out(story, "HEAD", base, "inner")
    assert Path(settings.folder) == base / "inner"
    assert not (base / "elsewhere").exists()
    assert list(load_desired(settings, shipped.schemas(), NoCache()).resources) == [HELLO]


def test_submodules_are_as_that_commit_has_them(story: Story, tmp_path_factory) -> None:
    elsewhere = tmp_path_factory.mktemp("theirs")
    subprocess.run(["git", "init", "-q", elsewhere], check=True)
    (elsewhere / "hello.yaml").write_text(text("hello"))
    who = ("-c", "user.name=m", "-c", "user.email=m@x")
    story.git("add", "-A", folder=elsewhere)
    story.git(*who, "commit", "-qm", "x", folder=elsewhere)
    story.git(
        "-c", "protocol.file.allow=always", "submodule", "add", str(elsewhere), "specs/theirs"
    )
    before = story.by("bo")
    (story.fleet.folder / "specs/theirs/hello.yaml").write_text(text("other"))
    story.git(*who, "commit", "-qam", "x", folder=story.fleet.folder / "specs/theirs")
    story.by("bo")
    settings = laid_out(story, before, tmp_path_factory.mktemp("at") / "base")
    desired = load_desired(settings, shipped.schemas(), NoCache())
    assert HELLO in desired.resources and not errors(desired)


def test_a_submodule_that_is_not_here_is_said(story: Story, tmp_path_factory) -> None:
    story.git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},specs/theirs")
    story.git("-c", "user.name=m", "-c", "user.email=m@x", "commit", "-qm", "x")
    settings = laid_out(story, "HEAD", tmp_path_factory.mktemp("at") / "base")
    desired = load_desired(settings, shipped.schemas(), NoCache())
    assert errors(desired) == ["submodule_missing"]


def test_links_lead_nowhere_else(story: Story, tmp_path_factory) -> None:
    secret = tmp_path_factory.mktemp("home") / "secret.yaml"
    secret.write_text(text("hello"))
    os.symlink(secret, story.fleet.folder / "specs/there.yaml")
    os.symlink("vision", story.fleet.folder / "specs/again")
    story.by("bo")
    settings = laid_out(story, "HEAD", tmp_path_factory.mktemp("at") / "base")
    desired = load_desired(settings, shipped.schemas(), NoCache())
    assert errors(desired) == ["file_outside_tree"]
    assert HELLO not in desired.resources


@pytest.mark.parametrize("mode", ["100644", "120000"])
@pytest.mark.parametrize(
    "name", ["../out.yaml", "/tmp/gpuaas-out.yaml", ".git", "..", "specs//x.yaml"]
)
def test_a_tree_that_was_made_by_hand(story: Story, tmp_path_factory, name: str, mode: str) -> None:
    """git itself refuses such names; whatever it says, nothing is laid out elsewhere."""
    folder = story.fleet.folder
    blob = bytes.fromhex(story.git("hash-object", "-w", "gpuaas.yaml"))
    entries = sorted([("gpuaas.yaml", "100644"), (name, mode)])
    tree = b"".join(f"{m} {n}".encode() + b"\0" + blob for n, m in entries)
    words = ("hash-object", "-w", "-t", "tree", "--stdin", "--literally")
    made = subprocess.run(["git", "-C", folder, *words], input=tree, stdout=-1, check=True)
    who = ("-c", "user.name=m", "-c", "user.email=m@x")
    commit = story.git(*who, "commit-tree", made.stdout.decode().strip(), "-m", "x")
    place = tmp_path_factory.mktemp("at")
    with suppress(ProblemError):
        laid_out(story, commit, place / "base")
    assert [path.name for path in place.iterdir()] == ["base"]
    assert not Path("/tmp/gpuaas-out.yaml").exists()
    assert not (place / "base/.git").is_symlink()


@pytest.mark.parametrize(
    "revision", ["nope", "", "-h", "--output=x", "HEAD\nHEAD", "HEAD:specs", "HEAD^{tree}", "a b"]
)
def test_what_is_no_commit(story: Story, revision: str) -> None:
    assert refusal(story, revision)[0] == "revision_unknown"


@pytest.mark.parametrize("revision", ["HEAD", "main", "HEAD~0", "main@{0}", "@"])
def test_what_is_one(story: Story, revision: str) -> None:
    assert commit_of(settings_of(story), revision) == story.git("rev-parse", "HEAD")


def test_a_shallow_clone_says_so(story: Story, tmp_path_factory) -> None:
    first = story.git("rev-parse", "HEAD")
    story.write(text("hello")).by("bo")
    clone = tmp_path_factory.mktemp("clone") / "fleet"
    story.git("clone", "-q", "--depth=1", f"file://{story.fleet.folder}", str(clone))
    shallow = Story.__new__(Story)
    shallow.fleet = Fleet(clone)
    assert "unshallow" in refusal(shallow, first)[1]
    settings = laid_out(shallow, "HEAD", tmp_path_factory.mktemp("at") / "base")
    assert HELLO in load_desired(settings, shipped.schemas(), NoCache()).resources


def test_no_repository_is_said(fleet: Fleet) -> None:
    with pytest.raises(ProblemError) as refused:
        commit_of(load_settings(fleet.folder, SCHEMA), "HEAD")
    assert refused.value.problems[0].code == "revision_unknown"


def test_a_commit_before_the_fleet(story: Story, tmp_path_factory) -> None:
    story.git("checkout", "-q", "--orphan", "empty")
    story.git("rm", "-qr", "--cached", ".")
    story.git("-c", "user.name=m", "-c", "user.email=m@x", "commit", "--allow-empty", "-qm", "x")
    story.git("add", "-A")
    with pytest.raises(ProblemError) as refused:
        laid_out(story, "HEAD", tmp_path_factory.mktemp("at") / "base")
    assert refused.value.problems[0].code == "settings_missing"


def test_settings_of_then_that_are_none(story: Story, tmp_path_factory) -> None:
    now = (story.fleet.folder / "gpuaas.yaml").read_text()
    story.write("operators: olga\n", "gpuaas.yaml")
    then = story.by("bo")
    story.write(now, "gpuaas.yaml").by("bo")
    with pytest.raises(ProblemError) as refused:
        laid_out(story, then, tmp_path_factory.mktemp("at") / "base")
    (problem,) = refused.value.problems
    assert problem.message.startswith(f"in commit {then[:7]}")


def test_specs_in_a_repository_of_their_own(story: Story, tmp_path_factory) -> None:
    subprocess.run(["git", "init", "-q", story.fleet.folder / "specs"], check=True)
    with pytest.raises(ProblemError) as refused:
        laid_out(story, "HEAD", tmp_path_factory.mktemp("at") / "base")
    assert refused.value.problems[0].code == "revision_unreadable"


def test_how_far_the_base_is_ahead(story: Story) -> None:
    story.git("checkout", "-qb", "feature")
    assert commits_without(settings_of(story), commit_of(settings_of(story), "main")) == 0
    story.git("checkout", "-q", "main")
    story.write(text("hello")).by("bo")
    story.git("checkout", "-q", "feature")
    assert commits_without(settings_of(story), commit_of(settings_of(story), "main")) == 1
