"""A fleet of two hosts that a loop has still all to do for, and one that was kept by a loop."""

from __future__ import annotations

import pytest

from tests.harness.yard import Yard, copy_of, two_hosts


@pytest.fixture(scope="session")
def committed(tmp_path_factory: pytest.TempPathFactory) -> Yard:
    """Two hosts that nobody has looked at yet, and what is wanted of them."""
    return two_hosts(tmp_path_factory.mktemp("committed"))


@pytest.fixture(scope="session")
def kept(committed: Yard, tmp_path_factory: pytest.TempPathFactory) -> Yard:
    """The same fleet, kept by a round that nobody disturbed; not to be changed."""
    yard = copy_of(committed, tmp_path_factory.mktemp("kept"))
    assert yard.gpuaas("reconcile", "--once").code == 0
    return yard
