"""Units of systemd for the loop: sound text, whatever the folder is called."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from reconciler.model.problem import ProblemError
from reconciler.operations.reconcile.service.install import NAME, install, units
from tests.harness.yard import Yard, copy_of


def test_the_units_are_written_whole_and_name_what_is_next(yard: Yard, tmp_path: Path) -> None:
    folder = tmp_path / "units"
    folder.mkdir()
    done = install(yard.fleet(), timer=False, folder=folder)
    assert done.files == (str(folder / f"{NAME}.service"),)
    text = Path(done.files[0]).read_text()
    assert f"WorkingDirectory={yard.folder}\n" in text
    assert f'ReadWritePaths="-{yard.folder}/state"\n' in text
    assert "Type=notify" in text and "WatchdogSec=" in text
    assert f"{NAME}.service" in done.next
    assert oct(Path(done.files[0]).stat().st_mode & 0o777) == "0o644"


def test_the_file_of_metrics_can_be_written(yard: Yard) -> None:
    settings = yard.folder / "gpuaas.yaml"
    settings.write_text(
        settings.read_text() + "loop: {metrics: {textfile: /var/lib/figures/gpuaas.prom}}\n"
    )
    text = units(yard.fleet(), timer=True)[f"{NAME}.service"]
    assert f'ReadWritePaths="-{yard.folder}/state" "-/var/lib/figures"\n' in text


def test_a_timer_runs_single_rounds(yard: Yard) -> None:
    found = units(yard.fleet(), timer=True)
    assert found.keys() == {f"{NAME}.service", f"{NAME}.timer"}
    assert '"reconcile" "--once"' in found[f"{NAME}.service"]
    assert "Type=oneshot" in found[f"{NAME}.service"]
    assert "[Install]" not in found[f"{NAME}.service"]
    assert "OnUnitInactiveSec=60s" in found[f"{NAME}.timer"]


def test_names_that_mean_something_to_systemd_mean_nothing(yard: Yard, tmp_path: Path) -> None:
    other = copy_of(yard, tmp_path / 'a %n "b" $HOME')
    text = units(other.fleet(), timer=False)[f"{NAME}.service"]
    assert 'a %%n \\"b\\" $$HOME' in text


def test_a_name_of_two_lines_is_refused(yard: Yard, tmp_path: Path) -> None:
    other = copy_of(yard, tmp_path / "a\nExecStart=b")
    with pytest.raises(ProblemError) as error:
        units(other.fleet(), timer=False)
    assert error.value.problems[0].code == "unit_unsound"


def test_who_may_not_write_there_is_told_what_to_do(yard: Yard, tmp_path: Path) -> None:
    with pytest.raises(ProblemError) as error:
        install(yard.fleet(), timer=False, folder=tmp_path / "nowhere")
    assert error.value.problems[0].code == "units_unwritable"


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed")
@pytest.mark.parametrize("timer", [False, True])
def test_systemd_takes_them_and_finds_them_hardened(
    yard: Yard, tmp_path: Path, timer: bool
) -> None:
    names = []
    for name, text in units(yard.fleet(), timer=timer).items():
        (tmp_path / name).write_text(text)
        names.append(str(tmp_path / name))
    told = subprocess.run(
        ["systemd-analyze", "verify", *names], capture_output=True, text=True, check=False
    )
    assert (told.returncode, told.stdout + told.stderr) == (0, "")
    asked = ["systemd-analyze", "security", "--offline=yes", "--no-pager", names[0]]
    exposure = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
    assert float(exposure.split("Overall exposure level")[1].split()[2]) <= 2.5
