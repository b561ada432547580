"""The commands as a user runs them: a process of their own, on a real fleet."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import pytest

from reconciler import shipped
from reconciler.cli.main import run
from reconciler.store.file.lock import StateLock
from tests.cli.conftest import GOLDEN

PROGRAM = (sys.executable, "-c", "from reconciler.cli.main import main; main()")
IN_TURN = (
    sys.executable,
    "-c",
    "import sys; from reconciler.cli.main import run\n"
    "for line in sys.argv[1:]: print(f'\\0{run(line.split())}\\0')",
)
"""One process for several commands, each a word; behind what each says stands its exit code."""
HELLO = "specs/projects/first/hello.yaml"


class Shell:
    """Runs gpuaas in one fleet's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(
        self,
        *arguments: str,
        stdin: object = subprocess.DEVNULL,
        program: tuple[str, ...] = PROGRAM,
        **env: str,
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*program, *arguments],
            cwd=self.folder,
            stdin=stdin,  # type: ignore[arg-type]
            capture_output=True,
            text=True,
            encoding="utf-8",
            env={**os.environ, **env},
            timeout=120,
            check=False,
        )

    def here(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """What a command says and ends with, run in this process to spare the start-up."""
        out, err = io.StringIO(), io.StringIO()
        with (
            contextlib.chdir(self.folder),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            code = run(arguments)
        return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())

    def document(self, *arguments: str, code: int) -> dict:
        """The one document of a command, run in this process to spare the start-up."""
        with contextlib.redirect_stdout(io.StringIO()) as out:
            ended = run([*arguments, "-C", str(self.folder), "-o", "json"])
        assert ended == code, out.getvalue()
        document = json.loads(out.getvalue())
        assert document["exitCode"] == code
        assert document["schemaVersion"] == 1
        assert document["command"] == " ".join(a for a in arguments if a.isalpha())
        return document

    def file(self, name: str) -> Path:
        return self.folder / name


@pytest.fixture(scope="session")
def starter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new fleet, made by `init`, whose host was asked once."""
    folder = tmp_path_factory.mktemp("made") / "fleet"
    made = Shell(folder.parent)("init", str(folder))
    assert made.returncode == 0, made.stderr
    planned = Shell(folder)("plan", "--refresh")
    assert planned.returncode == 0, planned.stdout + planned.stderr
    return folder


@pytest.fixture
def shell(starter: Path, tmp_path: Path) -> Shell:
    return Shell(shutil.copytree(starter, tmp_path / "fleet", symlinks=True))


def fits(word: str, document: dict) -> None:
    jsonschema.Draft202012Validator(json.loads(shipped.schemas()[word])).validate(document)


def test_codes_of_plan(shell: Shell) -> None:
    """F-PLN-09: changes, an error among good files, a lost state; through a pipe just the same."""
    assert shell.here("plan").returncode == 0
    assert shell("plan", "--detailed-exitcode").returncode == 2
    shell.file("specs/broken.yaml").write_text("kind: [\n", encoding="utf-8")
    assert shell.here("plan", "--detailed-exitcode").returncode == 1
    piped = subprocess.run(
        ["bash", "-c", 'set -o pipefail; "$@" plan --detailed-exitcode | cat', "-", *PROGRAM],
        cwd=shell.folder,
        capture_output=True,
        check=False,
    )
    assert piped.returncode == 1
    shell.file("specs/broken.yaml").unlink()
    shell.file("state/gpuaas.db").rename(shell.file("elsewhere.db"))
    lost = shell("plan")
    assert lost.returncode == 1
    assert "state_missing" in lost.stderr


def test_every_reading_command_answers_in_one_document(shell: Shell) -> None:
    """F-CLI-01"""
    fits("plan", shell.document("plan", code=0))
    fits("status", shell.document("status", code=0))
    for command in ("validate", "node list", "slot list", "capacity", "events", "version"):
        answered(shell.document(*command.split(), code=0))
    answered(shell.document("state", "check", code=0))
    answered(shell.document("show", "allocation/first/hello", code=0))
    answered(shell.document("explain", "first/hello", code=0))
    answered(shell.document("why", "first/hello", code=0))
    answered(shell.document("evidence", "node/desk", code=0))
    answered(shell.document("timeline", "node/desk", code=0))
    for command in ("activity", "doctor", "runbook"):
        answered(shell.document(command, code=0))
    answered(shell.document("runbook", "cleanup_blocked", code=0))


def answered(document: dict) -> None:
    """Every document fits the schema that all commands share."""
    assert "result" in document
    fits("problems", document)


def test_refusals_answer_in_one_document(shell: Shell, tmp_path: Path) -> None:
    """F-CLI-01: errors in specs, nothing found, no fleet."""
    shell.file("specs/broken.yaml").write_text("kind: [\n", encoding="utf-8")
    document = shell.document("validate", code=1)
    fits("problems", document)
    fits("plan", shell.document("plan", code=1))
    fits("problems", shell.document("show", "allocation/no/such", code=1))
    fits("problems", Shell(tmp_path).document("plan", code=1))


def test_a_plan_names_its_commits(shell: Shell) -> None:
    """CRD-01: where the specs stand, and which commit made what each line is about as it is."""

    def commit(author: str) -> str:
        who = ("-c", f"user.name={author}", "-c", f"user.email={author}@corp.example")
        for words in (("init", "-q"), ("add", "-A"), (*who, "commit", "-qm", "why")):
            subprocess.run(["git", "-C", str(shell.folder), *words], check=True)
        head = ("git", "-C", str(shell.folder), "rev-parse", "HEAD")
        return subprocess.check_output(head, text=True).strip()

    first = commit("olga")
    hello = shell.file("specs/projects/first/hello.yaml")
    said = hello.read_text(encoding="utf-8")
    hello.write_text(said.replace("metadata: {", "metadata: {labels: {for: ana}, "), "utf-8")
    assert hello.read_text(encoding="utf-8") != said
    assert "uncommitted edits" in shell("plan").stdout
    second = commit("ana")
    plan = shell.document("plan", code=0)["result"]
    assert plan["revision"]["commit"] == second
    assert not plan["revision"]["dirty"]
    origins = {c["ref"]: (c["origin"]["commit"], c["origin"]["author"]) for c in plan["changes"]}
    assert origins.pop("allocation/first/hello") == (second, "ana")
    assert set(origins.values()) == {(first, "olga")}
    text = shell("plan").stdout
    assert text.startswith(f"specs {second[:7]} (")
    assert f"hello.yaml:3 in {second[:7]} by ana (unsigned)" in text


def test_twenty_broken_files_as_people_and_programs_see_them(shell: Shell, golden) -> None:
    """CRD-02, F-CLI-04: file, line, path and hint of each, word for word, and one exit code."""
    shutil.copytree(GOLDEN / "broken", shell.file("specs/broken"))
    text = shell.here("validate")
    assert text.returncode == 1
    golden("broken.txt", text.stdout)
    problems = shell.document("validate", code=1)["problems"]
    files = sorted(f"specs/broken/{path.name}" for path in (GOLDEN / "broken").iterdir())
    assert [problem["source"]["file"] for problem in problems] == files
    for problem in problems:
        source = problem["source"]
        place = f"{source['file']}:{source['line']}:{source['column']}"
        assert f"{place}: error: {problem['message']} [{problem['code']}]" in text.stdout
        assert f"hint: {problem['hint']}" in text.stdout


def test_a_held_lock_is_one_document(shell: Shell) -> None:
    """F-CLI-01: somebody else is applying. F-STA-06: who, since when, and as which process."""
    with StateLock(shell.file("state/lock"), actor="olga", command="apply"):
        document = shell.document("apply", "--lock-timeout=0", code=1)
        text = shell("apply", "--lock-timeout", "1s")
    fits("problems", document)
    (problem,) = document["problems"]
    assert problem["code"] == "state_locked"
    holder = problem["holder"]
    assert (holder["actor"], holder["pid"], holder["host"]) == ("olga", os.getpid(), os.uname()[1])
    assert holder["bootId"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert text.returncode == 1
    waiting, refused = text.stderr.splitlines()[:2]
    assert waiting.startswith(f"waiting for olga (apply, pid {os.getpid()} on ")
    assert "after 1 s of waiting held by olga (apply, pid" in refused
    for fact in (holder["since"], holder["bootId"], holder["id"]):
        assert fact in refused


@pytest.mark.parametrize("wrong", ["", "5", "1d", "-1s", "soon", "1s 2m", "²s"])
def test_a_duration_has_a_unit(shell: Shell, wrong: str) -> None:
    """F-CLI-01: what is no duration is wrong usage."""
    assert shell.here("apply", f"--lock-timeout={wrong}").returncode == 64


@pytest.mark.parametrize("given", ["null", "closed", "yes"])
def test_apply_without_a_terminal_changes_nothing(shell: Shell, given: str) -> None:
    """F-CLI-02: /dev/null, a closed input and `yes |` end in code 5 and name the flag."""
    command = {
        "null": '"$@" apply </dev/null',
        "closed": '"$@" apply <&-',
        "yes": 'yes | "$@" apply; exit ${PIPESTATUS[1]}',
    }[given]
    before = shell.document("plan", code=0)["result"]["counts"]
    ended = subprocess.run(
        ["bash", "-c", command, "-", *PROGRAM],
        cwd=shell.folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 5, ended.stderr
    assert "nobody_to_ask" in ended.stderr
    assert "--auto-approve" in ended.stderr
    assert shell.document("plan", code=0)["result"]["counts"] == before
    assert not any(
        event["type"] == "recorded" for event in shell.document("events", code=0)["result"]
    )


@pytest.mark.walk
def test_apply_then_nothing_to_do(shell: Shell) -> None:
    """F-CLI-02: with the flag nobody is asked; afterwards there is nothing left to do.

    LCH-06: what was done is found by processes that come after the one that did it.
    """
    applied = shell("apply", "--auto-approve")
    assert applied.returncode == 0, applied.stdout + applied.stderr
    assert "applied:" in applied.stdout
    assert "hello" in applied.stdout
    assert shell("plan", "--detailed-exitcode").returncode == 0
    assert "nothing to do" in shell("plan").stdout
    status = shell.document("status", code=0)
    fits("status", status)
    assert [row["ref"] for row in status["result"]["allocations"]] == ["allocation/first/hello"]
    run = status["result"]["lastRun"]
    assert run["state"] == "done"
    shown = shell.document("show", "first/hello", code=0)["result"]
    assert shown["recorded"]["phase"] == "active"
    assert {(step["verb"], step["state"]) for step in shown["execution"]} == {
        ("allocation.provide", "done"),
        ("runtime.write_env_file", "done"),
        ("access.sync", "done"),
    }
    told = [one["type"] for one in shell.document("events", code=0)["result"] if one["run"]]
    assert (told[0], told[-1]) == ("run_started", "run_ended")


@pytest.mark.walk
def test_a_release_is_held_until_it_is_approved(shell: Shell) -> None:
    """F-PLN-09: `safe` alone holds what destroys: exit 5, and nothing is released."""
    assert shell("apply", "--auto-approve").returncode == 0
    shell.file(HELLO).unlink()
    held = shell("apply", "--auto-approve")
    assert held.returncode == 5, held.stdout + held.stderr
    assert "HELD" in held.stdout
    released = shell("apply", "--auto-approve=destroys")
    assert released.returncode == 0, released.stdout + released.stderr
    assert shell.document("status", code=0)["result"]["allocations"] == []


def test_auto_approve_takes_its_level_by_a_sign_only(shell: Shell) -> None:
    """A plan file after the flag stays a plan file, and a level without a sign is refused."""
    assert shell.here("apply", "--auto-approve", "destroys").returncode == 64
    missing = shell.here("apply", "--auto-approve", "no-such.plan")
    assert missing.returncode == 1
    assert "plan_damaged" in missing.stderr


def test_saved_plan(shell: Shell, tmp_path: Path) -> None:
    saved = shell.here("plan", "--save", str(tmp_path / "a.plan"))
    assert saved.returncode == 0
    assert "gpuaas apply" in saved.stderr
    assert (tmp_path / "a.plan").stat().st_mode & 0o777 == 0o600


def test_twenty_broken_files(shell: Shell) -> None:
    """F-CLI-04: all problems at once, each with its file and line, one exit code."""
    for number in range(20):
        text = "\n" * number + "kind: Nonsense\n"
        shell.file(f"specs/b{number:02}.yaml").write_text(text, encoding="utf-8")
    document = shell.document("validate", code=1)
    places = [(p["source"]["file"], p["source"]["line"]) for p in document["problems"]]
    assert {(f"specs/b{n:02}.yaml", n + 1) for n in range(20)} <= set(places)
    shown = shell.here("validate")
    assert shown.returncode == 1
    assert all(f"specs/b{n:02}.yaml:{n + 1}:" in shown.stdout for n in range(20))


@pytest.mark.parametrize(
    ("name", "content"),
    [("empty.yaml", b""), ("note.yaml", b"# only\n"), ("bin.yaml", b"\x00\xff\xfe\x01")],
)
def test_odd_files_are_named(shell: Shell, name: str, content: bytes) -> None:
    """F-CLI-04: empty, only comments, binary: the file is named with a next step."""
    shell.file(f"specs/{name}").write_bytes(content)
    found = shell.document("validate", code=1 if name == "bin.yaml" else 0)
    (problem,) = [p for p in found["problems"] if p["source"]["file"] == f"specs/{name}"]
    assert problem["hint"]
    assert problem["severity"] == ("error" if name == "bin.yaml" else "warning")


@pytest.mark.parametrize(
    "env",
    [
        {"LANG": "C", "LC_ALL": "POSIX", "PYTHONIOENCODING": "ascii"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"COLUMNS": "20"},
    ],
)
def test_accents_in_plain_locales(shell: Shell, env: dict[str, str]) -> None:
    """F-CLI-05: names with accents and symbols, in cron's locale: no traceback, same code."""
    people = shell.file("specs/people/operator.yaml")
    text = people.read_text(encoding="utf-8") + "  displayName: Åsa ·\n"
    people.write_text(text, encoding="utf-8")
    shown = shell("plan", "status", "plan -o markdown", program=IN_TURN, **env)
    assert shown.stdout.split("\0")[1::2] == ["0", "0", "0"], shown.stderr
    assert "Traceback" not in shown.stderr


@pytest.mark.walk
def test_a_person_at_a_terminal_is_asked(shell: Shell) -> None:
    """F-CLI-02: at a terminal a `no` is a refusal with its own code."""
    shown, code = at_terminal(shell, "apply", typed=b"no\n")
    assert code == 5
    assert b"declined" in shown
    assert b"[yes/no]" in shown


def at_terminal(shell: Shell, *arguments: str, typed: bytes) -> tuple[bytes, int]:
    pid, master = pty.fork()
    if pid == 0:
        os.chdir(shell.folder)
        os.execv(PROGRAM[0], [*PROGRAM, *arguments])
    shown = b""
    end = time.monotonic() + 60
    try:
        while time.monotonic() < end:
            try:
                part = os.read(master, 4096)
            except OSError:
                break
            if not part:
                break
            if b"[yes/no]" not in shown and b"[yes/no]" in shown + part:
                os.write(master, typed)
            shown += part
    finally:
        os.close(master)
    return shown, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_interrupted_follow(shell: Shell) -> None:
    """F-CLI-01: a stream is lines of documents; Ctrl-C ends it with 130."""
    process = subprocess.Popen(
        [*PROGRAM, "events", "--follow", "-o", "jsonl"],
        cwd=shell.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    first = json.loads(process.stdout.readline())
    assert first["type"] == "state_created"
    process.send_signal(signal.SIGINT)
    rest, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert all(json.loads(line) for line in rest.splitlines())
    assert shell("events", "--follow", "-o", "json").returncode == 64
