"""What surrounds a command: folder, disk, terminal, who ends it and who holds the lock."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest

from reconciler.cli.arguments.global_options import Options
from reconciler.cli.command import Command, Reply, Session
from reconciler.cli.exit_codes import Exit
from reconciler.cli.text import TextLine
from reconciler.model.problem import ProblemError
from reconciler.store.file.lock import StateLock

ROOT = Path(__file__).parents[2]
START = "import sys; sys.argv[0] = 'gpuaas'; from reconciler.cli.start import main; main()"


def shell(script: str, cwd: Path, code: str = START) -> subprocess.CompletedProcess[str]:
    """`$GPUAAS` in `script` is the program, in a process of its own."""
    program = cwd / "program.py"
    program.write_text(f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{code}\n")
    env = {**os.environ, "GPUAAS": f"{sys.executable} {program}"}
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, cwd=cwd, env=env)


def test_a_folder_that_was_deleted_is_no_defect(tmp_path: Path) -> None:
    """F-REAL-20: it is said, in JSON too, and a fleet that is named is still found."""
    gone = 'mkdir gone; cd gone; rmdir "$PWD"; '
    for words in ("status", "validate", "status -C x", "init"):
        done = shell(f"{gone} $GPUAAS {words}", tmp_path)
        assert (done.returncode, done.stdout) == (1, ""), words
        assert "[os_refused]" in done.stderr and "was deleted" in done.stderr, done.stderr
    done = shell(f"{gone} $GPUAAS status -o json", tmp_path)
    assert done.returncode == 1 and '"os_refused"' in done.stdout
    (tmp_path / "fleet").mkdir()
    assert shell(f"{gone} $GPUAAS init {tmp_path}/fleet", tmp_path).returncode == 0
    assert shell(f"{gone} $GPUAAS -C {tmp_path}/fleet validate", tmp_path).returncode == 0


@pytest.mark.parametrize("words", ["--help", "node --help", "node", "plan --help", "--version"])
def test_help_onto_a_full_disk_fails_in_one_line(tmp_path: Path, words: str) -> None:
    """F-REAL-20: and nothing of Python's own end is seen."""
    done = shell(f"$GPUAAS {words} > /dev/full", tmp_path)
    assert done.returncode == 1
    assert "[output_unwritable]" in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_a_reader_of_help_that_leaves_is_no_error(tmp_path: Path) -> None:
    """F-REAL-20."""
    done = shell("$GPUAAS --help | head -c 0; echo ${PIPESTATUS[0]}", tmp_path)
    assert (done.stdout, done.stderr) == ("0\n", "")


ENDED_WHILE_LOADING = """
import os, signal, sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Finder())
sys.argv[:] = ["gpuaas", "version"]
from reconciler.cli.start import main
main()
"""


@pytest.mark.parametrize(
    "module", ["reconciler.cli.main", "click", "reconciler.cli.commands.version"]
)
def test_whoever_ends_it_while_it_is_loaded_is_answered(tmp_path: Path, module: str) -> None:
    """F-REAL-20: with the same words and code as at any other time."""
    done = shell("$GPUAAS", tmp_path, ENDED_WHILE_LOADING.format(module=module))
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr.lstrip() == "error: stopped on request [interrupted]\n"


def holding(state: Path) -> subprocess.Popen[str]:
    code = (
        "import sys, time; from pathlib import Path\n"
        "from reconciler.store.file.lock import StateLock\n"
        "with StateLock(Path(sys.argv[1]), actor='olga', command='apply'):\n"
        "    print('held', flush=True); time.sleep(60)"
    )
    words = [sys.executable, "-c", code, str(state / "lock")]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=ROOT)


def test_of_a_holder_that_is_stopped_the_way_on_is_told(tmp_path: Path) -> None:
    """F-REAL-20: they go on with nothing, however long they are waited for."""
    with holding(tmp_path) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "held\n"
            process.send_signal(signal.SIGSTOP)
            while (
                " (" in Path(f"/proc/{process.pid}/stat").read_text()
                and "T"
                not in (Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0])
            ):
                time.sleep(0.01)
            lock = StateLock(tmp_path / "lock", actor="ana", command="suspend")
            with pytest.raises(ProblemError) as refused, lock:
                pass
            (problem,) = refused.value.problems
            assert problem.code == "state_locked" and f"pid {process.pid}" in problem.message
            assert "is stopped" in problem.message and f"kill -CONT {process.pid}" in problem.hint
        finally:
            process.kill()


@pytest.mark.parametrize(("writes", "ends"), [(True, Exit.HELD), (False, None)])
def test_what_is_done_keeps_its_code_when_nobody_reads_of_it(
    writes: bool, ends: Exit | None
) -> None:
    """F-REAL-20: a terminal that is closed after all was done takes nothing back."""

    def lines() -> object:
        yield TextLine()
        raise KeyboardInterrupt

    def answer(session: Session) -> Reply:
        return Reply(code=Exit.HELD, lines=lines())  # type: ignore[arg-type]

    one = click.command("x", cls=Command)(answer)
    one.writes = writes  # type: ignore[attr-defined]
    context = click.Context(one, info_name="x", obj=Options())
    if ends is None:
        with pytest.raises(ProblemError):
            one.invoke(context)
    else:
        assert one.invoke(context) == ends
