"""What is secret on the control machine stays in its own file: it is looked for everywhere else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from reconciler.hosts.folders import short_folder
from tests.harness.sshd import needs_sshd, sshd
from tests.harness.yard import ROOT, Yard, laid
from tests.journeys.hosts.test_ssh_fleet import behind
from tests.planner import fleet as paper

pytestmark = [pytest.mark.walk, pytest.mark.ansible, needs_sshd]

TOKEN = "QQsecretQQ" * 4
"""In the environment of whoever starts gpuaas."""
IDENTITY, KEY = ".gpuaas/identity", ".gpuaas/descriptor.key"
SETTINGS = f"operators: [olga]\nssh: {{identityFile: {IDENTITY}}}\npublish: {{dir: public}}\n"
PROGRAM = "import sys; from reconciler.cli.main import run; sys.exit(run(sys.argv[1:]))"


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    """One host behind a real sshd, a login key and a key of descriptors, nothing applied."""
    folder = tmp_path_factory.mktemp("secret")
    with sshd(folder / "sshd") as door:
        fleet = folder / "fleet"
        node = behind(door, "gpu01", fleet)
        made = laid(fleet, {}, node, paper.allocation("train", "slice-2"))
        shutil.copy(door.login_key, fleet / IDENTITY)
        (fleet / IDENTITY).chmod(0o600)
        (fleet / "gpuaas.yaml").write_text(SETTINGS)
        made.commit()
        made.lay_nodes()
        yield made


@pytest.fixture(scope="module")
def secrets(yard: Yard) -> tuple[bytes, ...]:
    key = (yard.folder / KEY).read_text().strip()
    lines = (yard.folder / IDENTITY).read_text().splitlines()[1:-1]
    # The first line of a key is alike in all of them, and holds its public half.
    return (key.encode(), bytes.fromhex(key), *(line[:40].encode() for line in lines[2:]))


def gpuaas(yard: Yard, *words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, "-C", str(yard.folder), *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "AWS_SECRET_ACCESS_KEY": TOKEN},
        capture_output=True,
        timeout=120,
        check=False,
    )


def contents(*folders: Path) -> Iterator[tuple[str, bytes]]:
    """Every file below the folders, as far as it is still there, but for the secrets' own."""
    for folder in folders:
        for place, _, files in os.walk(folder):
            for path in (Path(place, name) for name in files):
                if path.parent.name != ".gpuaas":
                    with suppress(OSError):
                        yield str(path), path.read_bytes() if path.is_file() else b""


def processes() -> Iterator[tuple[str, bytes]]:
    """Arguments and environment of everything that runs on this machine."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        for what in ("cmdline", "environ"):
            with suppress(OSError):
                yield f"/proc/{pid}/{what}", Path("/proc", pid, what).read_bytes()


@contextmanager
def watched(yard: Yard, secrets: Sequence[bytes]) -> Iterator[dict[str, set[str]]]:
    """Where a secret shows at any moment in here, and what was seen of Ansible meanwhile."""
    seen: dict[str, set[str]] = {"leaks": set(), "ansible": set(), "looked": set()}
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.05):
            for name, content in processes():
                if any(secret in content for secret in secrets):
                    seen["leaks"].add(name)
                if b"ansible-playbook" in content and name.endswith("cmdline"):
                    with suppress(OSError):
                        seen["ansible"].add(Path(name).with_name("environ").read_text())
            for name, content in contents(yard.folder, *calls()):
                seen["looked"].add(Path(name).name)
                if any(secret in content for secret in secrets):
                    seen["leaks"].add(name)

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield seen
    finally:
        over.set()
        watcher.join()


def calls() -> list[Path]:
    return list(short_folder().glob("call-*"))


def test_no_secret_shows_while_hosts_are_at_work_nor_afterwards(
    yard: Yard, secrets: tuple[bytes, ...]
) -> None:
    """SEC-06, F-ANS-07, F-PLN-06: not in a process list, an inventory, a log, an artifact, a plan,
    the database and what belongs to it, what is published, or what is printed; and nothing of the
    environment reaches Ansible.
    """
    plan, copy = str(yard.folder / "own.plan"), str(yard.folder / "copy.db")
    said = b""
    with watched(yard, secrets) as seen:
        for words in (
            ("plan", "--refresh", "--save", plan),
            ("apply", plan, "--auto-approve=destroys", "-o", "json"),
            ("show", "vision/train", "-o", "json"),
            ("events", "-o", "json"),
            ("state", "backup", copy),
        ):
            done = gpuaas(yard, *words)
            said += done.stdout + done.stderr
            assert done.returncode == 0, (words, done.stderr.decode())
    assert seen["leaks"] == set()
    assert {"gpuaas.db", "gpuaas.db-wal", "own.plan", "inventory.json", "log"} <= seen["looked"]
    assert seen["ansible"] and not any(TOKEN in one for one in seen["ansible"])
    leaks = [name for name, content in contents(yard.folder) if holds(content, secrets)]
    assert leaks == [] and not holds(said, (*secrets, TOKEN.encode()))
    (descriptor,) = (yard.root("gpu01") / "etc/gpuaas/allocations").iterdir()
    assert b'"hmac"' in descriptor.read_bytes(), "it was signed by the key that was looked for"


def holds(content: bytes, secrets: Sequence[bytes]) -> bool:
    return any(secret in content for secret in secrets)


def test_a_key_that_cannot_be_used_is_not_told(
    yard: Yard, secrets: tuple[bytes, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-ANS-08: not in the words of an error either, with every detail asked for."""
    monkeypatch.setenv("GPUAAS_DEBUG", "1")
    yard.write(paper.allocation("other"))
    half = tuple(secret[:20] for secret in secrets)
    kept = {name: (yard.folder / name).read_text() for name in (KEY, IDENTITY)}
    try:
        for spoil in (lambda text: text[: len(text) // 2], lambda text: f"!{text}", repr):
            for name, text in kept.items():
                (yard.folder / name).write_text(spoil(text))
            done = gpuaas(yard, "apply", "--auto-approve", "-o", "json")
            assert b"descriptor_key_missing" in done.stdout
            assert not holds(done.stdout + done.stderr, half)
    finally:
        for name, text in kept.items():
            (yard.folder / name).write_text(text)
    assert [name for name, found in contents(yard.folder) if holds(found, half)] == []
