"""`gpuaas new` and `gpuaas edit` as people meet them: at a real terminal, and without one."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import yaml

from reconciler.cli.commands import edit as edit_command
from reconciler.cli.main import COMMANDS
from reconciler.cli.main import run as command_line
from reconciler.cli.screen import Screen
from reconciler.cli.text import cells
from tests.cli.commands.test_processes import PROGRAM, Shell
from tests.harness.terminal import BACK, CODES, OWN, Terminal
from tests.harness.yard import Yard, copy_of, laid, project
from tests.planner import fleet as paper

VISION = project("vision", "ana", "bo", "cem")
VISION["spec"]["entitlements"]["storageClasses"] = ["disk"]
VISION["spec"]["quota"]["storageGiB"] = 100
FILE = "specs/project/train.yaml"
ANSWERS = ("vision", "1", "train", "ana", "bo, 2", "14d", "1:ro", "")
"""Of an allocation: project, SKU, name, owner, others, end, storage, runtime."""


@pytest.fixture(scope="session")
def launched(tmp_path_factory: pytest.TempPathFactory) -> Yard:
    """One host, two projects, and one storage; nothing was allocated yet."""
    yard = laid(
        tmp_path_factory.mktemp("launch") / "fleet",
        {"gpu01": 2},
        VISION,
        paper.storage_class("disk", directory={"path": "/srv/disk"}),
        paper.storage("datasets", "disk"),
    )
    assert yard.plan("--refresh").code == 0
    assert yard.apply().code == 0
    return yard


@pytest.fixture
def yard(launched: Yard, tmp_path: Path) -> Yard:
    return copy_of(launched, tmp_path / "fleet")


def files(yard: Yard) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in yard.specs.rglob("*") if path.is_file()}


pytestmark = pytest.mark.walk

# -- the flow


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (40, 24), (80, 60)])
def test_the_flow_ends_in_a_file_that_is_carried_out(yard: Yard, columns: int, rows: int) -> None:
    """LCH-02, LCH-04: full screen, step by step, and the file is applied as it was written."""
    terminal = Terminal(yard.folder, "new", "allocation", columns=columns, rows=rows)
    terminal.answer(*ANSWERS)
    review = CODES.sub("", terminal.wait_for_question())
    for word in ("kind: Allocation", "file", "rate", "2.10 EUR/h", "lasts", "datasets"):
        assert word in review, f"the review does not show {word}"
    assert "outlive" in review and not (yard.folder / FILE).exists()
    terminal.say("yes")
    assert terminal.end() == 0, terminal.text

    assert max(cells(line) for line in terminal.lines) <= max(columns, len(FILE) + 20)
    assert terminal.shown.count(OWN) == terminal.shown.count(BACK) >= 1
    after = terminal.shown.rpartition(BACK)[2]
    assert "new" in after and "gpuaas plan" in after, "what it did stays on the screen"
    said = CODES.sub("", after)
    assert "git add" in said and "git diff" in said

    spec = yaml.safe_load((yard.folder / FILE).read_text())["spec"]
    assert spec.pop("expiresAt").endswith(":00:00Z")
    assert spec == {
        "sku": "slice-1",
        "owner": "ana",
        "access": ["ana", "bo", "cem"],
        "storage": [{"name": "datasets", "mode": "ro"}],
    }
    assert not yard.gpuaas("validate").document["problems"]
    before = files(yard)
    assert yard.plan().actions["allocation/vision/train"] == "create"
    assert yard.apply().code == 0
    assert files(yard) == before


def test_nobody_answers_for_a_file_that_cannot_be(yard: Yard) -> None:
    taken = str(yard.file(VISION))
    for words in (("--file", taken), ("--file", "specs/x.txt"), ("--commit",)):
        if words == ("--commit",):
            shutil.rmtree(yard.folder / ".git", ignore_errors=True)
        terminal = Terminal(yard.folder, "new", "allocation", *words)
        assert terminal.end() == 1, terminal.text
        assert "[compute]" not in terminal.text


def test_each_page_says_where_one_is(yard: Yard) -> None:
    """LCH-03: the steps stand on every page in the seed's order, storage among them."""
    terminal = Terminal(yard.folder, "new", "allocation")
    for text in ANSWERS:
        page = CODES.sub("", terminal.wait_for_question())
        head = next(line for line in page.splitlines() if "review" in line)
        words = head.replace("[", "").replace("]", "").split(" · ")
        assert words == ["compute", "access", "storage", "runtime", "review"]
        terminal.say(text)
    terminal.answer("no")
    assert terminal.end() == 5
    assert "[compute] · access" in terminal.text and "[storage] · runtime" in terminal.text


def test_bad_answers_are_explained_and_asked_again(yard: Yard) -> None:
    terminal = Terminal(yard.folder, "new", "allocation", "--project", "vision", "--owner", "ana")
    terminal.answer("slice-3", "", "99", "?", "1")
    terminal.answer("Train", "../x", "a" * 33, "train")
    terminal.answer("eve", "bo,bo", "")
    terminal.answer("yesterday", "0d", "")
    terminal.answer("nothing", "datasets:wr", "", "")
    terminal.answer("perhaps", "yes")
    assert terminal.end() == 0, terminal.text
    for words in (
        "'slice-3' is no SKU to choose; did you mean `slice-",
        "this needs an answer",
        "there is no choice 99: 1 to 3",
        "SKU to order, of those",
        "'Train' is no name",
        "'../x' is no name",
        "'eve' is no member",
        "bo is named twice",
        "'yesterday' is no time",
        "is no storage",
        "yes writes the file",
    ):
        assert words in terminal.text.replace("\n  ", " "), words


def test_back_leads_to_the_question_before(yard: Yard) -> None:
    terminal = Terminal(yard.folder, "new", "allocation", "train", "--project", "vision")
    terminal.answer("<", "1", "ana", "bo", "<", "<", "bo", "", "", "", "")
    terminal.answer("<", "", "yes")
    assert terminal.end() == 0, terminal.text
    assert yaml.safe_load((yard.folder / FILE).read_text())["spec"] == {
        "sku": "slice-1",
        "owner": "bo",
    }


@pytest.mark.parametrize("answered", [0, 2, len(ANSWERS)])
@pytest.mark.parametrize(("key", "code"), [("c", 130), ("d", 1)])
def test_whoever_leaves_has_written_nothing(yard: Yard, answered: int, key: str, code: int) -> None:
    """Ctrl-C and the end of input, at the first question, in the midst and at the review."""
    before = files(yard)
    terminal = Terminal(yard.folder, "new", "allocation", "--commit")
    terminal.answer(*ANSWERS[:answered])
    terminal.wait_for_question()
    terminal.press(key)
    assert terminal.end() == code, terminal.text
    assert files(yard) == before
    assert terminal.shown.count(OWN) == terminal.shown.count(BACK)
    assert "Traceback" not in terminal.text
    assert ("interrupted" if key == "c" else "input_ended") in terminal.text


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xfe\n",
        b"\x1b[A\x1b[B\n",
        b"a\x00b\n",
        b"\x1b]0;x\x07\n",
        "\u202e\u2066evil\n".encode(),
        b"x" * 4000 + b"\n",
        b"{a: b}\n",
        b"a\tb\n",
    ],
    ids=lambda data: ascii(data[:12]),
)
def test_whatever_is_typed_is_text(yard: Yard, data: bytes) -> None:
    words = ("--project", "vision", "--sku", "slice-1", "--owner", "ana")
    terminal = Terminal(yard.folder, "new", "allocation", *words)
    terminal.wait_for_question()
    terminal.send(data)
    again = terminal.wait_for_question()
    note = CODES.sub("", again).rpartition("\n!")[2]
    assert "is no name" in note or "one line without control characters" in note
    assert "\u202e" not in note and "\x1b" not in note and len(note) < 1000
    terminal.press("c")
    assert terminal.end() == 130
    assert "Traceback" not in terminal.text


def test_what_is_no_text_is_no_answer(yard: Yard) -> None:
    """Of another encoding, say; it is not written with escapes in the place of letters."""
    words = ("eve", "--email", "eve@corp.example", "--os-login", "eve")
    terminal = Terminal(yard.folder, "new", "user", *words)
    terminal.wait_for_question()
    terminal.send("Jürgen\n".encode("latin-1"))
    assert "one line without control characters" in CODES.sub("", terminal.wait_for_question())
    terminal.say("Jürgen")
    terminal.answer("")
    assert 'displayName: "Jürgen"' in CODES.sub("", terminal.wait_for_question())
    terminal.press("c")
    assert terminal.end() == 130


def test_a_terminal_that_closes_ends_it(yard: Yard) -> None:
    before = files(yard)
    terminal = Terminal(yard.folder, "new", "allocation")
    terminal.answer("vision")
    terminal.hang_up()
    assert files(yard) == before


def test_without_colour_and_on_a_plain_terminal(yard: Yard) -> None:
    terminal = Terminal(yard.folder, "--no-color", "new", "allocation", TERM="dumb")
    terminal.answer(*ANSWERS, "yes")
    assert terminal.end() == 0, terminal.text
    assert "\x1b" not in terminal.shown


def test_yes_asks_nothing_and_print_writes_nothing(yard: Yard) -> None:
    words = ("--project", "vision", "--sku", "slice-1", "--owner", "ana")
    printed = Terminal(yard.folder, "new", "allocation", "train", *words, "--print", "--yes")
    assert printed.end() == 0
    assert "kind: Allocation" in printed.text and not (yard.folder / FILE).exists()
    assert Terminal(yard.folder, "new", "allocation", "train", *words, "--yes").end() == 0
    assert (yard.folder / FILE).exists()


def test_people_and_their_keys_are_asked_for_one_by_one(yard: Yard) -> None:
    terminal = Terminal(yard.folder, "new", "user", "eve")
    terminal.answer("eve", "eve@corp.example", "eve@home.example", "", "Eve", "", "", "yes")
    assert terminal.end() == 0, terminal.text
    assert yaml.safe_load((yard.specs / "user/eve.yaml").read_text())["spec"] == {
        "displayName": "Eve",
        "emails": ["eve@corp.example", "eve@home.example"],
    }


def test_what_the_fleet_refuses_can_be_put_right(yard: Yard) -> None:
    """The review is the first to see the whole: from there one goes back, or leaves."""
    words = ("--project", "vision", "--sku", "slice-1", "--owner", "ana")
    terminal = Terminal(yard.folder, "new", "allocation", "train", *words)
    terminal.answer("", "", "datasets:rw:/data/../etc", "")
    page = CODES.sub("", terminal.wait_for_question())
    assert "value_pattern" in page
    terminal.say("<")
    terminal.answer("<", "", "", "yes")
    assert terminal.end() == 0, terminal.text


# -- without a terminal


def run(yard: Yard, *words: str) -> subprocess.CompletedProcess[str]:
    return Shell(yard.folder)(*words)


def test_without_a_terminal_nothing_is_asked(yard: Yard) -> None:
    """LCH-04: options for who is not at a terminal; what is missing is named by its option."""
    before = files(yard)
    missing = run(yard, "new", "allocation", "--project", "vision")
    assert missing.returncode == 64
    assert "--sku, NAME, --owner" in missing.stderr and "\x1b" not in missing.stderr
    assert files(yard) == before
    words = ("--project", "vision", "--sku", "slice-1", "--owner", "ana")
    done = run(yard, "new", "allocation", "train", *words)
    assert done.returncode == 0 and "\x1b" not in done.stdout + done.stderr
    assert (yard.folder / FILE).exists()
    assert "2.10 EUR/h" in done.stdout and "nothing outlives the release" in done.stdout


def test_with_half_a_terminal_nothing_is_asked(yard: Yard) -> None:
    """Whose output goes to a file would not see the questions."""
    terminal = Terminal(yard.folder, "new", "allocation", "--print", output="out.txt")
    assert terminal.end() == 64
    assert "--project" in terminal.text and not (yard.folder / "out.txt").read_text()


def test_print_is_the_document_alone(yard: Yard) -> None:
    words = ("--project", "vision", "--sku", "slice-1", "--owner", "ana")
    done = run(yard, "new", "allocation", "train", *words, "--print")
    assert yaml.safe_load(done.stdout)["kind"] == "Allocation"
    assert "2.10 EUR/h" in done.stderr
    shown = json.loads(run(yard, "new", "allocation", "train", *words, "-o", "json").stdout)
    assert shown["result"]["yaml"] == (yard.folder / FILE).read_text()
    both = run(yard, "new", "allocation", "x", *words, "--print", "--commit")
    assert both.returncode == 64


def test_choices_are_completed(yard: Yard) -> None:
    def completed(*words: str) -> str:
        line = " ".join(["gpuaas", *words])
        env = {"_GPUAAS_COMPLETE": "bash_complete", "COMP_WORDS": line}
        env["COMP_CWORD"] = str(len(words))
        script = "from reconciler.cli.main import cli; from reconciler.cli.arguments."
        script += "global_options import Options; cli.main(prog_name='gpuaas', obj=Options())"
        return subprocess.run(
            [PROGRAM[0], "-c", script],
            cwd=yard.folder,
            env={**os.environ, **env},
            capture_output=True,
            text=True,
            check=False,
        ).stdout

    assert "plain,slice-2" in completed(
        "new", "allocation", "--project", "vision", "--sku", "slice-2"
    )
    assert "plain,grant" in completed("new", "gr")


# -- the editor


@pytest.fixture
def editor(tmp_path: Path) -> Path:
    """An editor that changes what a file beside it says, and counts how often it was opened."""
    script = tmp_path / "editor.sh"
    script.write_text(
        f'#!/bin/sh\necho x >> {tmp_path}/opened\nsed -i "$(cat {tmp_path}/change)" "$1"\n'
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return script


def test_an_editor_edits_a_copy_that_takes_its_place_once_it_is_sound(
    yard: Yard, editor: Path, tmp_path: Path
) -> None:
    yard.write(paper.allocation("train"))
    file = yard.file(paper.allocation("train"))
    before = file.read_text()
    change = tmp_path / "change"
    change.write_text("s/owner: ana/owner: nobody/")
    terminal = Terminal(
        yard.folder, "edit", "vision/train", VISUAL=str(editor), TMPDIR=str(tmp_path)
    )
    assert "there is no user/nobody" in CODES.sub("", terminal.wait_for_question())
    assert file.read_text() == before
    change.write_text("s/owner: nobody/owner: bo/")
    terminal.say("yes")
    assert terminal.end() == 0, terminal.text
    assert file.read_text() == before.replace("owner: ana", "owner: bo")
    assert "+  owner: bo" in terminal.text and "git diff" in terminal.text
    assert not list(tmp_path.glob("gpuaas-edit-*"))
    assert (tmp_path / "opened").read_text().count("x") == 2


def test_what_was_written_in_an_editor_is_never_lost(
    yard: Yard, editor: Path, tmp_path: Path
) -> None:
    yard.write(paper.allocation("train"))
    file = yard.file(paper.allocation("train"))
    before = file.read_text()
    change = tmp_path / "change"
    change.write_text("s/owner: ana/owner: nobody/")
    env = {"EDITOR": str(editor), "VISUAL": "", "TMPDIR": str(tmp_path)}
    for key, code in (("no", 5), ("c", 130), ("d", 5)):
        terminal = Terminal(yard.folder, "edit", "vision/train", **env)
        terminal.wait_for_question()
        terminal.say(key) if key == "no" else terminal.press(key)
        assert terminal.end() == code, terminal.text
        (kept,) = tmp_path.glob("gpuaas-edit-*/*.yaml")
        assert str(kept) in terminal.text.replace("\n", "").replace("  ", "")
        assert "owner: nobody" in kept.read_text() and file.read_text() == before
        shutil.rmtree(kept.parent)
    theirs = before.replace("slice-1", "slice-2")
    editor.write_text(
        f'#!/bin/sh\nsed -i "s/owner: ana/owner: bo/" "$1"\nsed -i "s/slice-1/slice-2/" {file}\n'
    )
    terminal = Terminal(yard.folder, "edit", "vision/train", **env)
    assert terminal.end() == 1 and "file_changed" in terminal.text
    assert file.read_text() == theirs
    (kept,) = tmp_path.glob("gpuaas-edit-*/*.yaml")
    assert "owner: bo" in kept.read_text()


def test_an_editor_that_changes_nothing_or_fails(yard: Yard, tmp_path: Path) -> None:
    yard.write(paper.allocation("train"))
    before = files(yard)
    env = {"VISUAL": "true", "TMPDIR": str(tmp_path)}
    terminal = Terminal(yard.folder, "edit", "vision/train", **env)
    assert terminal.end() == 0 and "Nothing was written" in terminal.text
    for bad in ("false", "/no/such/editor", "'unbalanced"):
        terminal = Terminal(yard.folder, "edit", "vision/train", **{**env, "VISUAL": bad})
        assert terminal.end() == 64, terminal.text
        assert "Editing failed" in terminal.text or "$VISUAL" in terminal.text
    assert files(yard) == before and not list(tmp_path.glob("gpuaas-edit-*"))
    away = run(yard, "edit", "vision/train")
    assert away.returncode == 64 and "--set" in away.stderr


SLOW_EDITOR = """
import pathlib, signal, sys, time
signal.signal(signal.SIGINT, lambda *words: pathlib.Path({there!r}, "pressed").touch())
print("VALUE: ", end="", flush=True)
while not pathlib.Path({there!r}, {until!r}).exists():
    time.sleep(0.01)
copy = pathlib.Path(sys.argv[1])
copy.write_text(copy.read_text().replace("owner: ana", "owner: bo"))
"""


def slow_editor(folder: Path, until: str) -> str:
    script = folder / "slow editor.py"
    script.write_text(SLOW_EDITOR.format(there=str(folder), until=until))
    return f"{sys.executable} '{script}'"


def test_keys_that_end_a_command_are_the_editors_while_it_is_open(
    yard: Yard, tmp_path: Path
) -> None:
    yard.write(paper.allocation("train"))
    env = {"VISUAL": slow_editor(tmp_path, "pressed"), "TMPDIR": str(tmp_path)}
    terminal = Terminal(yard.folder, "edit", "vision/train", **env)
    terminal.wait_for_question()
    terminal.press("c")
    assert terminal.end() == 0, terminal.text
    assert "owner: bo" in yard.file(paper.allocation("train")).read_text()
    assert not list(tmp_path.glob("gpuaas-edit-*"))


def test_what_an_editor_that_outlives_the_command_saves_is_kept(yard: Yard, tmp_path: Path) -> None:
    yard.write(paper.allocation("train"))
    before = files(yard)
    env = {"VISUAL": slow_editor(tmp_path, "go"), "TMPDIR": str(tmp_path)}
    terminal = Terminal(yard.folder, "edit", "vision/train", **env)
    terminal.wait_for_question()
    terminal.kill(signal.SIGTERM)
    terminal.wait_for("what you wrote is in")
    (tmp_path / "go").touch()
    assert terminal.end() == 130, terminal.text
    (kept,) = tmp_path.glob("gpuaas-edit-*/*.yaml")
    assert "owner: bo" in kept.read_text() and files(yard) == before


def test_whatever_fails_leaves_what_somebody_wrote(
    yard: Yard, editor: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    yard.write(paper.allocation("train"))
    (tmp_path / "change").write_text("s/owner: ana/owner: bo/")
    monkeypatch.setenv("VISUAL", str(editor))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(Screen, "can_converse", True)

    def fails(*words: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(edit_command, "finish", fails)
    assert command_line(["-C", str(yard.folder), "edit", "vision/train"]) == 1
    (kept,) = tmp_path.glob("gpuaas-edit-*/*.yaml")
    assert "owner: bo" in kept.read_text()


# -- after the create


AFTER_CREATE = {
    "SSH access": ("ssh", "grant add", "edit"),
    "attached storage": ("storage attach", "storage detach"),
    "managed runtime": ("bundle use", "bundle drop"),
    "restart": ("restart",),
    "more time": ("extend",),
    "metrics and health": ("show", "status"),
    "activity and evidence": ("timeline", "evidence"),
}


def test_each_part_of_an_allocation_has_its_command() -> None:
    """VIS-08: what is managed after the create, and by which command; all stand on the page."""
    page = (Path(__file__).parents[3] / "docs/new.md").read_text()
    for what, commands in AFTER_CREATE.items():
        for command in commands:
            assert command.split()[0] in COMMANDS
            assert f"gpuaas {command}" in page, f"{what}: {command}"
