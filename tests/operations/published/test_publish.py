"""What users read without state, hosts or specs, and how they get in by it (rule 5)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from reconciler import shipped
from reconciler.cli.main import run
from reconciler.model.plan.lifecycle import Phase
from reconciler.model.ref import Ref
from reconciler.operations import fetch
from reconciler.operations.published import publish as published_publish
from reconciler.operations.published.publish import publish
from tests.harness.ssh_fleet import agent, book, files_below, on_the_books, shell, web
from tests.harness.sshd import Sshd, needs_sshd, sshd
from tests.harness.yard import Yard, copy_of

NAMES = {"ssh_config", "known_hosts", "status.json", "status.md"}

pytestmark = needs_sshd


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with sshd(tmp_path_factory.mktemp("door"), recorded=False) as running:
        yield running


@pytest.fixture(scope="module")
def booked(door: Sshd, tmp_path_factory: pytest.TempPathFactory) -> Yard:
    yard = on_the_books(tmp_path_factory.mktemp("booked") / "fleet", door)
    assert publish(yard.fleet(), yard.world) == ()
    return yard


@pytest.fixture
def yard(booked: Yard, tmp_path: Path) -> Yard:
    """A copy whose published files name the copy's own folder."""
    copy = copy_of(booked, tmp_path / "fleet")
    assert publish(copy.fleet(), copy.world) == ()
    return copy


def stamps(folder: Path) -> dict[str, tuple[int, int]]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(p.relative_to(folder)): (p.stat().st_ino, p.stat().st_mtime_ns) for p in files}


def test_four_files_a_project_and_nothing_of_another(booked: Yard) -> None:
    """Rule 5: readable by all, of a form that can be checked, and without secrets."""
    public = booked.folder / "public"
    assert {path.name for path in public.iterdir()} == {"vision", "nlp"}
    for project in ("vision", "nlp"):
        folder = public / project
        assert {path.name for path in folder.iterdir()} == NAMES
        assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o644}
        told = json.loads((folder / "status.json").read_text())
        jsonschema.Draft202012Validator(json.loads(shipped.schemas()["published"])).validate(told)
        assert told["project"] == project
        other = {"vision": "bert", "nlp": "train"}[project]
        assert not any(other in path.read_text() for path in folder.iterdir())
    told = json.loads((public / "vision/status.json").read_text())
    assert told["people"] == {"aortiz": "ana"}
    assert {row["ref"]: row["access"] for row in told["allocations"]} == {
        "allocation/vision/eval": ["bo"],
        "allocation/vision/train": ["ana", "bo"],
    }
    config = (public / "vision/ssh_config").read_text()
    assert "Host train.vision.gpu train.vision\n    HostName 127.0.0.1\n" in config
    assert "192.0.2.1" not in config, "users get the public address"
    assert "`train`" in (public / "vision/status.md").read_text()


def test_only_what_differs_is_written(yard: Yard) -> None:
    """Whole files, and no file is touched that says the same already."""
    public = yard.folder / "public"
    before = stamps(public)
    assert publish(yard.fleet(), yard.world) == ()
    assert stamps(public) == before
    (public / "vision/status.md").write_text("edited by hand")
    eval_ = yard.recorded("allocation/vision/eval")
    book(yard, forget=(eval_.ref,))
    assert publish(yard.fleet(), yard.world) == ()
    changed = {name for name, stamp in stamps(public).items() if before.get(name) != stamp}
    assert changed == {"vision/ssh_config", "vision/status.json", "vision/status.md"}
    assert "eval" not in (public / "vision/ssh_config").read_text()
    assert not [path for path in public.rglob("*") if path.name.startswith(".")], "no remains"


def test_who_left_takes_only_our_files_along(yard: Yard) -> None:
    """F-REC-12: folders of projects that are gone go; what only resembles ours stays."""
    public = yard.folder / "public"
    (public / "nlp/notes.txt").write_text("somebody's")
    (public / "other").mkdir()
    (public / "other/status.json").write_text('{"stateId": "another"}')
    (public / "vision-link").symlink_to(public / "vision")
    book(yard, forget=(Ref("allocation", "nlp", "bert"), Ref("project", "", "nlp")))
    assert publish(yard.fleet(), yard.world) == ()
    assert [path.name for path in (public / "nlp").iterdir()] == ["notes.txt"]
    assert (public / "other/status.json").exists()
    assert {path.name for path in (public / "vision").iterdir()} == NAMES
    (public / "nlp/notes.txt").unlink()
    (public / "nlp").rmdir()
    book(yard, forget=(Ref("grant", "vision", "bo-on-train"), Ref("allocation", "vision", "train")))
    book(yard, forget=(Ref("allocation", "vision", "eval"), Ref("project", "", "vision")))
    assert publish(yard.fleet(), yard.world) == ()
    assert not (public / "vision").exists()


def test_what_cannot_be_written_is_told(yard: Yard) -> None:
    public = yard.folder / "public"
    (public / "nlp/status.json").unlink()
    (public / "nlp/status.json").mkdir()
    (public / "vision/status.md").unlink()
    (problem,) = publish(yard.fleet(), yard.world)
    assert (problem.code, "nlp" in problem.message) == ("publish_failed", True)
    assert (public / "vision/status.md").is_file(), "the others are written all the same"


def test_nothing_is_written_where_a_link_leads(yard: Yard, tmp_path: Path) -> None:
    """SEC-04: whoever may write beside it could have our files replace those of whoever applies."""
    elsewhere, vision = tmp_path / "ssh", yard.folder / "public/vision"
    elsewhere.mkdir()
    (elsewhere / "known_hosts").write_text("mine")
    shutil.rmtree(vision)
    vision.symlink_to(elsewhere)
    (problem,) = publish(yard.fleet(), yard.world)
    assert problem.code == "publish_failed" and "link" in problem.message
    assert [path.read_text() for path in elsewhere.iterdir()] == ["mine"]


def test_only_what_is_active_is_published(yard: Yard) -> None:
    world = yard.world
    train = Ref("allocation", "vision", "train")
    releasing = replace(world.recorded[train], phase=Phase.RELEASING)
    publish(yard.fleet(), replace(world, recorded={**world.recorded, train: releasing}))
    assert "train" not in (yard.folder / "public/vision/ssh_config").read_text()


@pytest.mark.parametrize("name", ["train.vision", "train.vision.gpu"])
def test_the_published_file_logs_in(yard: Yard, door: Sshd, name: str) -> None:
    """ACC-01: the line that apply prints, by OpenSSH's own ssh and with a key of one's own."""
    config = yard.folder / "public/vision/ssh_config"
    line = ["ssh", "-F", config, "-i", door.login_key, "-o", "IdentitiesOnly=yes", name, "id -un"]
    ended = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout) == (0, "root\n"), ended.stderr


def sources(yard: Yard, tmp_path: Path) -> dict[str, tuple[list[str], Path]]:
    """Words and working folder: from the state, and from what is published, elsewhere."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    public = str(yard.folder / "public")
    return {
        "state": ([], yard.folder),
        "folder": (["--from", public], elsewhere),
        "project": (["--from", f"{public}/vision"], elsewhere),
    }


@pytest.mark.walk
@pytest.mark.parametrize("source", ["state", "folder", "project", "web"])
def test_gpuaas_ssh_logs_in(yard: Yard, door: Sshd, tmp_path: Path, source: str) -> None:
    """ALC-07: it goes on as ssh with the pins; --print is that line; nothing else is needed."""
    with web(files_below(yard.folder / "public")) as address, agent(door, tmp_path) as env:
        known = sources(yard, tmp_path)
        words, cwd = known.get(source) or (["--from", address], known["folder"][1])
        said = shell(
            "ssh", "vision/train", *words, "--", "echo", "in as $(id -un)", cwd=cwd, env=env
        )
        assert (said.returncode, said.stdout) == (0, "in as root\n"), said.stderr
        line = shell("ssh", "vision/train", *words, "--print", "echo", "42", cwd=cwd, env=env)
        pasted = subprocess.run(
            ["bash", "-c", line.stdout],
            env=env,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert pasted.stdout == "42\n", pasted.stderr
        config = tmp_path / "config"
        made = shell("ssh-config", "--project", "vision", *words, cwd=cwd, env=env)
        config.write_text(made.stdout)
        by_name = ["ssh", "-F", str(config), "train.vision.gpu", "echo by name"]
        named = subprocess.run(
            by_name, env=env, capture_output=True, text=True, timeout=60, check=False
        )
        assert named.stdout == "by name\n", named.stderr
        shown = shell("status", "--project", "vision", *words, cwd=cwd, env=env)
        assert shown.returncode == 0 and "vision/train" in shown.stdout, shown.stderr
        assert "nlp/bert" not in shown.stdout
    assert not list(cwd.iterdir()) or source == "state", "nothing is left behind"


def test_the_environment_says_where_to_read(
    yard: Yard, tmp_path: Path, monkeypatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GPUAAS_FROM", str(yard.folder / "public"))
    assert run(["show", "vision/train"]) == 0
    shown = capsys.readouterr().out
    assert "ana, bo" in shown and "ssh_config train.vision" in shown
    assert run(["status"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in ("nlp/bert", "vision/eval", "as published at"))


@pytest.mark.parametrize(
    ("login", "names"), [("aortiz", {"vision/eval", "vision/train"}), ("cem", {"nlp/bert"})]
)
@pytest.mark.parametrize("published", [True, False])
def test_mine_are_those_that_let_me_in(
    yard: Yard, monkeypatch, capsys, login: str, names: set[str], published: bool
) -> None:
    monkeypatch.setattr("reconciler.cli.status_page.os_login", lambda: login)
    where = ["--from", str(yard.folder / "public")] if published else ["-C", str(yard.folder)]
    assert run(["status", "--mine", *where, "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator(json.loads(shipped.schemas()["status"])).validate(found)
    assert {
        row["ref"].removeprefix("allocation/") for row in found["result"]["allocations"]
    } == names
    assert run(["status", "--mine", *where]) == 0
    shown = capsys.readouterr().out
    name, project = min(names).split("/")[::-1]
    assert f"ssh -F {yard.folder}/public/{project}/ssh_config {name}.{project}" in shown
    assert "home and scratch die at release" in shown


def test_what_a_killed_apply_left_half_written_goes(yard: Yard) -> None:
    """F-STA-06: files of its own under way, and nobody else's."""
    folder = yard.folder / "public/vision"
    ours, theirs = folder / ".ssh_config.k3x_9a1b", folder / ".ssh_config.mine"
    ours.write_text("Host ")
    theirs.write_text("Host ")
    assert publish(yard.fleet(), yard.world) == ()
    assert (ours.exists(), theirs.exists()) == (False, True)


def refused(*words: str, capsys: Any) -> tuple[int, str]:
    code = run([*words, "-o", "json"] if words[0] != "ssh" else list(words))
    shown = capsys.readouterr()
    return code, shown.out + shown.err


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("/no/such/folder", "no such folder"),
        ("ftp://127.0.0.1/x", "only https and http"),
        ("file:///etc", "only https and http"),
        ("http://127.0.0.1:1/x", "refused"),
    ],
)
def test_a_source_that_is_none_is_named(source: str, why: str, capsys) -> None:
    code, said = refused("status", "--from", source, capsys=capsys)
    assert (code, "published_unreadable" in said, why in said) == (1, True, True), said


def test_a_folder_without_files_tells_nothing(tmp_path: Path, capsys) -> None:
    assert refused("status", "--from", str(tmp_path), capsys=capsys)[0] == 0
    code, said = refused("ssh", "vision/train", "--from", str(tmp_path), capsys=capsys)
    assert code == 1 and "published_unreadable" in said
    assert refused("ssh", "user/ana", "--from", str(tmp_path), capsys=capsys)[0] == 64


HOSTILE: dict[str, Any] = {
    "another project": {"project": "nlp"},
    "an option": {"endpoints": [{"address": "-oProxyCommand=touch /tmp/gpuaas-forged"}]},
    "a line": {"endpoints": [{"login": "root\n    ProxyCommand sh"}]},
    "no keys": {"endpoints": [{"hostKeys": []}]},
    "another's endpoint": {"endpoints": [{"ref": "allocation/nlp/train"}]},
    "another's row": {"allocations": [{"ref": "allocation/nlp/train"}]},
    "a wrong type": {"allocations": [{"owner": ["ana"]}]},
    "an unknown field": {"more": 1},
    "a newer version": {"schemaVersion": 2},
}


@pytest.mark.parametrize("what", HOSTILE)
def test_what_others_publish_is_data(yard: Yard, what: str, capsys) -> None:
    """ALC-05, F-CLI-03: a forged file is refused as a whole, with the place of what is wrong."""
    file = yard.folder / "public/vision/status.json"
    told = json.loads(file.read_text())
    for key, value in HOSTILE[what].items():
        if isinstance(value, list):
            told[key][1].update(value[0])
        else:
            told[key] = value
    file.write_text(json.dumps(told))
    code, said = refused(
        "ssh", "vision/train", "--print", "--from", str(yard.folder / "public"), capsys=capsys
    )
    assert (code, "published_unreadable" in said) == (1, True), said
    assert not Path("/tmp/gpuaas-forged").exists()


@pytest.mark.parametrize("what", ["pipe", "zero"])
def test_what_others_lay_where_is_published_is_a_file_or_nothing(
    yard: Yard, what: str, capsys
) -> None:
    """Neither a reader nor the next apply waits for a pipe or reads without end."""
    file = yard.folder / "public/vision/status.json"
    file.unlink()
    os.mkfifo(file) if what == "pipe" else file.symlink_to("/dev/zero")
    words = ("--project", "vision", "--from", str(yard.folder / "public"))
    code, said = refused("status", *words, capsys=capsys)
    assert (code, "published_unreadable" in said) == (1, True), said
    assert published_publish._whose(file.parent) == ""
    assert not published_publish._stands(file, b"x")


@pytest.mark.walk
def test_the_web_is_read_within_bounds(tmp_path: Path, capsys, monkeypatch) -> None:
    """Not found, no JSON, a way out of the web, too much, too slow: each says so."""
    monkeypatch.setattr(fetch, "SECONDS", 1)
    want = replace(fetch.PUBLISHED, seconds=1, largest=1000)
    monkeypatch.setattr(fetch, "PUBLISHED", want)

    def answer(request: Any) -> None:
        what = request.path.split("/")[1]
        request.send_response({"away": 302, "gone": 404}.get(what, 200))
        if what == "away":
            request.send_header("Location", "file:///etc/passwd")
        request.end_headers()
        if what == "big":
            request.wfile.write(b" " * 2000)
        if what == "chunks":
            request.wfile.write(b" " * 700)
        for _ in range(30 if what in ("slow", "chunks") else 0):
            request.wfile.write(b" ")
            time.sleep(0.1)
        request.wfile.write(b"<html>")

    expected = {
        "gone": "404",
        "page": "no JSON",
        "away": "redirects to file:///etc/passwd",
        "big": "more than",
        "slow": "1 s",
        "chunks": "1 s",
    }
    with web(answer) as address:
        for what, why in expected.items():
            source = f"{address}/{what}"
            code, said = refused("status", "--project", "p", "--from", source, capsys=capsys)
            assert (code, "published_unreadable" in said, why in said) == (1, True, True), said


def test_who_cannot_be_reached_is_told_why(yard: Yard, capsys) -> None:
    fleet = ["-C", str(yard.folder)]
    assert refused("ssh", "vision/no-such", *fleet, capsys=capsys)[0] == 1
    world = yard.world
    train = Ref("allocation", "vision", "train")
    book(yard, replace(world.recorded[train], phase=Phase.RELEASING))
    publish(yard.fleet(), yard.world)
    for where in (fleet, ["--from", str(yard.folder / "public")]):
        code, said = refused("ssh", "vision/train", *where, capsys=capsys)
        assert (code, "no_endpoint" in said, "releasing" in said) == (1, True, True), said


def test_without_a_published_folder_the_state_is_read(yard: Yard, capsys) -> None:
    """Apply and status then name the command of ours, which has the pins."""
    (yard.folder / "gpuaas.yaml").write_text("operators: [olga]\n")
    assert publish(yard.fleet(), yard.world) == ()
    rows = yard.gpuaas("status").document["result"]["allocations"]
    assert rows[-1]["wayIn"] == "gpuaas ssh vision/train"
    assert run(["-C", str(yard.folder), "ssh-config"]) == 0
    shown = capsys.readouterr().out
    assert "Host train.vision\n" in shown and "KnownHostsCommand" in shown
