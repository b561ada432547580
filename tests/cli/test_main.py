"""From arguments to an exit code: lazy loading, wrong usage, interrupts, defects."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from reconciler.cli import boundary
from reconciler.cli.main import ALIASES, COMMANDS, cli, run
from reconciler.model.problem import Problem, ProblemError, refuse

HEAVY = "rich jinja2 ansible_runner jsonschema sqlite_utils yaml reconciler.operations"


def gpuaas(*arguments: str, **more: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **more.pop("env", {})}  # type: ignore[dict-item]
    program = "import sys; from reconciler.cli.main import main; main()"
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        env=environment,
        timeout=60,
        check=False,
        **more,  # type: ignore[call-overload]
    )


def test_start_loads_nothing_but_click() -> None:
    program = (
        "import sys; from reconciler.cli.main import run; code = run(['--version']);"
        f"print([name for name in {HEAVY.split()!r} if name in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert shown.stdout.splitlines() == ["gpuaas 0.1.0", "[]"]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_says_what_help_says_of_it(name: str) -> None:
    command = cli.get_command(None, name)  # type: ignore[arg-type]
    assert command is not None
    assert command.name == name
    assert (command.help or "").split("\n")[0] == COMMANDS[name]
    for param in command.params:
        if param.param_type_name == "option":
            assert param.help, f"{name} {param.name}"  # type: ignore[attr-defined]


@pytest.mark.parametrize("alias", ALIASES)
def test_aliases_lead_to_commands(alias: str) -> None:
    assert ALIASES[alias].split()[0] in COMMANDS
    first, *verbs = ALIASES[alias].split()
    found = cli.get_command(None, first)  # type: ignore[arg-type]
    for verb in verbs:
        found = found.commands[verb]  # type: ignore[union-attr]
    assert cli.get_command(None, alias) is found  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "arguments",
    [
        ["plon", "-o", "json"],
        ["version", "--no-such-option", "-o", "json"],
        ["version", "spare", "-ojson"],
        ["schema", "--output=json"],
        ["state", "chek", "-o", "json"],
        ["plan", "-o", "json", "--only", "../etc"],
    ],
)
def test_wrong_usage_is_one_document(arguments: list[str], capsys) -> None:
    """F-CLI-01: argument errors are JSON where JSON was asked for, with code 64."""
    assert run(arguments) == 64
    shown = capsys.readouterr()
    document = json.loads(shown.out)
    assert document["exitCode"] == 64
    assert document["problems"][0]["code"] == "usage"
    assert document["problems"][0]["hint"]
    assert shown.err == ""


def test_wrong_usage_as_text_names_the_nearest(capsys) -> None:
    assert run(["aply"]) == 64
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "did you mean apply?" in shown.err


def test_hostile_arguments_are_escaped(capsys) -> None:
    """F-CLI-03"""
    assert run(["\x1b[2J\nforged"]) == 64
    assert "\x1b" not in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["state"]])
def test_no_command_shows_help(arguments: list[str], capsys) -> None:
    assert run(arguments) == 64
    assert "Commands:" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["--help"], ["plan", "--help"], ["state", "--help"]])
def test_help(arguments: list[str], capsys) -> None:
    assert run(arguments) == 0
    assert "Usage: gpuaas" in capsys.readouterr().out


@pytest.mark.parametrize("place", ["before", "after"])
def test_global_options_stand_anywhere(place: str, capsys, tmp_path: Path) -> None:
    stated = ["-C", str(tmp_path), "--no-color"]
    arguments = [*stated, "version"] if place == "before" else ["version", *stated]
    assert run(arguments) == 0


class Broken:
    """A command that fails in a given way."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch

    def by(self, error: BaseException) -> None:
        def fail(*_: object) -> None:
            raise error

        self._monkeypatch.setattr("reconciler.cli.commands.version.platform.python_version", fail)


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Broken:
    assert run(["version"]) == 0  # the module is loaded
    return Broken(monkeypatch)


@pytest.mark.parametrize(
    ("error", "code", "name"),
    [
        (KeyboardInterrupt(), 130, "interrupted"),
        (refuse("state_locked", "ana is applying"), 1, "state_locked"),
        (refuse("nobody_to_ask", "no terminal"), 5, "nobody_to_ask"),
        (RecursionError("deep"), 1, "internal_error"),
        (ProblemError(()), 1, "internal_error"),
    ],
)
def test_every_end_is_one_document(error, code: int, name: str, broken: Broken, capsys) -> None:
    """F-CLI-01: lock held, interrupt, defect: still exactly one JSON document."""
    broken.by(error)
    capsys.readouterr()
    assert run(["version", "-o", "json"]) == code
    document = json.loads(capsys.readouterr().out)
    assert document["problems"][0]["code"] == name
    assert document["exitCode"] == code


def test_a_defect_leaves_its_traceback_in_a_file(broken, capsys, monkeypatch, tmp_path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.delenv("GPUAAS_DEBUG", raising=False)
    broken.by(ZeroDivisionError("oops"))
    assert run(["version"]) == 1
    shown = capsys.readouterr().err
    assert "Traceback" not in shown
    assert "ZeroDivisionError: oops [internal_error]" in shown
    (kept,) = tmp_path.iterdir()
    assert str(kept) in shown
    assert "Traceback" in kept.read_text(encoding="utf-8")
    assert kept.stat().st_mode & 0o777 == 0o600
    monkeypatch.setenv("GPUAAS_DEBUG", "1")
    assert run(["version"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_problems_of_a_run_are_all_shown(broken: Broken, capsys) -> None:
    problems = tuple(Problem(code="yaml_syntax", message=f"number {n}") for n in range(20))
    broken.by(ProblemError(problems))
    assert run(["version"]) == 1
    shown = capsys.readouterr().err
    assert all(f"number {n} " in shown for n in range(20))
    assert "20 errors" in shown


@pytest.mark.parametrize(
    ("arguments", "form"),
    [
        (["plan"], "text"),
        (["plan", "-o", "json", "-o", "text"], "text"),
        (["plan", "--output=json"], "json"),
        (["plan", "-ojson"], "json"),
        (["plan", "-o"], ""),
        (["validate", "--", "-o", "json"], "text"),
    ],
)
def test_asked_format(arguments: list[str], form: str) -> None:
    assert boundary.asked_format(arguments) == form


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str, capsys) -> None:
    assert run(["completion", shell]) == 0
    assert "_GPUAAS_COMPLETE" in capsys.readouterr().out


def test_completion_answers() -> None:
    shown = gpuaas(
        env={"_GPUAAS_COMPLETE": "bash_complete", "COMP_WORDS": "gpuaas st", "COMP_CWORD": "1"}
    )
    assert shown.stdout.split() == ["plain,status", "plain,storage", "plain,state"]


@pytest.mark.parametrize(
    "env",
    [
        {"LANG": "C", "LC_ALL": "POSIX", "PYTHONIOENCODING": "ascii"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ],
)
def test_plain_locales(env: dict[str, str]) -> None:
    """F-CLI-05: no traceback whatever the locale."""
    shown = gpuaas("version", "Åsa·李", env=env)
    assert shown.returncode == 64
    assert "Traceback" not in shown.stderr
    assert "usage" in shown.stderr


def test_a_reader_that_leaves_changes_nothing() -> None:
    read, write = os.pipe()
    os.close(read)
    program = (
        "from reconciler.cli.main import main; import sys; sys.argv=['gpuaas','version']; main()"
    )
    ended = subprocess.run([sys.executable, "-c", program], stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    assert ended.returncode == 0
    assert ended.stderr == b""


def test_an_output_that_cannot_be_written_is_an_error() -> None:
    with Path("/dev/full").open("w") as full:
        program = "from reconciler.cli.main import main; main()"
        ended = subprocess.run(
            [sys.executable, "-c", program, "version"], stdout=full, stderr=subprocess.PIPE
        )
    assert ended.returncode == 1
    assert b"output_unwritable" in ended.stderr
    assert b"Traceback" not in ended.stderr


def test_closed_streams() -> None:
    """F-CLI-05: closed stdout and stderr end a command with its code, silently."""
    ended = subprocess.run(
        [
            "sh",
            "-c",
            '"$0" -c "$1" version >&- 2>&-',
            sys.executable,
            "from reconciler.cli.main import main; main()",
        ]
    )
    assert ended.returncode == 0
