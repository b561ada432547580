"""The demo works, and works again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests import demo

pytestmark = pytest.mark.walk


def test_the_demo_ends_with_nothing_to_do(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """LCH-01: the example fleet is validated, planned, applied, shown; a rerun changes nothing."""
    for name in ("gpuaas.yaml", "specs"):
        copy = shutil.copytree if (demo.ROOT / name).is_dir() else shutil.copy
        copy(demo.ROOT / name, tmp_path / name)
    demo.main(tmp_path)
    first = capfd.readouterr().out
    assert "25 changes" in first and first.count("nothing to do") == 1
    assert len(list(tmp_path.glob("state/hosts/*/etc/gpuaas/ssh/*"))) == 5
    demo.main(tmp_path)
    assert capfd.readouterr().out.count("nothing to do") >= 2
