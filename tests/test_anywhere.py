"""`make test` passes on any machine and for any account, and names what it could not try."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import privileges, untried

ROOT = Path(__file__).parents[1]
PYTEST = (
    *(sys.executable, "-m", "pytest", "-n", "0"),
    *("-p", "no:cacheprovider", "-p", "no:hypothesispytest"),
)


def recipe(target: str) -> str:
    """What make would run for it."""
    done = subprocess.run(
        ["make", "--no-print-directory", "-n", target, "-o", ".venv/.ready-dev"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        env={name: value for name, value in os.environ.items() if not name.startswith("MAKE")},
    )
    return done.stdout


def run(*words: str | Path, **given: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, **given
    )


def skipped(why: str) -> SimpleNamespace:
    return SimpleNamespace(longrepr=("tests/test_x.py", 7, f"Skipped: {why}"))


@pytest.mark.parametrize(
    ("whys", "line"),
    [
        ([], ""),
        (["no zsh here"], "not tried here: 1 test: no zsh here (1)"),
        (
            ["no zsh here", "root is needed", "root is needed\nand more"],
            "not tried here: 3 tests: root is needed (2); no zsh here (1)",
        ),
    ],
)
def test_what_was_not_tried_is_one_line(whys: list[str], line: str) -> None:
    """F-REAL-28: each reason once, with how many tests it concerns."""
    assert untried.line(untried.reasons(map(skipped, whys))) == line


def test_all_parts_end_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """F-REAL-28: the sum over all parts, and the lab with its reason; nothing is left out of it."""
    parts: Mapping[str, Mapping[str, int]] = {"unit": {"a": 2}, "walk": {"b": 1, "a": 1}, "w": {}}
    for part, told in parts.items():
        monkeypatch.setenv(untried.PART, part)
        untried.keep(told, tmp_path)
    assert untried.of_all(parts, "the lab needs root", tmp_path) == (
        "not tried here: 4 tests: a (3); b (1); "
        "and the real hosts of the lab (no lab here: the lab needs root)"
    )
    assert "`make test-hosts` tries them" in untried.of_all(["w"], "", tmp_path)
    with pytest.raises(FileNotFoundError):
        untried.of_all(["never run"], "", tmp_path)


def test_every_part_is_told_of_and_the_lab_is_none() -> None:
    """F-REAL-28: what `make test` runs is what its last line is about."""
    runs = [line for line in recipe("test").splitlines() if "pytest" in line]
    parts = [match[1] for match in map(re.compile(r"GPUAAS_PART=(\w+)").match, runs) if match]
    assert len(parts) == len(runs) == 3
    assert recipe("test").splitlines()[-1].endswith(f"-m tests.untried {' '.join(parts)}")
    assert not any(re.search(r"(?<!not )\blab\b", line) for line in runs)


def test_the_lab_is_required_where_it_is_asked_for() -> None:
    """F-REAL-28: `.ci/run` asks for both, and nobody skips for want of a lab."""
    asked = recipe("test-hosts").splitlines()
    assert asked[0].endswith("-m tests.lab able")
    assert asked[1].startswith("GPUAAS_LAB=required")
    assert (ROOT / ".ci/run").read_text().splitlines()[-2:] == ["make test", "make test-hosts"]


@pytest.mark.walk
@privileges.needs(privileges.root)
@pytest.mark.parametrize("required", [True, False])
def test_no_lab_is_a_failure_where_it_is_required(required: bool) -> None:
    """F-REAL-28: without the right to mount; elsewhere it is named."""
    bare = ("setpriv", "--bounding-set=-all", "--inh-caps=-all", "env", "-u", "CI")
    chosen = ("GPUAAS_LAB=required",) if required else ("-u", "GPUAAS_LAB")
    done = run(*bare, *chosen, *PYTEST, "tests/lab/test_example.py", "-m", "lab and not slow")
    assert done.returncode == int(required), done.stdout + done.stderr
    assert "the lab needs mounts and namespaces" in done.stdout
    assert ("not tried here: " in done.stdout) is not required


@privileges.needs(privileges.root)
def test_make_asks_first_whether_there_can_be_a_lab() -> None:
    """F-REAL-28: one plain line, and no failure a test."""
    bare = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")
    able = run(*bare, sys.executable, "-m", "tests.lab", "able")
    assert able.returncode == 1
    assert able.stderr.startswith("lab: the lab needs mounts and namespaces: ")
    assert len(able.stderr.splitlines()) == 1


@pytest.mark.walk
@privileges.needs(privileges.mounts)
def test_a_privilege_that_is_missing_is_named() -> None:
    """F-REAL-28: a root that may not mount is no reason to fail, nor to leave out silently."""
    words = (*PYTEST, "tests/store/test_cache.py", "-k", "read_only")
    with_all = run(*words)
    assert with_all.returncode == 0 and "not tried here" not in with_all.stdout
    bare = run("setpriv", "--bounding-set=-all", "--inh-caps=-all", *words)
    assert bare.returncode == 0, bare.stdout
    assert "not tried here: 1 test: file systems may not be mounted (1)" in bare.stdout


@pytest.mark.walk
@pytest.mark.parametrize("worker", ["0", "1"])
def test_what_nohup_has_ignored_is_not_handed_down(tmp_path: Path, worker: str) -> None:
    """F-REAL-28: below `nohup … &` what the tests start is ended by signals, and the run is not."""
    file = tmp_path / "test_ending.py"
    file.write_text(
        "import os, signal, subprocess, pytest\n"
        "@pytest.mark.parametrize('number', [signal.SIGHUP, signal.SIGQUIT, signal.SIGINT])\n"
        "def test_ended(number):\n"
        "    with subprocess.Popen(['sleep', '60']) as started:\n"
        "        started.send_signal(number)\n"
        "        assert started.wait(20) == -number\n"
        "    if number != signal.SIGINT:\n"
        "        os.kill(os.getpid(), number)\n"
    )
    script = 'trap "" HUP INT QUIT; exec "$@"'
    words = (*PYTEST, "-n", worker, "-c", "pyproject.toml", f"--rootdir={ROOT}")
    done = run("sh", "-c", script, "sh", *words, "--confcutdir", "/", "-p", "tests.conftest", file)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout


def test_what_is_lacking_is_said(tmp_path: Path) -> None:
    """F-REAL-28: who cannot install it is told what to ask for, and nothing is begun."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("bash", "dirname"):
        (programs / name).symlink_to(str(shutil.which(name)))
    (programs / "python3").symlink_to(os.path.realpath(sys.executable))
    checkout = tmp_path / "checkout"
    shutil.copytree(ROOT / ".ci", checkout / ".ci")
    for kind, lacking in (("run", "git"), ("dev", "git openssh-client")):
        done = run("bash", checkout / ".ci/prepare", kind, env={"PATH": str(programs)})
        assert done.returncode == 1
        assert f"gpuaas needs {lacking}. As root: apt-get install {lacking}\n" in done.stderr
    assert [one.name for one in checkout.iterdir()] == [".ci"]


def test_reasons_are_kept_for_parts_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(untried.PART, raising=False)
    untried.keep({"a": 1}, tmp_path / "none")
    assert not (tmp_path / "none").exists()
    monkeypatch.setenv(untried.PART, "walk")
    untried.keep({"a": 1}, tmp_path)
    assert json.loads((tmp_path / "walk.json").read_text()) == {"a": 1}
