"""Host code carried as one script: it runs in a bare Python, as the modules would."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from threading import Barrier

import pytest

from reconciler.hosts import payload as carried_module
from reconciler.hosts.payload import carried
from tests.harness.directory_host import PLAYBOOKS

CODE = PLAYBOOKS / "module_utils" / "gpuaas"


def run(script: bytes, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """As a host runs it: isolated, from stdin, in an empty folder."""
    return subprocess.run(
        [sys.executable, "-I", "-", *arguments], input=script, capture_output=True, cwd="/"
    )


def package(folder: Path, **modules: str) -> Path:
    for name, source in modules.items():
        (folder / f"{name}.py").write_text(source, encoding="utf-8")
    return folder


@pytest.mark.parametrize("magic", [MAGIC_NUMBER, b"0000"], ids=["our Python", "another Python"])
@pytest.mark.parametrize("entry", ["observe", "observe_host"])
def test_the_observe_code_answers_from_a_bare_python(
    tmp_path: Path, entry: str, magic: bytes
) -> None:
    """Nothing of it has to be on the host: neither our folders nor a package are there.

    A host with another Python makes nothing of our bytecode, and needs none of it.
    """
    script = carried(CODE, entry).replace(repr(MAGIC_NUMBER).encode(), repr(magic).encode(), 1)
    if magic != MAGIC_NUMBER:
        assert b"marshal.loads" in script
        script = script.replace(b"marshal.loads", b"no_such_name", 1)
    request = {"root": str(tmp_path), "prove": [], "topology": False}
    done = run(script, json.dumps(request))
    assert done.returncode == 0, done.stderr.decode()
    assert json.loads(done.stdout)["source"] == "host"


def test_siblings_come_first_and_once_each(tmp_path: Path) -> None:
    folder = package(
        tmp_path,
        entry="import sys\nfrom . import left, right\nprint(left.L + right.R, sys.argv[1:])",
        left="from .below import B\nL = B + 1",
        right="from . import (\n    below,\n)\nfrom .below import (\n    B,\n)\nR = B + 2",
        below="print('once')\nB = 1",
        other="raise AssertionError('nobody asked for it')",
    )
    done = run(carried(folder, "entry"), "a b", "{}")
    assert done.stdout.decode().splitlines() == ["", "once", "5 ['a b', '{}']"]


def test_only_what_is_asked_for_is_run_and_whole_before_it_is_used(tmp_path: Path) -> None:
    """F-REAL-26: of all verbs those that are asked for, each with all that it imports."""
    folder = package(
        tmp_path,
        entry="from . import asked, other\nprint('begun')\nprint(asked.K)\nasked.go()",
        asked="from . import deep\nprint('asked')\nK = 1\ndef go(): print(deep.D)",
        deep="print('deep')\nD = 2",
        other="raise AssertionError('nobody asked for it')",
    )
    done = run(carried(folder, "entry"))
    assert done.stdout.decode().split() == ["begun", "asked", "deep", "1", "2"], done.stderr


def test_a_module_that_cannot_be_run_says_why(tmp_path: Path) -> None:
    entry = "from . import broken\nbroken.go()"
    folder = package(tmp_path, entry=entry, broken="import os\nos.no_such_name\ndef go(): pass")
    said = run(carried(folder, "entry")).stderr.decode()
    assert 'File "broken.py", line 2' in said and "no_such_name" in said


def test_a_name_that_a_module_lacks_is_told_of_it(tmp_path: Path) -> None:
    folder = package(tmp_path, entry="from . import left\nleft.R", left="L = 1")
    assert "AttributeError: R" in run(carried(folder, "entry")).stderr.decode()


def test_it_is_made_once_for_all_who_ask_at_a_time(tmp_path: Path) -> None:
    """F-REAL-26: sixteen threads that look at hosts begin by asking for the same code."""
    folder = package(tmp_path, entry="K = 1")
    before, barrier = carried_module._made.cache_info().misses, Barrier(16)

    def ask(_: int) -> bytes:
        barrier.wait()
        return carried(folder, "entry")

    with ThreadPoolExecutor(16) as pool:
        assert len(set(pool.map(ask, range(16)))) == 1
    assert carried_module._made.cache_info().misses == before + 1


def test_texts_of_any_sort_arrive_as_they_are(tmp_path: Path) -> None:
    text = "'\"\\ {} %s … \N{GRINNING FACE} \x00 \\n"
    source = f"print(ascii({text!r}), end='')"
    done = run(carried(package(tmp_path, entry=source), "entry"))
    assert done.stdout.decode() == f"\n{text!a}"


def test_a_module_can_be_left_behind_as_it_was_carried(tmp_path: Path) -> None:
    """What a host has to do later, by itself, is the source of a module of ours."""
    entry = "from . import kept\nprint(kept.__loader__.get_source(kept.__name__), end='')"
    folder = package(tmp_path, entry=entry, kept="# words\nK = 1\n")
    assert run(carried(folder, "entry")).stdout.decode() == "\n# words\nK = 1\n"


def test_it_says_at_once_that_it_has_begun(tmp_path: Path) -> None:
    """So that a login that hangs is told from work that takes its time."""
    entry = "import os\nos.kill(os.getpid(), 9)"
    assert run(carried(package(tmp_path, entry=entry), "entry")).stdout == b"\n"


def test_a_traceback_names_module_and_line(tmp_path: Path) -> None:
    done = run(
        carried(package(tmp_path, entry="from .deep import go\ngo()", deep="\n\ngo = 1"), "entry")
    )
    assert done.returncode == 1
    assert 'File "entry.py", line 2' in done.stderr.decode()


@pytest.mark.parametrize("path", sorted(CODE.glob("*.py")), ids=lambda path: path.stem)
def test_siblings_are_imported_in_the_forms_that_are_carried(path: Path) -> None:
    """`from .name import …` or `from . import name`, at the top and under their own names."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            assert node.level == 1 and node.col_offset == 0
            assert node.module or not any(alias.asname for alias in node.names)


@pytest.mark.parametrize("entry", ["observe", "observe_host", "converge"])
def test_what_is_carried_is_less_than_its_source_and_loads_no_openssl(
    tmp_path: Path, entry: str
) -> None:
    """F-REAL-26: what each look sends and loads is paid for by every host, each time."""
    script = carried(CODE, entry)
    used = {path for path in CODE.glob("*.py") if path.stem.encode() in script}
    assert len(script) < 1.6 * sum(path.stat().st_size for path in used)
    if entry == "converge":
        return
    request = {"root": str(tmp_path), "prove": [], "topology": False}
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-I", "-", json.dumps(request)],
        input=script,
        capture_output=True,
        cwd="/",
    )
    assert done.returncode == 0
    assert b"_hashlib" not in done.stderr
