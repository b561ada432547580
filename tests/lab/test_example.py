"""What `make lab` prints works as printed: from bare hosts to somebody's first command."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.lab import example
from tests.lab.host import Host

pytestmark = pytest.mark.lab


def test_the_printed_commands_lead_from_bare_hosts_to_a_session(
    hosts: Callable[[int], tuple[Host, ...]], tmp_path: Path
) -> None:
    """Three hosts are enrolled, prepared and used by nothing but what is printed."""
    three = hosts(3)
    for each in three:
        example.make_bare(each)
        assert each.run("true", login="gpuaas", check=False).returncode == 255
    folder = tmp_path / "fleet"
    example.write(folder)
    shell = ["bash", "-euo", "pipefail", "-c"]
    where = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for command in (*example.enrolment(three), *example.use()):
        done = subprocess.run(
            [*shell, command], cwd=folder, env=where, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{command}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    assert "gpuaas-tenants" in done.stdout
