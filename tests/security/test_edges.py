"""Hostile texts by every other way in: names of files, git, command lines, the environment."""

from __future__ import annotations

import io
import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

import pytest

from reconciler.cli.exit_codes import Exit
from reconciler.cli.main import run
from reconciler.model.ref import Ref
from reconciler.model.spec.document import NoCache
from reconciler.operations.fleet import os_login
from reconciler.specs.desired import load_desired
from reconciler.specs.git.origins import origins
from reconciler.specs.read.library import revision
from reconciler.specs.settings import load_settings
from tests.harness.yard import Yard, laid
from tests.planner import fleet as paper
from tests.security.corpus import HOSTILE, NO_TEXT, PLACE
from tests.security.test_fields import SCHEMAS

SHORT = [text for text in HOSTILE if len(text) < 300]
TYPED = [text for text in HOSTILE if "\0" not in text]
"""A program is never given a zero byte in its arguments or its environment."""
SOME = TYPED[::6]


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Yard:
    """A sound fleet with a state, nothing applied."""
    return laid(
        tmp_path_factory.mktemp("edges"), {"gpu01": 2}, paper.allocation("train", node="gpu01")
    )


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Whatever is written to a place that a text names is written here, and no order is obeyed."""
    place = tmp_path / "a" / "b" / "c"
    place.mkdir(parents=True)
    monkeypatch.chdir(place)
    yield place
    assert not os.path.lexists(PLACE)


class Answer(NamedTuple):
    code: int
    shown: str


def typed(yard: Yard, *words: str) -> Answer:
    """What a person sees of a command: no line of it steers the terminal, and none is a defect."""
    out, told = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(told):
        code = run(["-C", str(yard.folder), *words])
    shown = out.getvalue() + told.getvalue()
    assert all(line.isprintable() for line in shown.split("\n")), (words, shown)
    assert "[internal_error]" not in shown, (words, shown)
    assert code in Exit.__members__.values()
    return Answer(code, shown)


REFS = ("show {}", "plan --only {}", "apply --auto-approve --only {}", "events {}", "explain {}")
REFS += ("grant list --allocation {}", "ssh --print {}")
WORDS = ("{}", "schema {}", "plan {}", "plan -o {}", "plan --risk {}", "plan --{}", "completion {}")
WORDS += ("node bootstrap --print --login {}", "events --after {}", "-{}", "--{}")


FORMS = (*REFS, *WORDS)


@pytest.mark.parametrize("step", [6, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("form", FORMS)
def test_what_is_no_such_thing_is_refused_before_anything_is_opened(
    yard: Yard, form: str, step: int
) -> None:
    """Each text with some forms, and by `make slow` with each."""
    for text in TYPED[FORMS.index(form) % step :: step]:
        answer = typed(yard, *(word.format(text) for word in form.split(" ")))
        if text not in HARMLESS:
            assert answer.code in (Exit.USAGE, Exit.ERROR), (form, text)


HARMLESS = frozenset({"", "--help", "--", "-", "allocation", "all", "1_000", "１２"})
"""Nothing, a help, a kind, and what Python takes for numbers."""
NAMES = ("node show {}", "node approve {}", "node approve gpu01 --slot {}", "status --project {}")
NAMES += ("grant list --user {}", "ssh-config --project {}", "ssh vision/train --print {}")
NAMES += ("node discover 192.0.2.1 --host-key {}",)
FILES = ("apply {}", "state restore {}", "status --from {}", "ssh-config --from {}", "validate {}")
FILES += ("node bootstrap --print --key {}",)


@pytest.mark.parametrize("form", [*NAMES, *FILES])
def test_names_and_files_that_there_are_not(yard: Yard, elsewhere: Path, form: str) -> None:
    known = everything(yard)
    for text in SOME:
        if not (form in FILES and text.startswith(("/", ".", "~"))):
            typed(yard, *(word.format(text) for word in form.split(" ")))
    assert everything(yard) == known
    assert not list(elsewhere.iterdir())


def everything(yard: Yard) -> set[Path]:
    return set(yard.folder.rglob("*")) - {yard.folder / "state/lock"}


@pytest.mark.parametrize("form", ["plan --save {}", "state backup {}"])
def test_files_are_written_where_they_are_named_and_nowhere_else(
    yard: Yard, elsewhere: Path, form: str
) -> None:
    for text in SOME:
        if "/" in text or text in ("", "~", ".", ".."):
            continue
        answer = typed(yard, *(word.format(text) for word in form.split(" ")))
        made = list(elsewhere.iterdir())
        refused = answer.code in (Exit.USAGE, Exit.ERROR)
        assert [path.name for path in made] == ([] if refused else [text])
        for path in made:
            path.unlink()
    assert [path.name for path in elsewhere.parent.iterdir()] == ["c"]


def test_arguments_that_are_no_text_are_refused(yard: Yard) -> None:
    for raw in NO_TEXT:
        answer = typed(yard, "plan", "--save", os.fsdecode(raw))
        assert answer.code == Exit.USAGE
        assert "is no UTF-8" in answer.shown


@pytest.mark.parametrize("name", ["GPUAAS_FROM", "COLUMNS", "NO_COLOR", "TERM", "GPUAAS_STOP_AT"])
def test_no_variable_is_an_order(yard: Yard, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for text in SOME[::2]:
        monkeypatch.setenv(name, text)
        typed(yard, "status")


def test_whoever_is_at_work_is_a_text_of_bounded_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.environ", dict(os.environ))
    for text in filter(None, TYPED):
        os.environ["LOGNAME"] = text
        assert os_login() == text[:256]
    for raw in NO_TEXT:
        os.environ["LOGNAME"] = os.fsdecode(raw)
        assert os_login().encode()


def user(name: str) -> bytes:
    return json.dumps(paper.user(name)).encode()


def test_files_by_any_name_are_read_or_told_of(tmp_path: Path) -> None:
    """F-PAR-14 in all its forms: nothing is overlooked, and no name steers what is shown."""
    (tmp_path / "gpuaas.yaml").write_text("operators: [olga]\n")
    names = {text: f"{text}.yaml" for text in TYPED if is_file_name(f"{text}.yaml")}
    for number, name in enumerate(names.values()):
        folder = tmp_path / "specs" / f"d{name.removesuffix('.yaml')}"
        folder.mkdir(parents=True, exist_ok=True)
        (tmp_path / "specs" / name).write_bytes(user(f"file-{number}"))
        (folder / "x.yaml").write_bytes(user(f"folder-{number}"))
    for raw in NO_TEXT:
        Path(os.fsdecode(os.fsencode(tmp_path / "specs") + b"/" + raw + b".yaml")).write_bytes(b"a")
    found = load_desired(load_settings(tmp_path, SCHEMAS["settings"]), SCHEMAS, NoCache())
    read = {one.ref.name: one.file for one in found.resources.values()}
    strange = 0
    for number, name in enumerate(names.values()):
        if name.isprintable():
            assert read.pop(f"folder-{number}") == f"specs/d{name.removesuffix('.yaml')}/x.yaml"
            assert name.startswith(".") or read.pop(f"file-{number}") == f"specs/{name}"
        else:
            strange += 2 - name.startswith(".")
    assert not read
    assert {problem.code for problem in found.problems} == {"file_unreadable"}
    assert len(found.problems) == len(found.broken) == strange + len(NO_TEXT)
    assert all(problem.source.file.isprintable() for problem in found.problems if problem.source)


def is_file_name(name: str) -> bool:
    return "/" not in name and len(name.encode()) < 256


def test_authors_and_messages_of_commits_are_what_git_says(tmp_path: Path) -> None:
    """Whoever may commit may write any name there: it neither hides nor makes up a commit."""
    names = [text for text in HOSTILE if not set(text) & set("\0\n<>") and text.strip() == text]
    forged = f"x\x01{'0' * 40}\x1folga\x1folga@corp.example"
    authors = [*(name.encode() for name in (*names, forged)), *(b"a" + raw for raw in NO_TEXT)]
    repository(tmp_path, authors)
    settings = load_settings(tmp_path, SCHEMAS["settings"])
    assert revision(settings).dirty is False
    files = {Ref("user", "", f"u{at}"): f"specs/u{at}.yaml" for at in range(len(authors))}
    found = origins(settings, files, (), NoCache())
    told = git(tmp_path, "log", "--reverse", "--format=%H").decode().split()
    for name, author, commit in zip(files, authors, told, strict=True):
        shown = author.decode("utf-8", "backslashreplace")
        one = found[name]
        assert (one.commit, one.author, one.email) == (commit, shown, f"{shown}@x")
        assert one.signed is False


def repository(folder: Path, authors: Sequence[bytes]) -> None:
    """A commit by each, its message the same text, which touches one file."""
    (folder / "gpuaas.yaml").write_text("operators: [olga]\n")
    stream = [b"feature done\n"]
    for number, author in enumerate(authors):
        who = b"%s <%s@x> 1700000000 +0000\n" % (author, author)
        content = user(f"u{number}")
        stream += [b"commit refs/heads/main\nauthor ", who, b"committer ", who]
        stream += [b"data %d\n%s\n" % (len(author), author)]
        stream += [b"M 100644 inline specs/u%d.yaml\ndata %d\n" % (number, len(content)), content]
        stream += [b"\nM 100644 inline gpuaas.yaml\ndata 18\noperators: [olga]\n\n"]
    git(folder, "init", "-q", "-b", "main")
    git(folder, "fast-import", "--quiet", given=b"".join([*stream, b"done\n"]))
    git(folder, "reset", "-q", "--hard")


def git(folder: Path, *words: str, given: bytes = b"") -> bytes:
    return subprocess.run(
        ["git", "-C", folder, *words], input=given, check=True, capture_output=True
    ).stdout
