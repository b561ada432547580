"""pyinfra, the nearest peer: the same folders and files by its own operations over its own ssh."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from tests.bench.peer_work import Work
from tests.harness.sshd import Sshd

KEPT = Path(__file__).parents[2] / ".venv" / "peers" / "pyinfra"
INVENTORY = """
import json, pathlib
told = json.loads(pathlib.Path(__file__).with_name("work.json").read_text())
hosts = [
    (
        one["address"],
        {
            "ssh_user": "root",
            "ssh_port": told["port"],
            "ssh_key": told["key"],
            "ssh_known_hosts_file": told["knownHosts"],
            "ssh_strict_host_key_checking": "yes",
            "allocations": one["allocations"],
        },
    )
    for one in told["works"]
]
"""
DEPLOY = """
import io
from pyinfra import host
from pyinfra.operations import files
for folders, texts in host.data.allocations:
    for path, mode in folders:
        files.directory(path=path, mode=mode)
    for path, mode, content in texts:
        files.put(src=io.StringIO(content), dest=path, mode=mode, create_remote_dir=False)
"""


def program(work: Path) -> str:
    """pyinfra in an environment of its own, made once; empty, and said why, if it cannot be."""
    found = KEPT / "bin" / "pyinfra"
    if not found.exists():
        made = subprocess.run(
            [sys.executable, "-m", "venv", KEPT], capture_output=True, check=False
        )
        pip = [KEPT / "bin" / "pip", "install", "--quiet", "pyinfra>=3,<4"]
        done = made if made.returncode else subprocess.run(pip, capture_output=True, check=False)
        if done.returncode:
            print(f"pyinfra: {done.stderr.decode()[-300:].strip()}", file=sys.stderr)
            return ""
    return str(found)


def prepare(program: str, folder: Path, server: Sshd, works: Sequence[Work]) -> list[str]:
    """The command that does the work, or finds it done."""
    folder.mkdir()
    told = {
        "port": server.port,
        "key": str(server.login_key),
        "knownHosts": str(server.pins([work.address for work in works])),
        "works": [asdict(work) for work in works],
    }
    for name, text in (("inventory.py", INVENTORY), ("deploy.py", DEPLOY)):
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "work.json").write_text(json.dumps(told), encoding="utf-8")
    return [program, "-y", str(folder / "inventory.py"), str(folder / "deploy.py")]
