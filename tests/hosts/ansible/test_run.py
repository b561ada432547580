"""The environment of a run, its folders, and how few of them are kept."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from ansible_runner.config.runner import RunnerConfig

from reconciler.hosts import folders
from reconciler.hosts.ansible.run import environment
from tests.harness.directory_host import PLAYBOOKS


def test_a_users_settings_are_not_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """F-ANS-11: an allow-list; no ANSIBLE_ or Python variable of the user gets through."""
    for name in (
        "ANSIBLE_BECOME",
        "ANSIBLE_VAULT_PASSWORD_FILE",
        "AWX_LIB_DIRECTORY",
        "PYTHONPATH",
    ):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("ANSIBLE_HOST_KEY_CHECKING", "False")
    found = environment(PLAYBOOKS, Path("/tmp/h"))
    assert {name for name in found if name.startswith("ANSIBLE_")} == {
        "ANSIBLE_CONFIG",
        "ANSIBLE_ACTION_PLUGINS",
        "ANSIBLE_HOME",
        "ANSIBLE_HOST_KEY_CHECKING",
    }
    assert not {"AWX_LIB_DIRECTORY", "PYTHONPATH"} & set(found)
    assert found["MAX_EVENT_RES"] == str(8 * 1024 * 1024)


def test_host_keys_are_checked_whatever_the_runner_would_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-ANS-11: what ansible-runner really hands to Ansible, from a user who turned it off."""
    monkeypatch.setenv("ANSIBLE_HOST_KEY_CHECKING", "False")
    clean = environment(PLAYBOOKS, tmp_path)
    monkeypatch.setattr(os, "environ", clean)
    config = RunnerConfig(private_data_dir=str(tmp_path), playbook="converge.yml")
    config.prepare()
    assert config.env["ANSIBLE_HOST_KEY_CHECKING"] == "True"
    assert config.env["ANSIBLE_CONFIG"] == str(PLAYBOOKS / "ansible.cfg")


def test_a_log_lies_in_a_folder_of_its_own(tmp_path: Path) -> None:
    """F-ANS-04: two runs never share one, and nobody else looks into it."""
    runs = tmp_path / "state" / "runs"
    with ThreadPoolExecutor(max_workers=8) as pool:
        list(pool.map(lambda n: folders.keep_log(runs, f"run {n}", ok=True, keep=50), range(40)))
    logs = [run / folders.LOG for run in runs.iterdir()]
    assert sorted(log.read_text() for log in logs) == sorted(f"run {n}" for n in range(40))
    assert {stat.S_IMODE(log.parent.stat().st_mode) for log in logs} == {0o700}


def test_logs_do_not_pile_up(tmp_path: Path) -> None:
    """F-ANS-12: few are kept, the newest failed one among them, wherever the clock is set to."""
    (tmp_path / "note.txt").write_text("not ours")
    earlier = [tmp_path / f"run-{name}" for name in ("x2k9", "abcd")]
    for run in earlier:
        run.mkdir()
    for number in range(550):
        folders.keep_log(tmp_path, f"{number}", ok=number not in (3, 5), keep=4)
        run = max(tmp_path.glob(f"{folders.PREFIX}*"))
        os.utime(run, (1_000 - number, 1_000 - number))
        assert len(list(tmp_path.rglob("*"))) < 20
    kept = [(run / folders.LOG).read_text() for run in sorted(tmp_path.glob("*-*"))]
    assert kept == ["5", "546", "547", "548", "549"]
    assert (tmp_path / "note.txt").exists()


def test_the_short_folder_leaves_room_for_a_socket() -> None:
    """F-ANS-11: with a control path's 40 + 9 + 17 characters it stays below the kernel's 107."""
    found = folders.short_folder()
    assert len(str(found)) + 1 + 9 + 40 + 17 < 107
    assert stat.S_IMODE(found.stat().st_mode) == 0o700


@pytest.mark.parametrize("how", ["file", "link", "dangling link", "open to others"])
def test_a_short_folder_that_somebody_laid_out_for_us_is_not_used(how: str, tmp_path: Path) -> None:
    """Anybody may make that name in /tmp before us. One other serves all calls, and goes."""
    name = Path("/tmp/gpuaas-4000000")
    make = {
        "file": lambda: name.write_text("mine"),
        "link": lambda: name.symlink_to(tmp_path),
        "dangling link": lambda: name.symlink_to(tmp_path / "nothing"),
        "open to others": lambda: name.mkdir(mode=0o755),
    }
    script = "from reconciler.hosts.folders import short_folder as f; print(f(), f(), f().stat())"
    pretend = f"import os\nos.getuid = lambda: 4_000_000\n{script}"
    make[how]()
    try:
        done = subprocess.run(
            [sys.executable, "-c", pretend], capture_output=True, text=True, check=True
        )
    finally:
        name.rmdir() if name.is_dir() and not name.is_symlink() else name.unlink()
    first, second, status = done.stdout.split(" ", 2)
    assert first == second != str(name)
    assert first.startswith("/tmp/gpuaas-") and f"st_mode={stat.S_IFDIR | 0o700}" in status
    assert not Path(first).exists()
    assert list(tmp_path.iterdir()) == []
