"""Runtimes as their users have them: by a shell's line, by one command, in any shell."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.harness.directory_host import ENVIRONMENT, ID
from tests.host_code.runtime_host import TEMPLATES, Ground, stage
from tests.privileges import mounts, needs

pytestmark = pytest.mark.walk

SHELLS = [
    pytest.param(name, marks=pytest.mark.skipif(not shutil.which(name), reason=f"no {name} here"))
    for name in ("sh", "dash", "bash", "zsh")
]
NAMED = "GPUAAS_RUNTIME=hello@1.0\nGPUAAS_RUNTIMES=hello@1.0,other@3.0\n"


@pytest.fixture
def ground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ground:
    """Two versions, the newer one the host's default; the allocation has the older one."""
    monkeypatch.setattr(stage, "sync", os.stat)
    ground = Ground.laid(tmp_path)
    for version in ("1.0", "2.0"):
        ground.seal(version, current="2.0")
    descriptor = ground.root / ENVIRONMENT[1:]
    descriptor.parent.mkdir(parents=True)
    descriptor.write_text(f"# Managed.\nGPUAAS_ALLOCATION_ID={ID}\n{NAMED}")
    text = (TEMPLATES / "node/gpuaas-runtime.sh").read_text()
    for place in ("/opt/gpuaas", "/etc/gpuaas"):
        text = text.replace(place, f"{ground.root}{place}")
    program = ground.root / "bin/gpuaas-runtime"
    program.parent.mkdir()
    program.write_text(text)
    program.chmod(0o755)
    return ground


def session(
    ground: Ground, script: str, shell: str = "sh", more: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """What a shell of the allocation says, which goes on after no failure and knows no default."""
    path = f"{ground.root}/bin:/usr/bin:/bin"
    environment = {"PATH": path, "GPUAAS_ALLOCATION_ID": ID, **(more or {})}
    words = [shell, "-euc", script]
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("more", [{}, {"PYTHONHOME": "/usr", "VIRTUAL_ENV": "/home/ana/mine"}])
def test_what_is_activated_can_be_undone(ground: Ground, shell: str, more: dict[str, str]) -> None:
    """BND-06, BND-18: nothing is left of it, and what was set before is set again."""
    script = f"""
        env | sort > {ground.root}/before
        . {ground.tree()}/activate.sh
        gpuaas-hello
        echo "$VIRTUAL_ENV $GPUAAS_RUNTIME_ACTIVE ${{PYTHONHOME-none}}"
        . {ground.tree("2.0")}/activate.sh
        gpuaas-hello
        deactivate
        env | sort > {ground.root}/after
        set | grep -c ^_GPUAAS_OLD || true
        command -v gpuaas-hello || command -v deactivate || echo gone
    """
    done = session(ground, script, shell, more)
    assert (done.returncode, done.stderr) == (0, "")
    place = ground.tree()
    assert done.stdout == f"hello 1.0\n{place} hello@1.0 none\nhello 2.0\n0\ngone\n"
    before, after = ((ground.root / name).read_text() for name in ("before", "after"))
    assert before == after


@pytest.mark.parametrize("shell", SHELLS)
def test_one_s_own_environment_is_left_as_its_own_way_of_leaving_says(
    ground: Ground, shell: str
) -> None:
    """BND-16: and a runtime that somebody's own environment is taken up in is left likewise."""
    script = """
        deactivate() { echo left mine; unset VIRTUAL_ENV; unset -f deactivate; }
        VIRTUAL_ENV=/home/ana/mine
        eval "$(gpuaas-runtime use hello)"
        gpuaas-hello
        deactivate nondestructive
        echo "${VIRTUAL_ENV-none}"
    """
    done = session(ground, script, shell)
    assert (done.stdout, done.stderr) == ("left mine\nhello 1.0\nnone\n", "")


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("gpuaas-runtime list", "hello@1.0 ready, default\nother@3.0 not here yet\n"),
        ("gpuaas-runtime current", "hello@1.0 {place}\n"),
        ("gpuaas-runtime run hello -- gpuaas-hello", "hello 1.0\n"),
        ("gpuaas-runtime run hello@1.0 -- gpuaas-hello", "hello 1.0\n"),
        ("gpuaas-runtime run hello -- sh -c 'echo \"$1\"' sh 'a  b'", "a  b\n"),
        ("gpuaas-runtime run hello -- sh -c 'exit 7' || echo $?", "7\n"),
        ('eval "$(gpuaas-runtime use hello@1.0)"; gpuaas-hello', "hello 1.0\n"),
        ("gpuaas-runtime --help | grep -c eval", "1\n"),
    ],
)
def test_what_an_allocation_has_is_what_its_descriptor_names(
    ground: Ground, script: str, said: str
) -> None:
    """BND-05, BND-14: never the host's default, which is another one here."""
    done = session(ground, script)
    assert (done.stdout, done.stderr) == (said.format(place=ground.tree()), "")


@pytest.mark.parametrize(
    ("script", "code", "why"),
    [
        ("gpuaas-runtime run hello@2.0 -- true", 1, "has no runtime hello@2.0; it has: hello@1.0"),
        ("gpuaas-runtime run hell -- true", 1, "has no runtime hell"),
        ("gpuaas-runtime run '*' -- true", 1, "has no runtime *"),
        ("gpuaas-runtime run other -- true", 1, "other@3.0 is not here yet"),
        ("gpuaas-runtime run hello true", 64, "run NAME -- COMMAND"),
        ("gpuaas-runtime use", 64, "--help"),
        ("gpuaas-runtime other", 64, "gpuaas-runtime list"),
        ("gpuaas-runtime", 64, "gpuaas-runtime list"),
        ("GPUAAS_ALLOCATION_ID= gpuaas-runtime list", 1, "no session of an allocation"),
        ("GPUAAS_ALLOCATION_ID=../../x gpuaas-runtime list", 1, "is no allocation"),
        ("GPUAAS_ALLOCATION_ID=zzzzzzzzzz gpuaas-runtime list", 1, "is not there"),
    ],
)
def test_what_cannot_be_had_is_said(ground: Ground, script: str, code: int, why: str) -> None:
    done = session(ground, script)
    assert (done.returncode, done.stdout) == (code, "")
    assert why in done.stderr


@pytest.mark.parametrize("shell", SHELLS)
def test_nobody_goes_on_without_what_he_asked_for(ground: Ground, shell: str) -> None:
    """F-BUN-01: a build that is not there yet is not the host's own Python."""
    done = session(ground, 'eval "$(gpuaas-runtime use other)"; echo went on', shell)
    assert (done.returncode, done.stdout) == (1, "") and "not here yet" in done.stderr


JUPYTER = """#!/usr/bin/python3
import socket, sys, time
place = next(word for word in sys.argv if word.startswith("--ServerApp.sock=")).partition("=")[2]
with socket.socket(socket.AF_UNIX) as server:
    server.bind(place)
    server.listen()
    time.sleep(60)
"""
DEAF = JUPYTER.replace("    server.listen()\n", "")


@pytest.fixture
def home() -> Iterator[Path]:
    """With a short name: that of a socket in it has at most 108 bytes, unix(7)."""
    with tempfile.TemporaryDirectory(prefix="h") as folder:
        yield Path(folder)


def test_a_notebook_is_one_and_no_other_process_is_taken_for_it(ground: Ground, home: Path) -> None:
    """BND-22, rule 22: after a restart its number may be somebody else's, and its socket is old."""
    tree = ground.root / "opt/gpuaas/runtimes/jupyter/1"
    (tree / "bin").mkdir(parents=True)
    (tree / "activate.sh").write_text(f"PATH={tree}/bin:$PATH\n")
    (tree / "bin/jupyter").write_text(JUPYTER)
    (tree / "bin/jupyter").chmod(0o755)
    descriptor = ground.root / ENVIRONMENT[1:]
    descriptor.write_text(f"{descriptor.read_text()}GPUAAS_RUNTIMES=jupyter@1\n")
    own = home / ".local/share/gpuaas"

    def notebook(verb: str) -> str:
        done = session(ground, f"gpuaas-runtime notebook {verb}", more={"HOME": str(home)})
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    own.mkdir(parents=True)
    with subprocess.Popen(["sleep", "60"]) as other:
        with socket.socket(socket.AF_UNIX) as old:
            old.bind(str(own / "jupyter.sock"))
        (own / "jupyter.pid").write_text(f"{other.pid}\n")
        (own / "jupyter.token").write_text("old")
        with ThreadPoolExecutor() as pool:
            told, again = pool.map(notebook, ("start", "start"))
        assert told == again and "old" not in told
        assert told.startswith(f"socket={own}/jupyter.sock\ntoken=")
        assert notebook("start") == told
        notebook("stop")
        assert {path.name for path in own.iterdir()} == {"jupyter.lock", "jupyter.log"}
        assert other.poll() is None
        other.kill()


@pytest.mark.parametrize(
    ("program", "state"),
    [
        (DEAF, "runs (process {pid}) and does not listen"),
        ("#!/bin/sh\nexit 3\n", "did not start"),
        ("#!/bin/sh\nsleep 0.5\nexit 3\n", "did not start"),
    ],
)
def test_what_runs_and_does_not_listen_is_not_started(
    ground: Ground, home: Path, program: str, state: str
) -> None:
    """F-REAL-15: a process and a socket file are there, and nobody is answered."""
    tree = ground.root / "opt/gpuaas/runtimes/jupyter/1"
    (tree / "bin").mkdir(parents=True)
    (tree / "activate.sh").write_text(f"PATH={tree}/bin:$PATH\n")
    (tree / "bin/jupyter").write_text(program)
    (tree / "bin/jupyter").chmod(0o755)
    descriptor = ground.root / ENVIRONMENT[1:]
    descriptor.write_text(f"{descriptor.read_text()}GPUAAS_RUNTIMES=jupyter@1\n")
    more = {"HOME": str(home), "GPUAAS_NOTEBOOK_SECONDS": "2"}

    def notebook(verb: str) -> tuple[int, str]:
        done = session(ground, f"gpuaas-runtime notebook {verb}", more=more)
        return done.returncode, done.stdout + done.stderr

    code, told = notebook("start")
    pid = (home / ".local/share/gpuaas/jupyter.pid").read_text().strip()
    assert code == 1 and state.format(pid=pid) in told and "jupyter.log" in told, told
    code, told = notebook("status")
    assert code == 1, told
    assert ("does not listen" if program == DEAF else "not started") in told
    assert notebook("stop") == (0, "")
    (tree / "bin/jupyter").write_text(JUPYTER)
    assert notebook("start")[0] == 0
    assert notebook("status")[1].startswith("started, socket=")
    assert notebook("stop") == (0, "")


ELSEWHERE = """\
mount -t tmpfs none "$0"
exec python3 -c 'import socket, sys, time
server = socket.socket(socket.AF_UNIX)
server.bind(sys.argv[1] + "/jupyter.sock")
server.listen()
print("in", flush=True)
time.sleep(60)' "$0"
"""


@needs(mounts)
def test_a_socket_of_the_same_name_in_somebody_elses_folders_is_not_it(
    ground: Ground, home: Path
) -> None:
    """Whoever has mounts of their own has a folder of this name too, and the kernel's list has
    names alone: no token is told while it is not our own process that listens.
    """
    tree = ground.root / "opt/gpuaas/runtimes/jupyter/1"
    (tree / "bin").mkdir(parents=True)
    (tree / "activate.sh").write_text(f"PATH={tree}/bin:$PATH\n")
    (tree / "bin/jupyter").write_text(DEAF)
    (tree / "bin/jupyter").chmod(0o755)
    descriptor = ground.root / ENVIRONMENT[1:]
    descriptor.write_text(f"{descriptor.read_text()}GPUAAS_RUNTIMES=jupyter@1\n")
    own = home / ".local/share/gpuaas"
    own.mkdir(parents=True)
    more = {"HOME": str(home), "GPUAAS_NOTEBOOK_SECONDS": "1"}
    words = ["unshare", "--mount", "sh", "-euc", ELSEWHERE, str(own)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as neighbour:
        assert neighbour.stdout is not None and neighbour.stdout.readline() == "in\n"
        done = session(ground, "gpuaas-runtime notebook start", more=more)
        assert (done.returncode, done.stdout) == (1, ""), done.stderr
        assert "does not listen" in done.stderr
        assert session(ground, "gpuaas-runtime notebook stop", more=more).returncode == 0
        neighbour.kill()
