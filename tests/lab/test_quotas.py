"""Shares of disks on a host: told everywhere, and in force where the machine's kernel can count."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from reconciler.kinds.node.host import hardening
from reconciler.model.host.evidence import CheckResult
from tests.lab.conftest import Fresh
from tests.lab.tenancy import Tenancy, Tenant, tenants

pytestmark = pytest.mark.lab

ANA, BO = tenants(6)
RECORD = f"/etc/gpuaas/quotas/{ANA.uid}.json"

DISK = "/var/lib/gpuaas-tenants.img"
MAKE = f"truncate -s 400M {DISK} && mkfs.ext4 -q -O quota,project -E quotatype=prjquota:usrquota"
MOUNT = f"{MAKE} {DISK} && mount -o loop,prjquota,usrquota {DISK} /home && chmod 0711 /home"
FILL = "dd if=/dev/zero of=~/fill bs=64k 2>&1 | head -1; du -sk ~ | cut -f1"
WRITE = "dd if=/dev/zero of=~/small bs=1M count=20 2>&1 | tail -1"
SHARED = 250_000
"""KiB that two slots of four may have at the most of nine tenths of that disk."""


@pytest.fixture(scope="module")
def home(fresh_hosts: Fresh, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenancy]:
    with fresh_hosts(1) as (host,):
        tenancy = Tenancy(host=host, folder=tmp_path_factory.mktemp("tenancy"))
        tenancy.prepare()
        yield tenancy


@pytest.fixture
def counting(home: Tenancy) -> Iterator[Tenancy]:
    """Homes on a file system of their own, which bounds by project and by uid."""
    mounted = home.host.run(MOUNT, check=False)
    if mounted.returncode:
        said = " ".join(mounted.stderr.split())
        pytest.skip(f"this machine's kernel counts nobody by project: {said}")
    try:
        yield home
    finally:
        home.host.run(f"umount -l /home; rm -f {DISK}", check=False)


def told(home: Tenancy, key: str) -> str | None:
    return (home.facts().platform or {}).get(key)


def quota(home: Tenancy, tenant: Tenant) -> str | None:
    return told(home, f"quota {tenant.login}")


def test_a_host_that_counts_nobody_says_so_and_serves_all_the_same(home: Tenancy) -> None:
    assert all(outcome.ok for outcome in home.provide(ANA, BO))
    assert (quota(home, ANA), quota(home, BO)) == ("2 of 4", "1 of 4")
    (check,) = [c for c in hardening(home.facts(), containers=False) if c.name == "disk quotas"]
    assert check.result is CheckResult.FAIL and check.value.startswith("none: ")
    again = home.provide(ANA)
    assert not any(outcome.changed for outcome in again if outcome.ok)
    home.host.run("rm", RECORD)
    assert quota(home, ANA) is None, "which is drift"
    home.restore(ANA)
    outcomes, proof = home.release(ANA)
    assert all(outcome.ok for outcome in outcomes), outcomes
    assert proof.passed, proof
    assert home.host.run(f"test -e {RECORD}", check=False).returncode != 0
    home.release(BO)


def test_who_has_filled_its_share_is_stopped_and_nobody_else(counting: Tenancy) -> None:
    assert all(outcome.ok for outcome in counting.provide(ANA, BO))
    assert (quota(counting, ANA), quota(counting, BO)) == ("2 of 4", "1 of 4")
    assert "ext4 at /home by project and uid" in (told(counting, "disk quotas") or "")
    said, used = counting.enter(ANA, FILL).stdout.splitlines()
    assert said.endswith("Disk quota exceeded") and 0 < int(used) < SHARED
    assert "20 MiB" in counting.enter(BO, WRITE).stdout
    escaped = counting.enter(ANA, f"chattr -p 0 ~/fill; {FILL.replace('fill', 'more')}")
    assert int(escaped.stdout.splitlines()[-1]) < SHARED, "by uid it is held to it as well"
    outcomes, proof = counting.release(ANA)
    assert all(outcome.ok for outcome in outcomes), outcomes
    assert proof.passed, proof
    assert quota(counting, ANA) is None
    counting.release(BO)
