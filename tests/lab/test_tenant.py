"""Two tenants of two projects on one real host: what each may, what neither sees, what is left."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from reconciler.model.host.evidence import CheckResult, Proof
from reconciler.model.plan.work import StepOutcome
from tests.lab import network, place
from tests.lab.host import Host
from tests.lab.tenancy import ANA, BO, REACH, Tenancy, Tenant, person
from tests.planner import fleet

pytestmark = pytest.mark.lab

Fresh = Callable[[int], AbstractContextManager[tuple[Host, ...]]]

OPEN_ALL = """
import errno, glob
for path in sorted(glob.glob("/dev/nvidia*")):
    try:
        open(path).close()
    except OSError as error:
        print(path, errno.errorcode[error.errno])
"""
SHARED = {"/dev/nvidiactl": "ENXIO", "/dev/nvidia-uvm": "ENXIO"}


@pytest.fixture(scope="module")
def home(fresh_hosts: Fresh, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenancy]:
    """A prepared host on which both live."""
    with fresh_hosts(1) as (host,):
        tenancy = Tenancy(host=host, folder=tmp_path_factory.mktemp("tenancy"))
        tenancy.prepare()
        yield tenancy


@pytest.fixture
def both(home: Tenancy) -> Iterator[Tenancy]:
    """Whatever the test before did: both are there, as they should be."""
    home.extra.clear()
    home.restore(ANA, BO)
    yield home


def done(outcomes: tuple[StepOutcome, ...]) -> list[tuple[bool, bool]]:
    assert all(outcome.ok for outcome in outcomes), [o.problem for o in outcomes if not o.ok]
    return [(outcome.ok, outcome.changed) for outcome in outcomes]


def devices(home: Tenancy, *own: str) -> dict[str, str]:
    """What every device node of a card answers to a tenant with these slots."""
    there = home.host.run("ls", "/dev").stdout.split()
    nodes = {f"/dev/{name}": "EPERM" for name in there if name.startswith("nvidia")}
    return {**nodes, **SHARED, **{home.device(slot): "ENXIO" for slot in own}}


def answers(text: str) -> dict[str, str]:
    return dict(line.split(" ") for line in text.splitlines())


def test_a_second_run_changes_nothing(both: Tenancy) -> None:
    assert done(both.provide(ANA, BO)) == [(True, False)] * 6


def test_people_log_in_with_their_own_keys_and_nobody_elses(both: Tenancy) -> None:
    """ACC-01, ACC-04: a member of each project gets in by OpenSSH; the other's key does not."""
    for tenant, other in ((ANA, "bo"), (BO, "ana")):
        told = both.enter(tenant, "id -un; id -gn; umask; pwd")
        group = f"p-{tenant.project}-{tenant.gid}"
        assert told.stdout.split() == [tenant.login, group, "0077", tenant.home], told.stderr
        refused = both.enter(tenant, "id", person=other)
        assert (refused.returncode, refused.stdout) == (255, "")


def test_only_the_own_cards_open(both: Tenancy) -> None:
    """Rule 1: no such card behind the own stand-in nodes; the neighbours' are not permitted."""
    code = f"cat > ~/open.py <<'E'\n{OPEN_ALL}\nE\n"
    later = "systemd-run --user --quiet sh -c 'python3 ~/open.py > ~/out; touch ~/ready'"
    for tenant in (ANA, BO):
        own = devices(both, *tenant.slots)
        assert answers(both.enter(tenant, f"{code}python3 ~/open.py").stdout) == own
        by_manager = both.enter(tenant, f"rm -f ~/ready; {later}; {wait('~/ready')} cat ~/out")
        assert answers(by_manager.stdout) == own, by_manager.stderr


def wait(path: str) -> str:
    return f"for i in $(seq 100); do test -e {path} && break; sleep 0.1; done;"


def test_cards_are_found_again_after_a_reboot_by_their_uuids(both: Tenancy) -> None:
    """Rule 1: before anybody can log in, and by UUIDs even if the minors are others then."""
    both.host.reboot()
    for tenant in (ANA, BO):
        told = both.enter(tenant, f"python3 - <<'E'\n{OPEN_ALL}\nE\n")
        assert answers(told.stdout) == devices(both, *tenant.slots), told.stderr
    own = f"{ANA.loopback}:9"
    assert both.reached(ANA, own) == both.reached(None, own) == {own: NOBODY}
    assert both.reached(BO, own, "127.0.0.1:25") == {own: REFUSED, "127.0.0.1:25": REFUSED}
    assert done(both.provide(ANA, BO)) == [(True, False)] * 6, "all of it survives a reboot"


def test_without_an_answer_of_the_driver_there_is_no_card(both: Tenancy) -> None:
    """Rule 1: none rather than a wrong one, and the provide says that it has failed."""
    both.host.run("mv", "/usr/bin/nvidia-smi", "/usr/bin/nvidia-smi.away")
    both.host.run("/usr/local/libexec/gpuaas/devices", check=False)
    try:
        told = answers(both.enter(ANA, f"python3 - <<'E'\n{OPEN_ALL}\nE\n").stdout)
        outcome = both.provide(ANA)[0]
    finally:
        both.host.run("mv", "/usr/bin/nvidia-smi.away", "/usr/bin/nvidia-smi")
    assert set(told.values()) == {"EPERM"}
    assert not outcome.ok


def test_what_is_set_for_the_allocation_is_set_in_its_sessions(both: Tenancy) -> None:
    """Rule 22: in a login and in what its user manager starts."""
    uuids = [both.uuids[slot] for slot in ANA.slots]
    wanted = {
        "GPUAAS_ALLOCATION=train",
        "GPUAAS_PROJECT=vision",
        "GPUAAS_EXPIRES=2026-12-15T12:00:00Z",
        f"CUDA_VISIBLE_DEVICES={','.join(uuids)}",
    }
    script = f"rm -f ~/e ~/d; systemd-run --user -q sh -c 'env > ~/e; touch ~/d'; {wait('~/d')}"
    login, manager = both.enter(ANA, f"env; {script} echo ---; cat ~/e").stdout.split("---")
    assert wanted <= set(login.splitlines())
    assert wanted <= set(manager.splitlines())


def test_neighbours_do_not_see_each_other(both: Tenancy) -> None:
    """Processes, homes, temporary files and shared memory; isolation.md, defaults 3 and 4."""
    places = ("/tmp", "/var/tmp", "/dev/shm")
    theirs = " ".join(f"{place}/bo-was-here" for place in places)
    with session(both, BO, f"touch {theirs} ~/secret; exec -a bo-works sleep 60"):
        look = f"""
            ps -eo user,args; echo ---
            ls -A {" ".join(places)}; echo ---
            ls /home; ls {BO.home}; cat {BO.home}/secret; ls /var/lib/gpuaas/instances
            ls /proc | grep -c '^[0-9]'
        """
        processes, files, homes = both.enter(ANA, look).stdout.split("---")
        later = "systemd-run --user -q sh -c 'ps -eo args > ~/p; ls -A /tmp > ~/t; touch ~/d'"
        by_manager = both.enter(ANA, f"rm -f ~/d; {later}; {wait('~/d')} cat ~/p ~/t").stdout
    assert "bo-works" not in processes + by_manager
    assert "bo-was-here" not in files + by_manager
    assert {line.split()[0] for line in processes.splitlines()[1:] if line.strip()} == {"train-a+"}
    assert int(homes.split()[-1]) < 15 and "secret" not in homes
    assert both.host.run("ls", "-A", "/tmp").stdout.count("bo-was-here") == 0


EVERYBODYS = """
import ctypes, errno, os
for path in ("/run/lock/x", "/var/lock/x", "/dev/mqueue/x"):
    try:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
    except OSError as error:
        print(path, errno.errorcode[error.errno])
libc = ctypes.CDLL(None, use_errno=True)
if libc.mq_open(b"/x", 0o102, 0o600, None) < 0:
    print("queue", errno.errorcode[ctypes.get_errno()])
"""
FOLDERS = """
import os
os.makedirs("churn", exist_ok=True)
os.chdir("churn")
while True:
    for n in range(30):
        os.makedirs(f"d{n}/e/f", exist_ok=True)
    for n in range(30):
        os.rmdir(f"d{n}/e/f"); os.rmdir(f"d{n}/e"); os.rmdir(f"d{n}")
"""
CHURN = """
import ctypes
libc = ctypes.CDLL(None)
while True:
    for n in range(50):
        libc.mq_open(b"/noise%d" % n, 0o102, 0o600, None)
    for n in range(50):
        libc.mq_unlink(b"/noise%d" % n)
        libc.close(3 + n)
"""


def test_what_is_everybodys_is_closed_to_tenants(both: Tenancy) -> None:
    """What one fills, keeps busy or leaves there would be in the way of all others."""
    closed = {"/run/lock/x": "EROFS", "/var/lock/x": "EROFS", "/dev/mqueue/x": "EMFILE"}
    later = "systemd-run --user --quiet sh -c 'python3 ~/all.py > ~/out; touch ~/ready'"
    code = f"rm -f ~/ready; cat > ~/all.py <<'E'\n{EVERYBODYS}\nE\n"
    for by in ("python3 ~/all.py", f"{later}; {wait('~/ready')} cat ~/out"):
        told = both.enter(ANA, code + by)
        assert answers(told.stdout) == {**closed, "queue": "EMFILE"}, told.stderr


def test_tenants_see_no_door_of_the_bus(both: Tenancy) -> None:
    """Connections that never say who they are would keep waiting whoever has business there."""
    for by in ("", "systemd-run --user --wait --pipe --quiet "):
        told = both.enter(ANA, f"{by}ls -A /run/dbus /var/run/dbus")
        assert told.returncode == 0, told.stderr
        assert told.stdout == "/run/dbus:\n\n/var/run/dbus:\n"
    assert "ssh.service" in both.host.run("systemctl --no-pager list-units").stdout


def test_one_account_does_not_take_all_sessions_of_a_host(both: Tenancy) -> None:
    """logind has so many for everybody; those of which something still runs are counted."""
    key = " ".join(place.public(place.key("ana")).split()[:2])
    given = {
        "PAM_USER": ANA.login,
        "XDG_SESSION_ID": "x2",
        "SSH_AUTH_INFO_0": f"publickey {key}",
    }
    settings = [f"--setenv='{name}={value}'" for name, value in given.items()]
    inside = ["systemd-run", "--wait", "--quiet", f"--slice=user-{ANA.uid}.slice"]
    instead = "--property=BindReadOnlyPaths=/run/many:/run/systemd/users"
    try:
        for number, code in ((256, 0), (257, 1)):
            both.host.run(
                f"mkdir -p /run/many; (echo NAME={ANA.login}; echo SESSIONS=$(seq {number}))"
                f" > /run/many/{ANA.uid}"
            )
            program = "/usr/local/libexec/gpuaas/session-opened"
            told = both.host.run(*inside, instead, *settings, program, check=False)
            assert told.returncode == code, (number, told.stderr)
    finally:
        both.host.run("rm -rf /run/many /run/gpuaas/sessions/x2")
    with session(both, ANA, "sleep 60"):
        listed = both.host.run(f"sed -n s/^SESSIONS=//p /run/systemd/users/{ANA.uid}").stdout
        assert listed.split(), "logind keeps the list elsewhere"


def test_a_release_is_not_kept_from_its_end_by_what_comes_and_goes(both: Tenancy) -> None:
    """Queues and folders that are there when they are listed, and not a moment later."""
    both.host.run("useradd --create-home ordinary || true")
    churn = "systemd-run --quiet --unit=churn --uid=ordinary"
    both.host.run(f"{churn} python3 -c '{CHURN}'")
    start = "systemd-run --user --quiet --unit=churn python3 churn.py"
    with session(both, BO, "sleep 200"):
        begun = both.enter(BO, f"cat > churn.py <<'E'\n{FOLDERS}\nE\n{start}")
        assert begun.returncode == 0, begun.stderr
        try:
            for _ in range(3):
                done(both.release(ANA)[0])
                assert both.proof(ANA).passed
                both.restore(ANA)
        finally:
            both.host.run("systemctl stop churn")
            both.enter(BO, "systemctl --user stop churn; rm -rf ~/churn")


MANY = """
import os, resource, time
most = min(resource.getrlimit(resource.RLIMIT_NOFILE)[1], 20000)
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
try:
    while True:
        os.dup(0)
except OSError:
    pass
for n in range(1 + 600000 // most):
    if os.fork() == 0:
        break
time.sleep(100)
"""


def test_more_than_can_be_looked_at_is_unknown_of_whoever_has_it(both: Tenancy) -> None:
    """F-REAL-04: their processes are named, and nothing else of the host is unknown for that."""
    assert both.enter(BO, f"cat > ~/many.py <<'E'\n{MANY}\nE\n").returncode == 0
    with session(both, BO, "sleep 100"):
        both.enter(BO, "systemd-run --user --quiet --unit=many python3 many.py; sleep 3")
        done(both.release(ANA)[0])
        proof = both.proof(ANA)
        assert set(failing(proof)) == {"open cards", "handles on s0"}, failing(proof)
        assert f"of {BO.login}: more is open than can be looked at" in failing(proof)["open cards"]
        both.enter(BO, "systemctl --user stop many")
    assert both.proof(ANA).passed


LISTEN = """
import os, socket
server = socket.create_server((os.environ["GPUAAS_LOOPBACK"], 8888))
print("in", flush=True)
while True:
    server.accept()[0].close()
"""
REFUSED, NOBODY = "EHOSTUNREACH", "ECONNREFUSED"
"""By a wall; and by the kernel itself, where nobody listens at what one may reach."""


def test_ones_own_address_is_reached_by_nobody_else(both: Tenancy) -> None:
    """Isolation 11: a neighbour is refused, also through a forwarded port; oneself and root are
    not, and 127.0.0.1 is everybody's as before.
    """
    own, shared = f"{BO.loopback}:8888", "127.0.0.1:9"
    with session(both, BO, f"python3 -u - <<'E'\n{LISTEN}\nE") as bo:
        assert bo.stdout is not None and bo.stdout.readline().strip() == "in"
        assert both.reached(BO, own, shared) == {own: "answered", shared: NOBODY}
        assert both.reached(None, own) == {own: "answered"}
        assert both.reached(ANA, own, shared) == {own: REFUSED, shared: NOBODY}
        both.host.run("useradd --create-home ordinary || true")
        as_ordinary = "setpriv --reuid ordinary --clear-groups"
        told = both.host.run(f"{as_ordinary} python3 -c '{UDP}'", check=False)
        assert told.stdout == "EPERM\n", "whoever else works here, by whatever protocol"
        forwarded = ["-o", "ExitOnForwardFailure=yes", "-W", own]
        assert forwards(both, BO, *forwarded) and not forwards(both, ANA, *forwarded)


SERVE = """
import os, socket, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
server = socket.socket(family)
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
server.bind((sys.argv[1], 8888))
server.listen()
print("in", flush=True)
while True:
    print(server.accept()[0].getsockname()[0], flush=True)
"""


@pytest.mark.parametrize("at", [ANA.loopback, "0.0.0.0", "::"])
def test_nobody_else_answers_at_ones_own_address(both: Tenancy, at: str) -> None:
    """Isolation 11: a neighbour who listens there before its owner gets no word of theirs: nobody
    listens, it says, to the owner, in a container of theirs, by a forwarded port, and to root.
    """
    own = f"{ANA.loopback}:8888"
    with session(both, BO, f"python3 -u - {at} <<'E'\n{SERVE}\nE") as bo:
        assert bo.stdout is not None and bo.stdout.readline().strip() == "in"
        assert both.reached(ANA, own) == both.reached(None, own) == {own: "ECONNREFUSED"}
        inside = f"setpriv --reuid {(ANA.uid << 16) + 7} --clear-groups python3 -"
        told = both.host.run(f"{inside} {own} <<'E'\n{REACH}\nE\n").stdout
        assert told == f"{own} ECONNREFUSED\n"
        assert not forwards(both, ANA, "-o", "ExitOnForwardFailure=yes", "-W", own)
        assert both.reached(BO, own) == {own: REFUSED}
        if at == "0.0.0.0":
            mine = f"{BO.loopback}:8888"
            assert both.reached(BO, mine) == {mine: "answered"}, "the own one, by every address"
            assert bo.stdout.readline().strip() == BO.loopback, "and nobody came for the other"


def test_containers_answer_at_the_address_of_their_tenant_and_no_other(both: Tenancy) -> None:
    """ACC-11: the numbers inside count as the uid does, from the first one on and none before."""
    own = f"{ANA.loopback}:8888"
    both.host.run("cat > /run/serve.py", given=SERVE)
    for uid, wanted in ((ANA.uid << 16, "answered"), ((ANA.uid << 16) - 1, "ECONNREFUSED")):
        serve = f"setpriv --reuid {uid} --clear-groups python3 -u /run/serve.py {ANA.loopback}"
        both.host.run(f"systemd-run --quiet --unit serve-{uid} {serve}")
        try:
            both.host.run("until ss -ltn | grep -q :8888; do sleep 0.1; done")
            assert both.reached(ANA, own) == {own: wanted}, uid
        finally:
            both.host.run(f"systemctl stop serve-{uid}")


UDP = f"""
import errno, socket
try:
    socket.socket(type=socket.SOCK_DGRAM).sendto(b"x", ("{BO.loopback}", 9))
except OSError as error:
    print(errno.errorcode[error.errno])
"""


def forwards(home: Tenancy, tenant: Tenant, *options: str) -> bool:
    """Whether sshd, who works as the tenant by then, gets through."""
    ours = home.host.ssh_options(key=place.key(tenant.owner))
    way = ["ssh", *ours, *options, f"{tenant.login}@{home.host.address}"]
    told = subprocess.run(
        way, stdin=subprocess.DEVNULL, capture_output=True, timeout=20, check=False
    )
    return told.returncode == 0


def test_mail_metadata_and_named_networks_are_closed_to_tenants(both: Tenancy) -> None:
    """Isolation 11: and to nobody else; the control machine comes in, and is not gone out to."""
    both.host.run("ip route replace 169.254.0.0/16 dev host0")
    control = f"{network.OURS}:9"
    closed = ["127.0.0.1:25", "127.0.0.1:465", "127.0.0.1:587", "169.254.169.254:80", control]
    for tenant in (ANA, BO):
        assert both.reached(tenant, *closed) == dict.fromkeys(closed, REFUSED)
    root = both.reached(None, "127.0.0.1:25", control)
    assert set(root.values()) == {"ECONNREFUSED"}, "nobody listens there, and that is what is said"
    inside = (
        f"setpriv --reuid {(ANA.uid << 16) + 7} --clear-groups bash -c ': < /dev/tcp/127.0.0.1/25'"
    )
    assert "No route to host" in both.host.run(inside, check=False).stderr


def test_who_takes_the_rules_away_locks_tenants_out_until_they_are_back(both: Tenancy) -> None:
    """Fail closed: without them nobody gets in; it shows, and the next preparation mends it."""
    host, rule = both.host, f"add element inet gpuaas own '{{ {BO.loopback} . {ANA.uid} }}'"
    host.run("systemctl restart nftables")
    assert "jump closed" in host.run("nft list table inet gpuaas").stdout, "ours come again with it"
    for change, shown in ((f"nft {rule}", "changed since loaded"), ("nft flush ruleset", "none")):
        host.run(change)
        assert (both.facts().platform or {})["network walls"] == shown
    assert "in" not in both.enter(ANA, "echo in").stdout.splitlines()
    both.prepare()
    assert both.enter(ANA, "echo in").stdout == "in\n"
    own = f"{ANA.loopback}:9"
    assert both.reached(ANA, own) == {own: NOBODY}, "it has loaded what is theirs too"


JUPYTER = """#!/usr/bin/python3
import socket, sys, time
place = next(word for word in sys.argv if word.startswith("--ServerApp.sock=")).partition("=")[2]
server = socket.socket(socket.AF_UNIX)
server.bind(place)
server.listen()
time.sleep(60)
"""


def test_a_notebook_is_named_where_it_is_ones_own_that_listens(both: Tenancy) -> None:
    """BND-22: in a session's own /proc as well, and beside a socket of that name elsewhere."""
    tree, env = "/opt/gpuaas/runtimes/jupyter/1", f"/etc/gpuaas/runtime/allocations/{ANA.id}.env"
    both.host.run(f"mkdir -p {tree}/bin; echo PATH={tree}/bin:'$PATH' > {tree}/activate.sh")
    both.host.run(f"cat > {tree}/bin/jupyter; chmod 755 {tree}/bin/jupyter", given=JUPYTER)
    both.host.run(f"echo GPUAAS_RUNTIMES=jupyter@1 >> {env}")
    name = f"{ANA.home}/.local/share/gpuaas/jupyter.sock"
    inside = f"mount -t tmpfs none {ANA.home}; mkdir -p {name.rpartition('/')[0]}"
    other = f"{inside}; exec python3 {tree}/bin/jupyter --ServerApp.sock={name}"
    both.host.run(f'systemd-run -q --unit other-socket unshare --mount sh -euc "{other}"')
    try:
        both.host.run(f"until grep -q {name} /proc/net/unix; do sleep 0.1; done")
        started = both.enter(ANA, "gpuaas-runtime notebook start")
        assert started.stdout.startswith(f"socket={name}\ntoken="), started.stderr
        assert both.enter(ANA, "gpuaas-runtime notebook status").returncode == 0
        both.enter(ANA, "gpuaas-runtime notebook stop")
        both.host.run(f"sed -i /listen/d {tree}/bin/jupyter")
        deaf = both.enter(ANA, "GPUAAS_NOTEBOOK_SECONDS=1 gpuaas-runtime notebook start")
        assert deaf.stdout == "" and "does not listen" in deaf.stderr
        both.enter(ANA, "gpuaas-runtime notebook stop")
    finally:
        both.host.run("systemctl stop other-socket", f"; rm -r {tree.rpartition('/')[0]}")


def test_cron_at_linger_and_system_units_are_shut(both: Tenancy) -> None:
    """Rule 1: what would run outside of the slice is refused."""
    tries = {
        "cron": "echo '* * * * * id' | crontab -",
        "at": "echo id | at now",
        "linger": "loginctl enable-linger",
        "system unit": "systemd-run --system id",
        "others' sessions": "loginctl terminate-user root",
        "unit names": "busctl call org.freedesktop.systemd1 /org/freedesktop/systemd1"
        " org.freedesktop.systemd1.Manager ListUnits",
    }
    for what, script in tries.items():
        told = both.enter(ANA, script)
        assert told.returncode != 0, (what, told.stdout)
    assert both.facts().platform is not None
    assert f"linger {ANA.login}" not in (both.facts().platform or {})


LISTING = (
    "busctl --timeout=5 call org.freedesktop.systemd1 /org/freedesktop/systemd1"
    " org.freedesktop.systemd1.Manager ListUnits"
)


def test_whoever_drops_its_groups_gets_nowhere_on_the_bus(both: Tenancy) -> None:
    """ACC-11: inside of a container a tenant has no group of ours any more, and other numbers."""
    both.host.run("useradd --create-home ordinary || true")
    bare = [(ANA.uid, ANA.gid), (ANA.uid, (ANA.uid << 16) + 7), ((ANA.uid << 16) + 7, ANA.gid)]
    for uid, gid in bare:
        numbers = f"setpriv --reuid {uid} --regid {gid} --clear-groups"
        for script in (LISTING, "loginctl list-sessions", "busctl --list", "hostnamectl status"):
            told = both.host.run(f"{numbers} {script}", check=False)
            assert told.returncode != 0, (uid, gid, script, told.stdout)
    told = both.host.run(f"setpriv --reuid ordinary --clear-groups {LISTING}").stdout
    assert "ssh.service" in told, "whoever else works here is told as before"
    mine = "systemctl --user list-units && systemd-run --user --wait -q true && echo well"
    assert both.enter(ANA, mine).stdout.endswith("well\n")
    assert (both.facts().platform or {})["bus tenants"] == "closed"


def test_what_is_somebody_elses_is_read_by_nobody_else(both: Tenancy) -> None:
    """Keys of people, cards, addresses and data of neighbours; one's own stays readable."""
    own, others = (
        (
            f"/etc/gpuaas/ssh/{tenant.login}",
            f"/etc/gpuaas/runtime/allocations/{tenant.id}.env",
        )
        for tenant in (ANA, BO)
    )
    closed = (
        *(f"/etc/gpuaas/devices/{tenant.uid}.json" for tenant in (ANA, BO)),
        *(f"/etc/gpuaas/loopback/{tenant.uid}.nft" for tenant in (ANA, BO)),
        *(f"/etc/gpuaas/allocations/{tenant.id}.json" for tenant in (ANA, BO)),
    )
    for path in own:
        assert both.enter(ANA, f"cat {path}").stdout, path
    for path in (*others, *closed):
        assert both.host.run("test", "-s", path).returncode == 0
        assert both.enter(ANA, f"cat {path}").returncode != 0, path
    folders = ("allocations", "devices", "loopback", "runtime/allocations", "volumes")
    for folder in folders:
        assert both.enter(ANA, f"ls /etc/gpuaas/{folder}").returncode != 0, folder
    both.host.run("chmod", "644", others[0])
    both.host.run("chgrp", "0", others[1])
    provide, environment, access = both.provide(BO)
    assert done((provide, environment, access)) == [(True, False), (True, True), (True, True)]
    assert both.enter(BO, f"cat {others[1]}").returncode == 0


def test_nobody_gets_in_who_is_not_confined(both: Tenancy) -> None:
    """Rule 1: where logind gives no session there is no slice, and so no way in at all."""
    stack = "/etc/pam.d/common-session"
    both.host.run(f"sed -i.kept s/pam_systemd.so/pam_permit.so/ {stack}")
    try:
        told = both.enter(ANA, "echo in; cat /proc/self/cgroup")
    finally:
        both.host.run(f"mv {stack}.kept {stack}")
    assert told.returncode != 0 and "in" not in told.stdout.splitlines()
    assert both.enter(ANA, "echo in").stdout == "in\n"


def test_a_session_that_opens_while_its_key_is_taken_away_does_not(both: Tenancy) -> None:
    """F-GRT-02: sshd believed the old file; the session asks once more, when it can be ended."""
    inside = ["systemd-run", "--wait", "--quiet", f"--slice=user-{ANA.uid}.slice"]
    for person_, code in (("ana", 0), ("bo", 1)):
        key = " ".join(place.public(place.key(person_)).split()[:2])
        given = {
            "PAM_USER": ANA.login,
            "XDG_SESSION_ID": "x1",
            "SSH_AUTH_INFO_0": f"publickey {key}",
        }
        settings = [f"--setenv='{name}={value}'" for name, value in given.items()]
        program = "/usr/local/libexec/gpuaas/session-opened"
        told = both.host.run(*inside, *settings, program, check=False)
        assert told.returncode == code, told.stderr
    both.host.run("rm", "/run/gpuaas/sessions/x1")


def test_of_sessions_that_are_over_nothing_is_kept(both: Tenancy) -> None:
    """A program that logs in over and over must not fill /run: the whole host lives there."""
    for _ in range(5):
        assert both.enter(ANA, "id").returncode == 0
    time.sleep(1)
    assert both.enter(BO, "id").returncode == 0
    kept = both.host.run("ls /run/gpuaas/sessions").stdout.split()
    assert len(kept) <= 2, kept


def test_keys_of_their_own_open_nothing_and_are_reported(both: Tenancy) -> None:
    """F-GRT-07, F-GRT-03: in either file of sshd's, or as an authority; they are not touched."""
    line = place.public(place.key("stranger"))
    both.enter(
        ANA,
        f"mkdir -p ~/.ssh; echo '{line}' > ~/.ssh/authorized_keys;"
        f"echo 'cert-authority {line}' > ~/.ssh/authorized_keys2",
    )
    assert both.enter(ANA, "id", person="stranger").returncode == 255
    (first, second) = (both.facts().stray_keys or {})[ANA.login]
    told = subprocess.run(
        ["ssh-keygen", "-lf", str(place.key("stranger"))],
        capture_output=True,
        text=True,
        check=True,
    )
    finger = told.stdout.split()[1]
    assert first == f"{finger} ~/.ssh/authorized_keys"
    assert second == f"cert-authority {finger} ~/.ssh/authorized_keys2"
    assert done(both.provide(ANA)) == [(True, False)] * 3
    assert line in both.enter(ANA, "cat ~/.ssh/authorized_keys").stdout


def test_a_loose_home_and_a_loose_way_are_said(both: Tenancy) -> None:
    """F-GRT-04: login still works, what is loose is named, and what is ours is closed again."""
    assert both.enter(ANA, "chmod 777 ~").stderr == ""
    assert (both.facts().paths or {})[ANA.home] == f"dir 0777 {ANA.uid}:{ANA.gid}"
    assert done(both.provide(ANA))[0] == (True, True)
    both.host.run("chmod", "777", "/etc/gpuaas/ssh")
    try:
        assert both.enter(ANA, "id").returncode == 255, "sshd refuses, and says nothing"
        *_, sync = both.provide(ANA)
    finally:
        both.host.run("chmod", "755", "/etc/gpuaas/ssh")
    assert sync.problem is not None and "/etc/gpuaas/ssh is 0777" in sync.problem.message
    assert both.enter(ANA, "id").returncode == 0


def test_sessions_end_with_the_key_that_opened_them(both: Tenancy) -> None:
    """F-GRT-02, F-GRT-10: at once, and only those; what was started to stay is told to be there."""
    both.extra[:] = [
        fleet.project("vision", "ana", "cleo"),
        person("cleo"),
        fleet.grant("help", "train", "cleo", "vision"),
    ]
    assert done(both.provide(ANA))[-1] == (True, True)
    with session(both, ANA, "sleep 60") as ana, session(both, ANA, "sleep 60", "cleo") as cleo:
        assert (both.facts().sessions or {})[ANA.login] == 2
        both.extra.append(person("cleo", state="suspended"))
        assert done(both.provide(ANA)) == [(True, False), (True, False), (True, True)]
        assert cleo.wait(5) == 255
        assert ana.poll() is None
        assert (both.facts().sessions or {})[ANA.login] == 1
        assert both.enter(ANA, "id", person="cleo").returncode == 255
        assert both.enter(ANA, "id").returncode == 0


def test_sessions_of_which_nobody_knows_the_key_end_too(both: Tenancy) -> None:
    with session(both, ANA, "sleep 60") as ana:
        both.host.run("rm", "-r", "/run/gpuaas/sessions")
        both.extra[:] = [person("ana", keys=[*keys_of("ana"), *keys_of("stranger")])]
        assert done(both.provide(ANA))[-1] == (True, True)
        assert ana.wait(5) == 255


def keys_of(name: str) -> list[dict[str, str]]:
    return [{"id": name, "publicKey": place.public(place.key(name))}]


def test_what_a_tenant_is_held_to_shows_when_it_is_changed(both: Tenancy) -> None:
    """Rule 6: read back from systemd, and put right by the next provide."""
    both.host.run("systemctl", "set-property", f"user-{ANA.uid}.slice", "MemoryMax=1G")
    both.host.run("usermod", "-aG", "disk", ANA.login)
    both.host.run("sed", "-i", f"/{ANA.login}/d", "/etc/cron.deny")
    platform = both.facts().platform or {}
    assert "memory=1073741824" in platform[f"slice {ANA.login}"]
    assert "groups=disk,gpuaas-tenants" in platform[f"account {ANA.login}"]
    assert platform[f"cron {ANA.login}"] == "allowed"
    both.host.run("rm", "-r", f"/etc/systemd/system.control/user-{ANA.uid}.slice.d")
    assert done(both.provide(ANA))[0] == (True, True)


# Release.


def failing(proof: Proof) -> dict[str, str]:
    return {c.name: c.value for c in proof.checks if c.result is not CheckResult.PASS}


LEAVE = """
    systemd-run --user --quiet sleep 1000
    setsid sleep 1001 > /dev/null 2>&1 < /dev/null &
    setsid sh -c "trap '' TERM HUP; while :; do sleep 1; done" > /dev/null 2>&1 < /dev/null &
    ipcmk -M 1000; ipcmk -Q; ipcmk -S 1
    mkdir -p ~/a/b; chmod 0 ~/a/b; touch /tmp/x /var/tmp/y /dev/shm/z
"""


QUEUE = 'import ctypes; assert ctypes.CDLL(None).mq_open(b"/left", 0o102, 0o600, None) > 0'
"""Which no tenant can make, and which may have been there before that was so."""


def test_a_release_leaves_nothing(both: Tenancy) -> None:
    """ACC-11, F-PLC-04: processes, objects, files, lists, account, slice, and a proof of it.

    Isolation 6: what runs and lies under numbers inside of its containers is its own.
    """
    host, inside = both.host, (ANA.uid << 16) + 33
    both.extra[:] = [fleet.policy(containers="rootless")]
    assert done(both.provide(ANA))[0] == (True, True)
    assert f"{ANA.login}:{ANA.uid << 16}:65536\n" in host.run("cat /etc/subuid").stdout
    assert both.enter(ANA, LEAVE).returncode == 0
    host.run(f"setpriv --reuid {ANA.uid} --clear-groups python3 -c '{QUEUE}'")
    host.run(f"setpriv --reuid {inside} --clear-groups sleep 998 >&- 2>&- <&- &")
    host.run(f"install -d -o {inside} {ANA.home}/c")
    left = (both.facts(ANA.uid).leftovers or {})[str(ANA.uid)]
    for word in ("process", "shm", "msg", "sem", "mqueue", "file", "session"):
        assert any(one.startswith(f"{word} ") for one in left), word
    pid = host.run(f"pgrep -U {inside}").stdout.strip()
    assert any(one.startswith(f"process {pid} ") for one in left), left
    with_a_runtime_folder_that_systemd_lets_lie(host, ANA.uid)
    outcomes, proof = both.release(ANA)
    done(outcomes)
    assert failing(proof) == {}
    assert proof.passed
    lists = "/etc/passwd /etc/group /etc/shadow /etc/subuid /etc/subgid /etc/cron.deny /etc/at.deny"
    assert host.run(f"grep {ANA.login} {lists}", check=False).stdout == ""
    find = f"find / -xdev -not -path '/proc/*' -not -path '/var/log/*' -name '*{ANA.login}*'"
    assert host.run(find, check=False).stdout == ""
    assert host.run(f"find / -xdev -uid {ANA.uid}", check=False).stdout == ""
    assert f"p-vision-{ANA.gid}" not in host.run("cat", "/etc/group").stdout
    assert f"{ANA.uid}" not in host.run("nft list table inet gpuaas").stdout
    assert host.run("ls /etc/gpuaas/loopback").stdout == f"{BO.uid}.nft\n"
    assert both.reached(BO, f"{BO.loopback}:9") == {f"{BO.loopback}:9": NOBODY}
    assert both.enter(BO, "id").returncode == 0, "its neighbour has noticed nothing"
    assert done(both.release(ANA)[0]) == [(True, False)] * 2, "a second release has nothing to do"


def with_a_runtime_folder_that_systemd_lets_lie(host: Host, uid: int) -> None:
    """As where the helper that unmounts it was killed with the rest of its slice."""
    unit = f"user-runtime-dir@{uid}.service"
    place = f"/run/systemd/system/{unit}.d"
    host.run(f"mkdir {place}; cat > {place}/helper.conf; systemctl daemon-reload", given=FAILING)
    host.run(f"systemctl stop {unit}", check=False)
    host.run(f"rm -r {place}; systemctl daemon-reload; mountpoint /run/user/{uid}")
    assert host.run(f"systemctl is-failed {unit}").stdout == "failed\n"


FAILING = """
[Service]
ExecStop=
ExecStop=/bin/false
"""


UNIT = """
[Service]
User={uid}
ExecStart=/bin/sleep 1000
Restart=always
RestartSec=0
[Unit]
StartLimitIntervalSec=0
"""


def test_a_process_that_comes_back_keeps_the_proof_from_passing(both: Tenancy) -> None:
    """F-PLC-04: a unit of root's that runs as the tenant is found and named, every time."""
    host = both.host
    host.run("cat > /etc/systemd/system/back.service", given=UNIT.format(uid=ANA.uid))
    host.run("systemctl daemon-reload; systemctl start back.service")
    try:
        outcomes, proof = both.release(ANA)
        _, release = outcomes
        assert not release.ok and release.problem is not None
        assert release.problem.code == "processes_left"
        assert "sleep" in release.problem.message
        assert not proof.passed
        assert failing(proof)["processes"].endswith(" sleep of back.service")
        assert host.run("test", "-e", f"/etc/gpuaas/allocations/{ANA.id}.json").returncode == 0
    finally:
        host.run("systemctl stop back.service; rm /etc/systemd/system/back.service")
    outcomes, proof = both.release(ANA)
    done(outcomes)
    assert proof.passed


LEFT = (
    ("install -o {uid} /dev/null /opt/stray", "file /opt/stray", "rm /opt/stray"),
    ("install -o {inside} /dev/null /opt/stray", "file /opt/stray", "rm /opt/stray"),
    ("install -o {uid} /dev/null /dev/shm/stray", "file /dev/shm/stray", "rm /dev/shm/stray"),
    ("setpriv --reuid {uid} --clear-groups ipcmk -M 64", "shm ", "ipcrm -a"),
    (
        "setpriv --reuid {uid} --clear-groups sleep 999 >&- 2>&- <&- &",
        "process ",
        "pkill -x -U {uid} sleep",
    ),
)


RULE_OF = {"file": "files", "shm": "ipc", "process": "processes"}


def test_whatever_is_left_afterwards_keeps_the_slot(both: Tenancy) -> None:
    """F-PLC-04, F-PLC-05: one file, one object, one process, each found wherever it is."""
    assert both.release(ANA)[1].passed
    # logind takes what is in /dev/shm with a user's last session, some seconds after its end.
    known = f"loginctl list-users --no-legend | grep -qw {ANA.uid}"
    both.host.run(f"timeout 30 sh -c 'while {known}; do sleep 0.2; done'")
    for plant, named, remove in LEFT:
        both.host.run(plant.format(uid=ANA.uid, inside=(ANA.uid << 16) + 5))
        try:
            proof = both.proof(ANA)
        finally:
            both.host.run(remove.format(uid=ANA.uid))
        ((rule, what),) = failing(proof).items()
        assert rule == RULE_OF[named.split()[0]] and what.startswith(named), plant
    assert both.proof(ANA).passed


SEND = """
import array, os, socket, time
a, b = socket.socketpair()
a.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0]))])
time.sleep(60)
"""


def test_open_files_that_wait_at_a_neighbours_keep_the_slot(both: Tenancy) -> None:
    """F-REAL-04: any card may be among them; whose process it is stands in the proof."""
    with session(both, BO, f"cat > ~/send.py <<'E'\n{SEND}\nE\npython3 ~/send.py"):
        time.sleep(1)
        done(both.release(ANA)[0])
        proof = both.proof(ANA)
        results = {check.name: check.result for check in proof.checks}
        assert results["open cards"] is CheckResult.UNKNOWN, failing(proof)
        assert f"python3 of {BO.login}: 1 open files wait" in failing(proof)["open cards"]
        assert set(failing(proof)) == {"open cards", "handles on s0"}
    both.host.run(f"pkill -U {BO.uid} python3", check=False)
    assert both.proof(ANA).passed


KEY = """
import ctypes
libc = ctypes.CDLL(None)
key = libc.syscall(248, b"user", b"left-by-ana", b"word", 4, ctypes.c_long(-4))
assert key > 0 and libc.syscall(250, 5, ctypes.c_long(key), ctypes.c_long(0x3F3F3F3F)) == 0
"""


def test_keys_that_the_kernel_keeps_go_with_the_release(both: Tenancy) -> None:
    """ACC-11: root cannot see them, and may not leave them; they outlive all that has run."""
    assert both.enter(ANA, f"python3 - <<'E'\n{KEY}\nE\n").returncode == 0
    assert "left-by-ana" in both.host.run("cat /proc/keys").stdout, "it is open to all"
    done(both.release(ANA)[0])
    proof = both.proof(ANA)
    assert proof.passed, failing(proof)
    assert "left-by-ana" not in both.host.run("cat /proc/keys").stdout


WRITE = """
import os, time
os.chdir(HOME + "/open")
place = os.open(".", os.O_RDONLY)
for n in range(10**9):
    try:
        os.mkdir(f"d{n}", dir_fd=place)
        time.sleep(0.001)
    except OSError:
        time.sleep(0.01)
"""


def test_a_neighbour_who_writes_in_ones_home_does_not_hold_up_the_release(both: Tenancy) -> None:
    """ACC-11: it is taken from them, and nothing of theirs is ended."""
    assert both.enter(ANA, "chmod 755 ~; mkdir -p -m 777 ~/open; chmod 777 ~/open").returncode == 0
    script = WRITE.replace("HOME", repr(ANA.home))
    start = "systemd-run --user --quiet --unit=ssh.service python3 ~/write.py"
    with session(both, BO, "sleep 100"):
        begun = both.enter(BO, f"cat > ~/write.py <<'E'\n{script}\nE\n{start}; sleep 1")
        assert begun.returncode == 0, begun.stderr
        assert both.host.run(f"ls {ANA.home}/open").stdout
        of_bo = (both.facts(BO.uid).leftovers or {})[str(BO.uid)]
        own = f"python3 of user@{BO.uid}.service (its own ssh.service)"
        assert any(one.startswith("process ") and one.endswith(own) for one in of_bo), of_bo
        done(both.release(ANA)[0])
        proof = both.proof(ANA)
        assert proof.passed, failing(proof)
        assert both.host.run(f"pgrep -U {BO.uid} -f write.py").stdout
        both.enter(BO, "systemctl --user stop ssh.service")


def test_nothing_of_somebody_else_is_taken_over(both: Tenancy) -> None:
    assert both.release(ANA)[1].passed
    both.host.run("useradd", "--uid", str(ANA.uid), "eve")
    try:
        provide, *_ = both.provide(ANA)
        assert provide.problem is not None and provide.problem.code == "account_conflict"
        assert both.host.run("id", "-u", "eve").stdout.strip() == str(ANA.uid)
        assert both.host.run("test", "-e", ANA.home, check=False).returncode == 1
    finally:
        both.host.run("userdel", "eve")


@contextmanager
def session(
    home: Tenancy, tenant: Tenant, script: str, who: str = ""
) -> Iterator[subprocess.Popen[str]]:
    """Somebody who stays logged in for a while."""
    options = home.host.ssh_options(key=place.key(who or tenant.owner))
    address = f"{tenant.login}@{home.host.address}"
    with subprocess.Popen(
        ["ssh", "-tt", *options, address, f"echo in; {script}"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "in"
        until = time.monotonic() + 10
        while not _is_recorded(home) and time.monotonic() < until:
            time.sleep(0.05)
        try:
            yield process
        finally:
            process.kill()


def _is_recorded(home: Tenancy) -> bool:
    return home.host.run("ls", "/run/gpuaas/sessions", check=False).stdout != ""
