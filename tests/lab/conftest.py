"""The lab for tests: without root or nspawn they are skipped, or fail where they must not be."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack

import pytest

from tests.lab import borrowing
from tests.lab.colony import ALLOCATIONS, Colony, allocation, founded
from tests.lab.host import Host

Fresh = Callable[[int], AbstractContextManager[tuple[Host, ...]]]


@pytest.fixture(scope="session")
def fresh_hosts() -> Fresh:
    """`with fresh_hosts(3) as hosts`: for fixtures that keep theirs for a while."""
    if why := borrowing.why_not():
        if os.environ.get("CI") or os.environ.get("GPUAAS_LAB") == "required":
            pytest.fail(why)
        pytest.skip(why)
    return borrowing.fresh


@pytest.fixture
def hosts(fresh_hosts: Fresh) -> Iterator[Callable[[int], tuple[Host, ...]]]:
    """`hosts(3)`: for one test alone."""
    with ExitStack() as stack:
        yield lambda count: stack.enter_context(fresh_hosts(count))


@pytest.fixture(scope="session")
def colony(fresh_hosts: Fresh, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Colony]:
    """Three hosts enrolled, and seven allocations of two projects given out by one apply.

    Every test leaves it as it was: with these allocations in force and nothing to do.
    """
    with fresh_hosts(3) as hosts:
        machines = dict(zip(("c1", "c2", "c3"), hosts, strict=True))
        colony = founded(tmp_path_factory.mktemp("colony"), machines, *map(allocation, ALLOCATIONS))
        colony.enrol()
        colony.first = colony.shell("apply", "--auto-approve")
        assert colony.first.returncode == 0, colony.first.stdout + colony.first.stderr
        yield colony
