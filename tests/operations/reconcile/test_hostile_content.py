"""What somebody commits is data: nothing of it is run, or stands for what it is not (F-REC-09)."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from reconciler.model.problem import ProblemError
from reconciler.model.settings import SourceSettings
from reconciler.operations.reconcile.source.source import follow, mirror_of
from reconciler.specs.git import git as asked
from tests.harness.yard import Yard
from tests.operations.reconcile.source.test_source import git, tree, with_filter


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


def made(place: Path, **files: str) -> str:
    """A repository with these files; its commit."""
    place.mkdir(parents=True, exist_ok=True)
    git(place, "init", "-q", "-b", "main")
    for name, content in files.items():
        (place / name.replace("_", ".")).write_text(content)
    git(place, "add", "-A")
    git(place, "commit", "-qm", "x")
    return git(place, "rev-parse", "HEAD")


def linked(yard: Yard, commit: str, **urls: str) -> None:
    """Submodules by name, committed as nobody's git would: no address is asked."""
    text = ""
    for name, url in urls.items():
        text += f'[submodule "{name}"]\n\tpath = specs/{name}\n\turl = {url}\n'
        git(yard.folder, "update-index", "--add", "--cacheinfo", f"160000,{commit},specs/{name}")
    (yard.folder / ".gitmodules").write_text(text)
    git(yard.folder, "add", ".gitmodules")
    git(yard.folder, "commit", "-qm", "x")


def test_attributes_of_a_submodule_change_no_byte_and_run_nothing(
    yard: Yard, tmp_path: Path, mark: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-REC-09: it is as it was committed, as all else is."""
    text = "a\nb $Id$\n"
    attributes = "* filter=evil text eol=crlf ident\n"
    commit = made(tmp_path / "part", a_yaml=text, _gitattributes=attributes)
    linked(yard, commit, part=str(tmp_path / "part"))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(with_filter(tmp_path, mark)))
    found = tree(follow(yard.fleet())) / "specs/part/a.yaml"
    assert found.read_bytes() == text.encode()
    assert not mark.exists()
    assert git(found.parent, "status", "--porcelain") == ""


def test_an_address_of_a_submodule_that_is_a_command_is_nothing(
    yard: Yard, tmp_path: Path, mark: Path
) -> None:
    """One that is sound is had beside it."""
    commit = made(tmp_path / "part", a_yaml="")
    linked(
        yard,
        commit,
        ext=f"ext::sh -c touch% {mark}",
        option=f"--upload-pack=touch {mark}",
        short=f"-u./touch {mark}",
        descriptor="fd::7",
        plain="git://localhost/x",
        proxy=f"ssh://-oProxyCommand=touch {mark}/x",
        etc="file:///etc",
        none="/nonexistent",
        part=str(tmp_path / "part"),
    )
    text = (yard.folder / ".gitmodules").read_text()
    text = text.replace("\tpath", f"\tupdate = !touch {mark}\n\tpath")
    (yard.folder / ".gitmodules").write_text(text)
    git(yard.folder, "add", ".gitmodules")
    git(yard.folder, "commit", "-qm", "x")
    specs = tree(follow(yard.fleet())) / "specs"
    there = [name for name in os.listdir(specs) if (specs / name / ".git").exists()]
    assert there == ["part"]
    assert not mark.exists()
    said = yard.gpuaas("reconcile", "--once")
    assert said.problems.count("submodule_missing") == 8


@pytest.mark.parametrize("how", ["path", "file", "relative", "link"])
def test_no_other_repository_of_the_machine_is_read(
    yard: Yard, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, how: str
) -> None:
    """Whoever may write to one repository does not read by it what else lies on its machine."""
    away = tmp_path_factory.mktemp("away") / "secret"
    commit = made(away, a_yaml="kind: [ topsecret\n")
    bare = tmp_path / "git/fleet.git"
    (tmp_path / "git").mkdir()
    (tmp_path / "git/link").symlink_to(away)
    url = {
        "path": str(away),
        "file": f"file://{away}",
        "relative": "../" * len(bare.parts[1:]) + str(away.relative_to("/")),
        "link": "../link",
    }[how]
    linked(yard, commit, secret=url, beside="../beside")
    made(tmp_path / "git/beside", a_yaml="")
    git(tmp_path, "init", "-q", "--bare", "-b", "main", str(bare))
    git(yard.folder, "push", "-q", str(bare), "HEAD:refs/heads/main")
    settings = yard.folder / "gpuaas.yaml"
    source = f"loop: {{source: {{url: {bare}, branch: main}}}}\n"
    settings.write_text(settings.read_text() + source)
    said = yard.gpuaas("reconcile", "--once")
    assert "topsecret" not in str(said.document) + said.told
    assert "submodule_missing" in said.problems
    copy = mirror_of(yard.fleet())
    assert not (copy.tree / "specs/secret/.git").exists()
    assert not list(copy.tree.parent.rglob("a.yaml"))


def test_what_is_no_submodule_any_more_is_no_repository(yard: Yard, tmp_path: Path) -> None:
    """Its files are those of the commit, and are asked of that."""
    commit = made(tmp_path / "part", a_yaml="")
    linked(yard, commit, part=str(tmp_path / "part"))
    specs = tree(follow(yard.fleet())) / "specs"
    assert (specs / "part/.git").exists()
    git(yard.folder, "rm", "-q", "--cached", "specs/part")
    (yard.specs / "part").mkdir(exist_ok=True)
    (yard.specs / "part/b.yaml").write_text("")
    git(yard.folder, "add", "specs/part/b.yaml")
    git(yard.folder, "commit", "-qm", "x")
    found = tree(follow(yard.fleet())) / "specs/part"
    assert os.listdir(found) == ["b.yaml"]
    assert git(found, "log", "-1", "--format=%s", "--", "b.yaml") == "x"
    assert not list(mirror_of(yard.fleet()).tree.parent.glob("modules/*"))


def test_a_submodule_that_moved_is_fetched_from_where_it_is(yard: Yard, tmp_path: Path) -> None:
    linked(yard, made(tmp_path / "one", a_yaml=""), part=str(tmp_path / "one"))
    follow(yard.fleet())
    linked(yard, made(tmp_path / "two", b_yaml=""), part=str(tmp_path / "two"))
    found = tree(follow(yard.fleet())) / "specs/part"
    assert sorted(os.listdir(found)) == [".git", "b.yaml"]


def test_submodules_of_submodules(yard: Yard, tmp_path: Path) -> None:
    """Each from its own place, and only while that is on this machine from beside the first."""
    inner = Yard(tmp_path / "outer")
    inner.specs.mkdir(parents=True)
    git(inner.folder, "init", "-q", "-b", "main")
    linked(inner, made(tmp_path / "core", a_yaml=""), core="../core")
    linked(yard, git(inner.folder, "rev-parse", "HEAD"), outer=str(inner.folder))
    found = follow(yard.fleet())
    assert (tree(found) / "specs/outer/specs/core/a.yaml").is_file()
    assert not mirror_of(yard.fleet()).tree.with_name("partial").exists()
