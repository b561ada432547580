"""What tenants fill keeps nobody out and nobody in: places of sshd, room on disks."""

from __future__ import annotations

import hashlib
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from reconciler.hosts.folders import short_folder
from reconciler.model.host.evidence import CheckResult
from reconciler.model.plan.work import StepOutcome
from tests.lab import place
from tests.lab.console import console
from tests.lab.host import Host
from tests.lab.tenancy import Tenancy, Tenant, person, tenants
from tests.planner import fleet

pytestmark = pytest.mark.lab

ANA, BO = tenants(3)

Fresh = Callable[[int], AbstractContextManager[tuple[Host, ...]]]

IDLE = 150
LINK_LOCAL = "fe80::7"
FLOOD = """
import collections, errno, resource, socket, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
told, kept = collections.Counter(), []
for place in sys.argv[2:]:
    for _ in range(int(sys.argv[1])):
        try:
            family, kind, *_, where = socket.getaddrinfo(place, 22, type=socket.SOCK_STREAM)[0]
            one = socket.socket(family, kind)
            one.settimeout(1)
            one.connect(where)
            one.setblocking(False)
            kept.append(one)
            told[place, "in"] += 1
        except OSError as error:
            told[place, errno.errorcode.get(error.errno, str(error))] += 1
for (place, what), number in sorted(told.items()):
    print(place, what, number)
print("done", flush=True)
sys.stdin.read()
"""


SERVE = """
import os, socket
server = socket.create_server((os.environ["GPUAAS_LOOPBACK"], 8899))
print("done", flush=True)
server.accept()[0].close()
"""


@pytest.fixture(scope="module")
def pair(
    fresh_hosts: Fresh, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Tenancy, Tenancy]]:
    """Two prepared hosts of one fleet; on both lives Bo, on the first Ana as well.

    Lab hosts share a kernel, which counts keys by uid: who is released lives on one of them.
    """
    with fresh_hosts(2) as hosts:
        both = tuple(
            Tenancy(host=host, folder=tmp_path_factory.mktemp(f"host{number}"))
            for number, host in enumerate(hosts)
        )
        for one in both:
            one.prepare()
        done(both[0].provide(ANA, BO))
        done(both[1].provide(BO))
        yield both[0], both[1]


@pytest.fixture
def home(pair: tuple[Tenancy, Tenancy]) -> Iterator[Tenancy]:
    """The first of them, as it should be whatever the test before did."""
    pair[0].extra.clear()
    pair[0].restore(ANA, BO)
    yield pair[0]


def done(outcomes: tuple[StepOutcome, ...]) -> None:
    assert all(outcome.ok for outcome in outcomes), [o.problem for o in outcomes if not o.ok]


@contextmanager
def stays(home: Tenancy, tenant: Tenant, command: str, given: str = "") -> Iterator[str]:
    """Somebody who stays logged in; what the command said until it was done."""
    options = home.host.ssh_options(key=place.key(tenant.owner))
    with subprocess.Popen(
        ["ssh", *options, f"{tenant.login}@{home.host.address}", command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as ssh:
        assert ssh.stdin is not None and ssh.stdout is not None
        ssh.stdin.write(given)
        ssh.stdin.flush()
        said = ""
        try:
            for line in ssh.stdout:
                if line == "done\n":
                    break
                said += line
            yield said
        finally:
            ssh.kill()


def flooding(home: Tenancy, tenant: Tenant, *places: str) -> AbstractContextManager[str]:
    """Idle connections to sshd at each of these places, held until this is left."""
    wrote = home.enter(tenant, f"cat > ~/flood.py <<'E'\n{FLOOD}\nE")
    assert wrote.returncode == 0, wrote.stderr
    return stays(home, tenant, f"python3 ~/flood.py {IDLE} {' '.join(places)}")


def let_go(home: Tenancy) -> None:
    """What is kept of our connections to the host ends: the next one has to get in anew."""
    pins = hashlib.sha256("\n".join(home.host.host_keys()).encode()).hexdigest()[:8]
    found = list(short_folder().glob(f"{pins}-*"))
    for socket in found:
        words = ("ssh", "-o", f"ControlPath={socket}", "-O", "exit", home.node)
        subprocess.run(words, capture_output=True, check=False, timeout=20)


def is_shut_out(home: Tenancy, tenant: Tenant) -> float:
    """The seconds until a new connection has taken every key of this tenant's away."""
    let_go(home)
    began = time.monotonic()
    home.extra[:] = [person(tenant.owner, state="suspended")]
    done(home.provide(tenant))
    return time.monotonic() - began


def test_idle_connections_from_within_and_from_the_fleet_keep_nobody_out(
    pair: tuple[Tenancy, Tenancy], home: Tenancy
) -> None:
    """Isolation 11: no sshd of the host's own is there for tenants; others have their share."""
    host, neighbour = home.host, pair[1]
    within = ("127.0.0.1", "127.9.9.9", "::1", host.address)
    host.run(f"ip -6 addr replace {LINK_LOCAL}/64 dev host0 nodad")
    link_local = f"{LINK_LOCAL}%host0:22"
    assert home.reached(None, link_local) == {link_local: "answered"}
    with (
        flooding(home, BO, *within) as said,
        flooding(neighbour, BO, host.address) as said_there,
    ):
        assert is_shut_out(home, ANA) < 30
        assert home.reached(BO, link_local) == {link_local: "ECONNREFUSED"}
        assert sorted(said.splitlines()) == sorted(f"{at} ECONNREFUSED {IDLE}" for at in within)
        assert " in " in said_there, "it may try, and is held to its share"
        assert home.enter(BO, "echo in").stdout == "in\n", "and people come in from outside"
        login = (home.facts().platform or {})[f"login {BO.login}"]
        assert login == "admitted", "the look's own login comes from within, as root"
    assert home.enter(ANA, "id").returncode == 255


def test_another_port_of_sshd_is_closed_as_soon_as_it_is_seen(home: Tenancy) -> None:
    """Whoever started it, and from which files; it shows, and a preparation closes it."""
    host, other = home.host, "127.0.0.1:2222"
    host.run("systemd-run --quiet --unit=second /usr/sbin/sshd -D -p 2222")
    try:
        host.run("for i in $(seq 50); do ss -Hltn | grep -q :2222 && break; sleep 0.1; done")
        assert home.reached(BO, other) == {other: "answered"}
        assert (home.facts().platform or {})["network sshd"] == "open: 2222"
        home.prepare()
        assert home.reached(BO, other) == {other: "ECONNREFUSED"}
        assert home.reached(None, other) == {other: "answered"}
        assert (home.facts().platform or {})["network sshd"] == "closed to tenants"
    finally:
        host.run("systemctl stop second")


def test_what_was_there_goes_on(pair: tuple[Tenancy, Tenancy], home: Tenancy) -> None:
    """A tenant's own sshd, ssh from an allocation to other machines, and forwarded ports."""
    own = """
        mkdir -p ~/own; cd ~/own; rm -f key; ssh-keygen -q -t ed25519 -N '' -f key
        /usr/sbin/sshd -f /dev/null -h ~/own/key -p 2022 -o PidFile=none
        for i in $(seq 30); do
            ssh-keyscan -T 30 -p 2022 127.0.0.1 > keys 2> /dev/null; [ -s keys ] && break; sleep 1
        done
        wc -l < keys
        pkill -u $(id -u) -f own/key
    """
    assert int(home.enter(BO, own).stdout.split()[-1]) > 0
    there = f"{pair[1].host.address}:22"
    assert home.reached(BO, there) == {there: "answered"}
    with stays(home, BO, f"python3 -c '{SERVE}'"):
        options = home.host.ssh_options(key=place.key(BO.owner))
        its = f"127.77.{BO.uid >> 8}.{BO.uid & 255}:8899"
        way = ("ssh", *options, "-W", its, f"{BO.login}@{home.host.address}")
        told = subprocess.run(
            way, stdin=subprocess.DEVNULL, capture_output=True, timeout=20, check=False
        )
        assert told.returncode == 0, told.stderr


# Disks.

SMALL = """
truncate -s 40M /opt/disk; mkfs.ext4 -q -m 0 -N 3000 /opt/disk
mkdir -p /opt/small; mount -o loop /opt/disk /opt/small
for place in {places}; do
  mkdir -p /opt/small$place; chmod --reference=$place /opt/small$place
  case $place in /tmp | /var/*) ;; *) cp -aT $place /opt/small$place ;; esac
  mount --bind /opt/small$place $place
done
"""
LARGE = """
until ! pkill -KILL -u {uid}; do sleep 0.05; done
umount --lazy {places} /opt/small; rm /opt/disk
"""
"""Whoever fills it is gone before there is anything larger to be filled."""

PLACES = ("/etc", "/home/gpuaas", "/root", "/tmp", "/var/log", "/var/tmp")
"""Of the host's own settings, and wherever a transport or a tool might put something down."""

FILL = """
import os, sys, time
number, told, left = 0, False, 15000
while left > 0:
    number, left = number + 1, left - 1
    try:
        with open(os.path.expanduser(f"~/fill{number}"), "xb", buffering=0) as file:
            while sys.argv[1] == "bytes" and left > 0:
                left -= bool(file.write(bytes(4096)))
    except OSError:
        if not told:
            print("done", flush=True)
        told, left = True, left + 1
        time.sleep(float(sys.argv[2]))
"""
"""What is written is bounded, wherever it should be written to."""

BYTES, FILES = "bytes", "files"


@contextmanager
def on_a_small_disk(home: Tenancy, tenant: Tenant) -> Iterator[None]:
    """The host's own places lie with a tenant's home, and no room is kept for root there."""
    places = " ".join((*PLACES, tenant.home))
    console(home.host, SMALL.format(places=places))
    try:
        yield
    finally:
        console(home.host, LARGE.format(places=places, uid=tenant.uid))


def filling(home: Tenancy, tenant: Tenant, what: str, rest: float) -> AbstractContextManager[str]:
    """Whatever is free on the disk of its home is taken, at first and after each rest."""
    home.enter(tenant, f"cat > ~/fill.py <<'E'\n{FILL}\nE")
    return stays(home, tenant, f"python3 ~/fill.py {what} {rest}")


@pytest.mark.parametrize("what", [BYTES, FILES])
def test_a_full_disk_keeps_no_key_and_no_session(home: Tenancy, what: str) -> None:
    """F-GRT-02: one key of two, then the last, while a neighbour takes all that becomes free."""
    cleo = [fleet.project("vision", "ana", "cleo"), fleet.grant("help", "train", "cleo", "vision")]
    home.extra[:] = [*cleo, person("cleo")]
    done(home.provide(ANA))
    keys = f"/etc/gpuaas/ssh/{ANA.login}"
    with (
        on_a_small_disk(home, BO),
        session_of(home, "ana") as hers,
        session_of(home, "cleo") as cleos,
        filling(home, BO, what, 0.001),
    ):
        assert "No space left" in home.host.run("touch /etc/x; echo x > /etc/x", check=False).stderr
        home.extra[:] = [*cleo, person("cleo", state="suspended")]
        done(home.provide(ANA)[-1:])
        assert cleos.wait(5) == 255
        assert hers.poll() is None
        assert home.enter(ANA, "id", person="cleo").returncode == 255
        assert home.enter(ANA, "id").returncode == 0
        home.extra[:] = [person("ana", state="suspended")]
        done(home.provide(ANA)[-1:])
        assert hers.wait(5) == 255
        assert home.host.run(f"grep -c AAAA {keys}", check=False).stdout.strip() in ("", "0")
        reserve = (home.facts().platform or {})["disk reserve"]
        assert reserve.endswith("of 64 pieces"), reserve


@pytest.mark.parametrize("what", [BYTES, FILES])
def test_a_release_comes_to_its_end_on_a_full_disk(home: Tenancy, what: str) -> None:
    with on_a_small_disk(home, BO), filling(home, BO, what, 3600):
        outcomes, proof = home.release(ANA)
        done(outcomes)
        failing = [c for c in proof.checks if c.result is not CheckResult.PASS]
        assert not failing and proof.passed
        home.host.run(f"rm -f {BO.home}/fill*")
    # What has become of the accounts went with the disk; what was removed beside them is made anew.
    home.release(ANA)


@contextmanager
def session_of(home: Tenancy, who: str) -> Iterator[subprocess.Popen[bytes]]:
    options = home.host.ssh_options(key=place.key(who))
    command = ["ssh", *options, f"{ANA.login}@{home.host.address}", "echo in; exec sleep 600"]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as ssh:
        try:
            assert ssh.stdout is not None and ssh.stdout.readline() == b"in\n"
            yield ssh
        finally:
            ssh.kill()
