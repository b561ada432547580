"""The wheel is complete: in an empty environment, gpuaas makes and plans a fleet."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SHIPPED = ("schemas", "playbooks", "templates")

pytestmark = pytest.mark.wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder)]
    subprocess.run([*build, str(ROOT)], check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel and nothing of this checkout.

    The libraries it depends on are those installed here, found by a path file: no network.
    """
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    found = folder / "bin" / "python"
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(found),
        "install",
        "--no-index",
        "--no-deps",
    ]
    subprocess.run([*pip, str(wheel)], check=True, capture_output=True)
    site = folder / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"
    (site / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return found


def gpuaas(python: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": f"{python.parent}:{os.environ['PATH']}", "HOME": str(folder)}
    return subprocess.run(
        [str(python.with_name("gpuaas")), *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_everything_that_is_shipped_is_inside(wheel: Path) -> None:
    inside = set(zipfile.ZipFile(wheel).namelist())
    wanted = (
        {
            f"reconciler/_shipped/{path.relative_to(ROOT).as_posix()}"
            for name in SHIPPED
            for path in (ROOT / name).rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }
        | {
            f"reconciler/_shipped/runbooks/{path.name}"
            for path in (ROOT / "docs" / "runbooks").glob("*.md")
        }
        | {
            path.relative_to(ROOT).as_posix()
            for path in (ROOT / "reconciler").rglob("*")
            if path.suffix in {".py", ".sql"}
        }
    )
    assert wanted <= inside, sorted(wanted - inside)
    assert not [name for name in inside if name.startswith(("tests/", "specs/", "state/"))]


def test_nothing_comes_from_the_checkout(python: Path, tmp_path: Path) -> None:
    asked = "import reconciler.shipped as s; print(s.folder('schemas')); print(s.__file__)"
    said = subprocess.run(
        [str(python), "-c", asked], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout.split()
    assert all(Path(path).is_relative_to(python.parents[1]) for path in said), said


def test_init_and_plan_in_an_empty_folder(python: Path, tmp_path: Path) -> None:
    made = gpuaas(python, tmp_path, "init")
    assert made.returncode == 0, made.stdout + made.stderr
    checked = gpuaas(python, tmp_path, "validate", "-o", "json")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    planned = gpuaas(python, tmp_path, "plan", "-o", "json", "--detailed-exitcode", "--refresh")
    assert planned.returncode == 2, planned.stdout + planned.stderr
    shown = json.loads(planned.stdout)
    assert "create" in json.dumps(shown)
