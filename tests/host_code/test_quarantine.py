"""Quarantine on a folder: nothing that lies there is touched, and no number is believed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from gpuaas import quarantine
from gpuaas.paths import Refusal, Tree

from tests.harness.directory_host import ID, LOGIN

ITEM: dict[str, Any] = {"id": ID, "login": LOGIN, "uid": 0}


def run(root: Path, **changes: Any) -> bool:
    """Whether anything was changed."""
    folder = os.open(root, os.O_RDONLY)
    try:
        tree = Tree(folder, dry=False)
        quarantine.run(tree, {**ITEM, **changes})
        return tree.changed
    finally:
        os.close(folder)


def test_on_a_folder_nothing_runs_and_all_stays(tmp_path: Path) -> None:
    home = tmp_path / "home" / LOGIN
    home.mkdir(parents=True)
    (home / "work").write_text("work")
    assert not run(tmp_path)
    assert (home / "work").read_text() == "work"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"id": "../../etc"}, "item_invalid"),
        ({"login": "root"}, "item_invalid"),
        ({"uid": 7}, "item_invalid"),
        # There is no such account, or it is somebody else's: by its number nothing may end.
        ({"uid": 20001}, "account_conflict"),
    ],
)
def test_what_is_no_tenant_is_refused(tmp_path: Path, changes: dict[str, Any], code: str) -> None:
    """Nobody's processes end but those of the one account that was made for this."""
    etc = tmp_path / "etc"
    etc.mkdir()
    (etc / "passwd").write_text("service:x:20001:20001:not ours:/:/bin/sh\n")
    (etc / "group").write_text("")
    (etc / "shadow").write_text("")
    with pytest.raises(Refusal) as caught:
        run(tmp_path, **changes)
    assert caught.value.code == code
