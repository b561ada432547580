"""activate.sh in whatever script sources it: nothing breaks, and PATH does not grow."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import jinja2
import pytest

from reconciler import shipped

STRICT = {"dash": "set -eu", "bash": "set -euo pipefail", "zsh": "set -euo pipefail"}
A, B = "/opt/gpuaas/runtimes/x/1/bin", "/opt/gpuaas/runtimes/x/2/bin"


class Scripts:
    """Strict scripts of one shell, with two versions to source."""

    def __init__(self, folder: Path, shell: str) -> None:
        template = jinja2.Template(shipped.templates()["runtime/activate.sh.j2"])
        for name, place in {"a": A, "b": B}.items():
            given = {"bundle": "x", "version": name, "place": place.removesuffix("/bin")}
            (folder / name).write_text(template.render(given) + "\n")
        self.folder, self.strict = folder, STRICT[shell]
        self.program = shutil.which(shell) or pytest.skip(f"no {shell} here")

    def run(self, script: str, path: str | None = "/usr/bin:/bin") -> str:
        environment = {} if path is None else {"PATH": path}
        done = subprocess.run(
            [self.program, "-c", f"{self.strict}\n{script}"],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.strip()


@pytest.fixture(params=list(STRICT))
def scripts(tmp_path: Path, request: pytest.FixtureRequest) -> Scripts:
    return Scripts(tmp_path, request.param)


def test_once_and_again_and_back(scripts: Scripts) -> None:
    """F-REAL-20."""
    assert scripts.run('. ./a; . ./a; echo "$PATH"') == f"{A}:/usr/bin:/bin"
    assert scripts.run('. ./a; . ./b; echo "$PATH"') == f"{B}:/usr/bin:/bin"
    back = scripts.run('. ./a; . ./b; deactivate; echo "$PATH ${VIRTUAL_ENV-none}"')
    assert back == "/usr/bin:/bin none"


def test_in_a_script_of_a_script(scripts: Scripts) -> None:
    """F-REAL-20: which has the variables of the first, and not its function."""
    inner = f'{scripts.strict}; . ./a; . ./a; echo "$PATH"; . ./b; echo "$PATH"; deactivate'
    (scripts.folder / "inner").write_text(f'{inner}; echo "$PATH ${{GPUAAS_RUNTIME_ACTIVE-}}"\n')
    told = scripts.run(f'. ./a; {scripts.program} ./inner; echo "$PATH"').splitlines()
    kept = f"{A}:/usr/bin:/bin"
    assert told == [kept, f"{B}:/usr/bin:/bin", f"{kept} x@a", kept]


@pytest.mark.parametrize("path", ["", None])
def test_without_a_path(scripts: Scripts, path: str | None) -> None:
    """F-REAL-20: an empty entry would be the folder that somebody stands in."""
    found = scripts.run(
        'unset PATH; . ./a; . ./b; echo "$PATH"; deactivate; echo "${PATH-no}"', path
    )
    assert found.splitlines() == [f"{B}:/usr/local/bin:/usr/bin:/bin", "no"]


def test_a_program_of_that_name_is_not_run(scripts: Scripts) -> None:
    (scripts.folder / "deactivate").write_text("#!/bin/sh\necho ran\n")
    (scripts.folder / "deactivate").chmod(0o755)
    told = scripts.run('VIRTUAL_ENV=/other; . ./a; echo "$PATH"', f"{scripts.folder}:/bin")
    assert told == f"{A}:{scripts.folder}:/bin"
