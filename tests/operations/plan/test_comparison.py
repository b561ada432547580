"""`plan --against`: what a branch brings beyond its base, without hosts, keys or a state."""

from __future__ import annotations

import http.server
import io
import os
import shutil
import sqlite3
import ssl
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, redirect_stdout
from functools import partial
from hashlib import sha256
from pathlib import Path
from threading import Thread

import pytest

from reconciler.cli.main import run
from reconciler.operations.plan import comparison
from reconciler.store.file.schema import shipped_schema
from tests.harness.applied_fleet import BOX, SOLO, TRAIN
from tests.harness.yard import Said, Yard
from tests.journeys.access.test_key_files import changed
from tests.planner import fleet as paper

pytestmark = pytest.mark.walk

SMALL = paper.allocation("small", "slice-1", owner="ana", access=["ana"], expiresAt=paper.LASTING)
OTHER = paper.allocation("other", "slice-1", owner="ana", access=["ana"], expiresAt=paper.LASTING)


def git(yard: Yard, *words: str) -> str:
    return subprocess.check_output(["git", "-C", yard.folder, *words], text=True).strip()


def against(yard: Yard, *words: str, base: str = "base") -> Said:
    return yard.plan("--against", base, *words)


@pytest.fixture
def branch(yard: Yard) -> Yard:
    """The applied fleet, its commit called `base`, with a branch of one new allocation in hand."""
    git(yard, "branch", "-f", "base")
    git(yard, "checkout", "-qb", "feature")
    yard.write(SMALL)
    yard.commit("ana")
    return yard


@pytest.fixture
def copy(yard: Yard, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("copies") / "state.db"
    assert yard.gpuaas("state", "backup", str(file)).code == 0
    return file


@contextmanager
def elsewhere(yard: Yard, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    """A clone, as in CI: no state, no key, no hosts."""
    folder = tmp_path_factory.mktemp("ci") / "fleet"
    subprocess.run(["git", "clone", "-q", yard.folder, folder], check=True)
    subprocess.run(["git", "-C", folder, "branch", "base", "origin/base"], check=True)
    yield Yard(folder)


def on_base(yard: Yard, *documents: object, remove: tuple[object, ...] = ()) -> None:
    """A commit of the base that is not applied."""
    git(yard, "checkout", "-q", "base")
    yard.write(*documents)  # type: ignore[arg-type]
    yard.commit("olga")
    if remove:
        yard.remove(*remove)  # type: ignore[arg-type]
    git(yard, "checkout", "-q", "feature")


def lying_still(folder: Path) -> str:
    """Every file below a folder with its time, the repository's own included.

    Not what is remembered, nor what SQLite has for whoever reads.
    """
    seen = sha256()
    for path in sorted(folder.rglob("*")):
        if path.name.startswith(("cache.db", "gpuaas.db-")):
            continue
        status = path.lstat()
        written = "" if path.is_dir() else f"{status.st_mtime_ns} {status.st_size}"
        seen.update(f"{path} {status.st_mode} {written}".encode())
    return seen.hexdigest()


def test_only_what_the_branch_brings(branch: Yard) -> None:
    found = against(branch)
    assert (found.code, found.actions) == (0, {"allocation/vision/small": "create"})
    assert found.plan["against"] == {
        "revision": "base",
        "commit": git(branch, "rev-parse", "base"),
        "ahead": 0,
        "withdrawn": [],
        "shared": {},
        "mended": 0,
    }
    assert found.change("allocation/vision/small")["origin"]["author"] == "ana"
    assert against(branch, "--detailed-exitcode").code == 2


def test_what_the_base_would_do_as_well_is_a_number(branch: Yard) -> None:
    on_base(branch, changed(TRAIN, access=["ana", "bo"]))
    git(branch, "rebase", "-q", "base")
    found = against(branch)
    assert found.actions == {"allocation/vision/small": "create"}
    assert found.plan["against"]["shared"] == {"to change": 1}
    assert "1 change of base is not applied yet: 1 to change" in run_text(
        branch, "--against", "base", "--summary"
    )
    assert against(branch, base="feature").actions == {}


def test_a_removal_of_the_branch_is_by_its_author(branch: Yard) -> None:
    branch.file(BOX).unlink()
    branch.commit("bo")
    found = against(branch)
    assert found.actions["allocation/nlp/box"] == "release"
    assert found.change("allocation/nlp/box")["origin"]["author"] == "bo"
    assert found.change("allocation/nlp/box")["risk"] == "destroys"


def test_what_the_branch_takes_away_from_its_base(branch: Yard) -> None:
    """The base releases something and is not applied yet; the branch has put it back."""
    on_base(branch, remove=(BOX,))
    git(branch, "rebase", "-q", "base")
    branch.write(BOX)
    branch.commit("bo")
    found = against(branch)
    assert "allocation/nlp/box" not in found.actions
    (gone,) = found.plan["against"]["withdrawn"]
    assert (gone["ref"], gone["action"]) == ("allocation/nlp/box", "release")
    text = run_text(branch, "--against", "base")
    assert "WITHDRAWN (1)" in text and "this branch would not" in text


def test_what_both_change_says_what_the_base_would(branch: Yard) -> None:
    on_base(branch, changed(TRAIN, access=["ana", "bo"]))
    git(branch, "rebase", "-q", "base")
    branch.write(changed(TRAIN, access=["ana"]))
    branch.commit("ana")
    found = against(branch).change("allocation/vision/train")
    assert found["facts"]["before"].startswith("base would: change")


def test_a_branch_behind_its_base_says_so(branch: Yard) -> None:
    on_base(branch, OTHER)
    found = against(branch)
    assert found.plan["against"]["ahead"] == 1
    assert [one["ref"] for one in found.plan["against"]["withdrawn"]] == ["allocation/vision/other"]
    assert "base has 1 commit that this branch has not" in run_text(branch, "--against", "base")
    merge_base = git(branch, "merge-base", "base", "HEAD")
    assert not against(branch, base=merge_base).plan["against"]["withdrawn"]


def run_text(yard: Yard, *words: str) -> str:
    out = io.StringIO()
    with redirect_stdout(out):
        run(["-C", str(yard.folder), "plan", *words])
    return out.getvalue()


def test_errors_of_the_branch_alone_fail_it(branch: Yard) -> None:
    on_base(branch, changed(SOLO, colour="red"))
    git(branch, "rebase", "-q", "base")
    assert against(branch).code == 0
    branch.write(changed(SMALL, colour="red"))
    branch.commit("ana")
    found = against(branch)
    assert (found.code, found.problems) == (1, ["field_unknown"])
    branch.write(SMALL, SOLO)
    branch.commit("ana")
    assert against(branch).plan["against"]["mended"] >= 1


def test_nothing_is_written_and_no_host_is_asked(branch: Yard) -> None:
    shutil.rmtree(branch.folder / ".gpuaas")
    against(branch)
    before = (
        lying_still(branch.folder),
        branch.hosts(),
        branch.rows("SELECT max(sequence) FROM event"),
    )
    assert against(branch).code == 0
    now = lying_still(branch.folder), branch.hosts(), branch.rows("SELECT max(sequence) FROM event")
    assert now == before


def test_a_clone_and_a_copy_are_enough(branch: Yard, copy: Path, tmp_path_factory) -> None:
    """No state, no key, no host, and nothing is left behind in the clone or beside the copy."""
    for path in (copy, copy.parent):
        path.chmod(0o555 if path.is_dir() else 0o444)
    with elsewhere(branch, tmp_path_factory) as clone:
        before = lying_still(clone.folder), lying_still(copy.parent)
        found = against(clone, "--state", str(copy))
        assert (found.code, found.actions) == (0, {"allocation/vision/small": "create"})
        assert (lying_still(clone.folder), lying_still(copy.parent)) == before
        assert "state_missing" in against(clone).problems


def test_old_answers_of_hosts_block_nothing(
    branch: Yard, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy is some time old, which says nothing about hosts; their age is told as it is."""
    with closing(sqlite3.connect(copy)) as database, database:
        database.execute("UPDATE observation SET at = replace(at, '2026-', '2025-')")
    found = against(branch, "--state", str(copy))
    assert found.actions == {"allocation/vision/small": "create"}
    assert not found.blocked
    assert found.plan["figures"]["observedAge"] > 100 * 86400


def test_a_copy_of_a_newer_version(branch: Yard, copy: Path) -> None:
    with closing(sqlite3.connect(copy)) as database, database:
        database.execute(f"PRAGMA user_version = {shipped_schema().version + 1}")
    found = against(branch, "--state", str(copy))
    assert found.problems == ["state_newer"] and str(copy) in found.messages


def damaged(copy: Path) -> None:
    with closing(sqlite3.connect(copy)) as database, database:
        names = database.execute(
            "SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'event'"
        ).fetchall()
        for (name,) in names:
            database.execute(f"DROP TRIGGER {name}")
        database.execute("UPDATE event SET actor = 'nobody' WHERE sequence = 3")


def cut(copy: Path) -> None:
    copy.write_bytes(copy.read_bytes()[:8192])


def foreign(copy: Path) -> None:
    copy.write_text("no database at all")


def a_pipe(copy: Path) -> None:
    copy.unlink()
    os.mkfifo(copy)


def a_folder(copy: Path) -> None:
    copy.unlink()
    copy.mkdir()


def in_use(copy: Path) -> None:
    copy.with_name(f"{copy.name}-wal").write_text("x")


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (damaged, "chain_broken"),
        (cut, "state_damaged"),
        (foreign, "state_foreign"),
        (a_pipe, "state_copy_unreadable"),
        (a_folder, "state_copy_unreadable"),
        (Path.unlink, "state_copy_unreadable"),
        (in_use, "state_copy_unreadable"),
    ],
)
def test_a_copy_that_is_none(
    branch: Yard, copy: Path, spoil: Callable[[Path], None], code: str
) -> None:
    spoil(copy)
    found = against(branch, "--state", str(copy))
    assert (found.code, found.problems[0]) == (1, code)
    assert str(copy) in found.messages and "gpuaas-" not in found.messages


@contextmanager
def served(folder: Path, keys: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Over TLS, by a certificate of its own that this process trusts."""
    pem = keys / "server.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"),
            *("-keyout", pem, "-out", keys / "cert.pem"),
        ],
        check=True,
        capture_output=True,
    )
    monkeypatch.setenv("SSL_CERT_FILE", str(keys / "cert.pem"))
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    monkeypatch.setattr(http.server.SimpleHTTPRequestHandler, "log_message", lambda *words: None)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(keys / "cert.pem", pem)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"https://localhost:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def test_a_copy_over_the_web(
    branch: Yard, copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(copy.parent, tmp_path, monkeypatch) as address:
        found = against(branch, "--state", f"{address}/{copy.name}?key=SECRET")
        assert found.actions == {"allocation/vision/small": "create"}
        gone = against(branch, "--state", f"{address}/none.db?key=SECRET")
        assert gone.problems == ["state_copy_unreadable"] and "404" in gone.messages
        assert "SECRET" not in gone.messages
        monkeypatch.setattr(
            comparison, "STATE", comparison.replace(comparison.STATE, largest=1 << 10)
        )
        large = against(branch, "--state", f"{address}/{copy.name}")
        assert large.problems == ["state_copy_unreadable"] and "more than" in large.messages


@pytest.mark.parametrize(
    "source", ["http://127.0.0.1:1/x", "file:///etc/passwd", "ftp://x/y", "https://user:SECRET@[x"]
)
def test_addresses_that_are_not_fetched(branch: Yard, source: str) -> None:
    found = against(branch, "--state", source)
    assert found.problems == ["state_copy_unreadable"] and "SECRET" not in found.messages


@pytest.mark.parametrize(
    "words",
    [
        ("--save", "x"),
        ("--refresh",),
        ("--only", "user/ana"),
        ("--uncommitted-removals",),
        ("--force-detach", "vision/train", "--reason", "x"),
    ],
)
def test_what_is_to_be_applied_is_not_compared(branch: Yard, words: tuple[str, ...]) -> None:
    assert against(branch, *words).code == 64
    assert branch.plan("--state", "x").code == 64


def test_a_variable_that_is_not_set_is_no_wish_for_another_plan(branch: Yard) -> None:
    assert against(branch, base="").problems == ["revision_unknown"]
    assert against(branch, "--state", "").problems == ["state_copy_unreadable"]
    assert branch.plan("--state", "").code == 64


def test_a_plan_of_this_sort_is_never_applied(branch: Yard) -> None:
    """Its fingerprint is none, and its document is no saved plan."""
    file = branch.folder / "x.plan"
    found = against(branch)
    assert (found.plan["fingerprint"], found.plan["shortId"], found.plan["waves"]) == ("", "", [])
    file.write_text(str(found.document))
    file.chmod(0o600)
    assert branch.apply(str(file)).problems == ["plan_damaged"]


def test_edits_that_are_not_committed_are_seen_and_said(branch: Yard) -> None:
    branch.write(OTHER)
    found = against(branch)
    assert set(found.actions) == {"allocation/vision/small", "allocation/vision/other"}
    assert found.plan["revision"]["dirty"] is True
