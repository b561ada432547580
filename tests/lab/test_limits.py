"""Limits of a tenant's slice: what systemd was told, and what the kernel makes of it.

A lab host has the controllers that no cgroup v1 of the machine has taken. What none is there for is
accepted by systemd and binds nobody; the tests that need one name it where it is missing.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from reconciler.kinds.node.host import hardening
from reconciler.model.host.evidence import CheckResult
from tests.lab import place
from tests.lab.conftest import Fresh
from tests.lab.tenancy import Tenancy, tenants

pytestmark = pytest.mark.lab

ANA, BO = tenants(1)

SLICE = f"user-{ANA.uid}.slice"
FOLDER = f"/sys/fs/cgroup/user.slice/{SLICE}"
KERNELS = {"TasksMax": ("pids", "pids.max"), "MemoryMax": ("memory", "memory.max")}
BOMB = "import os, time\nwhile True:\n try: os.fork()\n except OSError: time.sleep(5)"
HOG = "held = b'x' * 10**9; import time; time.sleep(9)"


@pytest.fixture(scope="module")
def home(fresh_hosts: Fresh, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenancy]:
    with fresh_hosts(1) as (host,):
        tenancy = Tenancy(host=host, folder=tmp_path_factory.mktemp("tenancy"))
        tenancy.prepare()
        tenancy.restore(ANA, BO)
        yield tenancy


@pytest.fixture
def inside(home: Tenancy) -> Iterator[None]:
    """Somebody is logged in: a slice is there for as long as something runs in it."""
    options = home.host.ssh_options(key=place.key(ANA.owner))
    line = ["ssh", *options, f"{ANA.login}@{home.host.address}", "echo in; exec sleep 900"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as session:
        assert session.stdout is not None and session.stdout.readline() == "in\n"
        try:
            yield
        finally:
            session.kill()


def controllers(home: Tenancy) -> set[str]:
    return set(home.host.run("cat /sys/fs/cgroup/cgroup.controllers").stdout.split())


def needs(home: Tenancy, name: str) -> None:
    if name not in controllers(home):
        pytest.skip(f"this machine hands on no {name} controller to its lab hosts")


@contextmanager
def lowered(home: Tenancy, limit: str) -> Iterator[None]:
    """What the machine can bear while somebody does their worst; `systemctl revert` would take away
    what is ours as well.
    """
    folder = f"/run/systemd/system/{SLICE}.d"
    told = f"mkdir -p {folder} && printf '[Slice]\\n{limit}\\n' > {folder}/99-low.conf"
    home.host.run(f"{told} && systemctl daemon-reload")
    try:
        yield
    finally:
        home.host.run(f"echo 1 > {FOLDER}/cgroup.kill", check=False)
        home.host.run(f"rm -f {folder}/99-low.conf; systemctl daemon-reload")
        home.restore(ANA)


def told(home: Tenancy) -> dict[str, str]:
    lines = home.host.run("systemctl", "show", SLICE).stdout.splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


def test_every_limit_stands_and_what_binds_nobody_is_named(home: Tenancy, inside: None) -> None:
    """The unit's values are there in any case, and the kernel's where it has a controller."""
    values, had = told(home), controllers(home)
    assert values["TasksMax"] == "16384" and values["MemorySwapMax"] == "0"
    assert (
        int(values["MemoryMax"]) > 0
        and values["AllowedCPUs"]
        and values["DevicePolicy"] == "closed"
    )
    with_it = [name for name, (controller, _) in KERNELS.items() if controller in had]
    for name in with_it:
        kernels = home.host.run("cat", f"{FOLDER}/{KERNELS[name][1]}").stdout.strip()
        assert kernels == values[name]
    facts = home.facts()
    (check,) = [c for c in hardening(facts, containers=False) if c.name == "controllers root"]
    missing = sorted({"cpu", "cpuset", "io", "memory", "pids"} - had)
    assert check.result is (CheckResult.FAIL if missing else CheckResult.PASS)
    assert check.value == (f"without {', '.join(missing)}" if missing else " ".join(sorted(had)))


def test_a_fork_bomb_stays_within_its_slice(home: Tenancy) -> None:
    """Others log in, the host is looked at, and a release ends it."""
    needs(home, "pids")
    with lowered(home, "TasksMax=40"):
        begun = home.enter(
            ANA, f"cat > bomb.py <<'E'\n{BOMB}\nE\nsetsid python3 bomb.py >&- 2>&- <&- &"
        )
        assert begun.returncode == 0, begun.stderr
        until = time.monotonic() + 60
        while int(home.host.run("cat", f"{FOLDER}/pids.current").stdout) < 40:
            assert time.monotonic() < until, "it does not fork"
            time.sleep(0.5)
        assert home.enter(BO, "true").returncode == 0
        assert home.facts().platform is not None
        assert int(home.host.run("cat", f"{FOLDER}/pids.current").stdout) <= 40
        outcomes, _ = home.release(ANA)
        assert all(outcome.ok for outcome in outcomes), outcomes
        assert home.proof(ANA).passed


def test_a_hog_of_memory_is_ended_alone(home: Tenancy) -> None:
    needs(home, "memory")
    with lowered(home, "MemoryMax=100M"):
        assert home.enter(ANA, f'python3 -c "{HOG}"').returncode == 137
        assert home.enter(BO, "true").returncode == 0
