"""JupyterLab by `gpuaas ssh`: its address, which holds its token, is told of a port of our own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.harness.ssh_fleet import on_the_books
from tests.harness.sshd import Sshd
from tests.model.host.test_endpoint import KEY

SSH = f"""#!{sys.executable}
import os, socket, sys, time
if "-N" not in sys.argv:
    print("socket=/home/train-aaaa/x.sock\\ntoken=" + "a" * 48)
elif os.environ["FORWARDS"]:
    port = sys.argv[sys.argv.index("-L") + 1].split(":")[1]
    with socket.create_server(("127.0.0.1", int(port))):
        time.sleep(1)
else:
    sys.exit("the port is somebody else's by now")
"""


@pytest.mark.parametrize("forwards", ["yes", ""])
def test_where_jupyterlab_is_is_told_when_the_port_is_ours(tmp_path: Path, forwards: str) -> None:
    door: Any = SimpleNamespace(port=22, host_key=KEY)
    yard = on_the_books(tmp_path / "fleet", cast(Sshd, door), "train-aaaa")
    (tmp_path / "ssh").write_text(SSH)
    (tmp_path / "ssh").chmod(0o755)
    done = subprocess.run(
        [Path(sys.executable).with_name("gpuaas"), "ssh", "vision/train", "--jupyter"],
        cwd=yard.folder,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "FORWARDS": forwards},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ("JupyterLab: http://127.0.0.1:" in done.stderr) == bool(forwards), done
    assert ("a" * 48 in done.stderr + done.stdout) == bool(forwards)
    assert (done.returncode == 0) == bool(forwards)
