"""The lab for tests: without root or nspawn they are skipped, or fail where they must not be."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack

import pytest

from tests.lab import borrowing
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
