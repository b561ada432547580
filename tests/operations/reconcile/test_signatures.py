"""The loop follows commits of those who are trusted, where the Policy wants signatures."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from reconciler.model.problem import ProblemError
from reconciler.operations.reconcile.source.accept import accept_history
from reconciler.operations.reconcile.source.source import follow
from tests.harness.yard import Yard, copy_of
from tests.planner import fleet as paper

WHO = ("-c", "user.name=olga", "-c", "user.email=olga@corp.example")


def git(folder: Path, *words: str, **variables: str) -> str:
    return subprocess.run(
        ["git", "-C", folder, *WHO, *words],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, **variables},
    ).stdout.strip()


def key(folder: Path, name: str) -> Path:
    path = folder / name
    words = ("-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(path))
    subprocess.run(["ssh-keygen", *words], check=True)
    return path


def edit(yard: Yard, name: str = "ana") -> None:
    path = yard.specs / f"user/{name}.yaml"
    path.write_text(path.read_text() + "# another line\n")


def commit(yard: Yard, by: Path | None = None, file: str = "specs") -> str:
    signing = ("-c", "gpg.format=ssh", "-c", f"user.signingKey={by}") if by else ()
    words = ("-S",) if by else ()
    git(yard.folder, "add", "-A", file)
    git(yard.folder, *signing, "commit", "-q", "--allow-empty", *words, "-m", "x")
    return git(yard.folder, "rev-parse", "HEAD")


@pytest.fixture(scope="module")
def settled(applied: Yard, tmp_path_factory: pytest.TempPathFactory) -> tuple[Yard, Path, Path]:
    """A fleet whose Policy wants signatures; a key that is trusted, and one that is not."""
    folder = tmp_path_factory.mktemp("signed")
    trusted, stranger = key(folder, "olga"), key(folder, "eve")
    signers = folder / "signers"
    signers.write_text(f"olga@corp.example {trusted.with_suffix('.pub').read_text()}")
    yard = copy_of(applied, folder / "fleet")
    text = f"operators: [olga]\nloop: {{source: {{allowedSigners: {signers}}}}}\n"
    (yard.folder / "gpuaas.yaml").write_text(text)
    yard.write(paper.policy(source={"requireSigned": True}, grant={"mayBeOpenEnded": True}))
    yard.commit()
    assert yard.apply().code == 0
    return yard, trusted, stranger


@pytest.fixture
def signed(settled: tuple[Yard, Path, Path], tmp_path: Path) -> tuple[Yard, Path, Path]:
    """A copy of it that is followed."""
    begun, trusted, stranger = settled
    yard = copy_of(begun, tmp_path)
    follow(yard.fleet())
    return yard, trusted, stranger


def test_a_signed_commit_is_followed_and_another_is_held(signed: tuple[Yard, Path, Path]) -> None:
    yard, trusted, stranger = signed
    edit(yard)
    head = commit(yard, trusted)
    assert follow(yard.fleet()).stale is None
    for by in (None, stranger):
        edit(yard)
        commit(yard, by)
        found = follow(yard.fleet())
        assert found.commit == head
        assert found.stale is not None
        assert found.stale.code == "commit_unsigned"
        assert "by olga" in found.stale.message
        git(yard.folder, "reset", "-q", "--hard", head)


def test_an_unsigned_commit_below_a_signed_one_is_held_too(signed: tuple[Yard, Path, Path]) -> None:
    yard, trusted, _ = signed
    edit(yard)
    commit(yard)
    edit(yard, "bo")
    commit(yard, trusted)
    assert follow(yard.fleet()).stale is not None


def test_a_commit_cannot_say_that_it_needs_no_signature(signed: tuple[Yard, Path, Path]) -> None:
    yard, _, _ = signed
    yard.write(paper.policy(grant={"mayBeOpenEnded": True}))
    commit(yard)
    assert follow(yard.fleet()).stale is not None


def test_what_is_not_of_the_specs_needs_none(signed: tuple[Yard, Path, Path]) -> None:
    yard, _, _ = signed
    (yard.folder / "README").write_text("words")
    head = commit(yard, file="README")
    found = follow(yard.fleet())
    assert (found.commit, found.stale) == (head, None)


def test_an_operator_may_accept_it(signed: tuple[Yard, Path, Path]) -> None:
    yard, trusted, _ = signed
    edit(yard)
    head = commit(yard)
    accept_history(yard.fleet(), head, "read it")
    assert follow(yard.fleet()).stale is None
    edit(yard)
    assert commit(yard, trusted) == follow(yard.fleet()).commit


def test_what_was_accepted_is_one_commit_and_no_other(signed: tuple[Yard, Path, Path]) -> None:
    yard, trusted, stranger = signed
    edit(yard)
    first = commit(yard, stranger)
    edit(yard, "bo")
    second = commit(yard)
    with pytest.raises(ProblemError):
        accept_history(yard.fleet(), first, "the one before is meant, and not this")
    accept_history(yard.fleet(), second, "read both")
    assert follow(yard.fleet()).commit == second
    edit(yard)
    commit(yard)
    found = follow(yard.fleet())
    assert found.stale is not None
    assert (found.stale.code, found.commit) == ("commit_unsigned", second)
    edit(yard)
    commit(yard, trusted)
    assert follow(yard.fleet()).stale is not None, "a signature says nothing of what lies below"


def merged(yard: Yard, of: str, *parents: str) -> None:
    """What somebody makes by hand who signs nothing: a merge that takes the files of one parent."""
    words = [word for parent in parents for word in ("-p", parent)]
    made = git(yard.folder, "commit-tree", f"{of}^{{tree}}", *words, "-m", "merge")
    git(yard.folder, "reset", "-q", "--hard", made)


def test_a_merge_brings_nothing_back_without_a_signature(signed: tuple[Yard, Path, Path]) -> None:
    """Neither what was signed and never merged, nor what was there once and was taken back."""
    yard, trusted, _ = signed
    old, branch = git(yard.folder, "rev-parse", "HEAD", "--abbrev-ref", "HEAD").split()[0], "side"
    git(yard.folder, "checkout", "-q", "-b", branch)
    edit(yard)
    side = commit(yard, trusted)
    git(yard.folder, "checkout", "-q", "-")
    edit(yard, "bo")
    head = commit(yard, trusted)
    assert follow(yard.fleet()).commit == head
    for of in (side, old):
        merged(yard, of, head, of)
        found = follow(yard.fleet())
        assert (found.commit, found.stale and found.stale.code) == (head, "commit_unsigned")
        git(yard.folder, "reset", "-q", "--hard", head)


@pytest.mark.parametrize("name", ["eve\u2028G", "eve\x0bG", "eve\x1b[2J"])
def test_a_name_of_an_author_is_no_verdict_and_no_control(
    signed: tuple[Yard, Path, Path], name: str
) -> None:
    yard, _, _ = signed
    edit(yard)
    git(yard.folder, "add", "-A", "specs")
    git(yard.folder, "commit", "-q", "-m", "x", "--author", f"{name} <eve@corp.example>")
    stale = follow(yard.fleet()).stale
    assert stale is not None
    assert stale.message.isprintable()
    assert stale.message.count(" by eve") == 1


def test_behind_a_link_every_commit_counts(signed: tuple[Yard, Path, Path]) -> None:
    """The spec root may be one, or lie behind one: then what it leads to is no part of it."""
    yard, trusted, _ = signed
    place = yard.folder / "elsewhere"
    yard.specs.rename(place)
    yard.specs.symlink_to("elsewhere")
    git(yard.folder, "add", "elsewhere")
    head = commit(yard, trusted)
    assert follow(yard.fleet()).commit == head
    edit(yard)
    commit(yard, file="elsewhere")
    found = follow(yard.fleet())
    assert (found.commit, found.stale and found.stale.code) == (head, "commit_unsigned")


def test_only_named_folders(yard: Yard, tmp_path: Path) -> None:
    yard.write(
        paper.policy(
            source={"requireSigned": True, "folders": ["policy"]}, grant={"mayBeOpenEnded": True}
        )
    )
    yard.commit()
    assert yard.apply().code == 0
    follow(yard.fleet())
    edit(yard)
    commit(yard)
    assert follow(yard.fleet()).stale is None
    yard.write(paper.policy(grant={"mayBeOpenEnded": True}))
    commit(yard)
    assert follow(yard.fleet()).stale is not None


def test_no_file_of_the_repository_says_who_is_trusted(signed: tuple[Yard, Path, Path]) -> None:
    """Nor do this user's own settings of git."""
    yard, _, stranger = signed
    place = yard.folder / "specs-signers"
    place.write_text(f"olga@corp.example {stranger.with_suffix('.pub').read_text()}")
    git(yard.folder, "config", "gpg.ssh.allowedSignersFile", str(place))
    edit(yard)
    commit(yard, stranger)
    assert follow(yard.fleet()).stale is not None


@pytest.mark.skipif(not shutil.which("gpg"), reason="gpg is not installed")
def test_keys_of_gnupg(signed: tuple[Yard, Path, Path], tmp_path: Path) -> None:
    yard, _, _ = signed
    home = Path("/tmp") / f"gpg-{os.getpid()}"  # its socket's path has to be short
    home.mkdir(mode=0o700)
    try:
        make = ("--batch", "--passphrase", "", "--quick-gen-key", "olga@corp.example", "ed25519")
        env = {**os.environ, "GNUPGHOME": str(home)}
        subprocess.run(["gpg", "-q", *make], check=True, env=env, capture_output=True)
        edit(yard)
        git(yard.folder, "add", "-A", "specs")
        git(
            yard.folder,
            *("-c", "gpg.format=openpgp", "-c", "user.signingKey=olga@corp.example"),
            *("commit", "-q", "-S", "-m", "x"),
            GNUPGHOME=str(home),
        )
        assert follow(yard.fleet()).stale is not None
        text = (yard.folder / "gpuaas.yaml").read_text()
        text = text.replace("allowedSigners", f"gnupgHome: {home}, allowedSigners")
        (yard.folder / "gpuaas.yaml").write_text(text)
        assert follow(yard.fleet()).stale is None
    finally:
        subprocess.run(["gpgconf", "--homedir", str(home), "--kill", "all"], check=False)
        shutil.rmtree(home, ignore_errors=True)
