"""node.prepare on real hosts: its walls stand, it is taken back whole, and nobody is locked out."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

import pytest

from reconciler.hosts.evidence import observe
from reconciler.hosts.prepare_commit import settle
from reconciler.kinds.contract import Binding
from reconciler.kinds.node import node as node_kind
from reconciler.kinds.node.host import hardening
from reconciler.model.codec import encode
from reconciler.model.host.capacity import Placement, Shape
from reconciler.model.host.evidence import CheckResult, Observation
from reconciler.model.plan.plan import Step
from reconciler.model.plan.work import Receipt
from reconciler.model.ref import Ref
from reconciler.planner.core.facts import differing
from tests.harness.items import RawItem
from tests.lab.host import Host
from tests.lab.server import gpu_uuid, minor
from tests.lab.tenancy import NOW, Tenancy

pytestmark = pytest.mark.lab

Fresh = Callable[[int], AbstractContextManager[tuple[Host, ...]]]

SSHD = "/etc/ssh/sshd_config.d/10-gpuaas.conf"
RELOADED = ("ssh", "dbus", "systemd-logind", "polkit", "cron", "atd")


@pytest.fixture(scope="module")
def bare(fresh_hosts: Fresh, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenancy]:
    """A host that every test of this module leaves as it came: never prepared."""
    with fresh_hosts(1) as (host,):
        host.run("useradd", "--create-home", "ordinary")
        host.run("cp -r ~/.ssh /home/ordinary/ && chown -R ordinary: /home/ordinary/.ssh")
        yield Tenancy(host=host, folder=tmp_path_factory.mktemp("bare"))


@pytest.fixture(scope="module")
def prepared(fresh_hosts: Fresh, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenancy]:
    with fresh_hosts(1) as (host,):
        host.run("useradd", "--create-home", "ordinary")
        host.run("cp -r ~/.ssh /home/ordinary/ && chown -R ordinary: /home/ordinary/.ssh")
        tenancy = Tenancy(host=host, folder=tmp_path_factory.mktemp("prepared"))
        tenancy.prepare()
        yield tenancy


def preparation(tenancy: Tenancy, texts: Mapping[str, str] | None = None, **item: Any) -> Step:
    """As the Node plans it, save for these texts and keys."""
    of = tenancy.desired()
    resource = of.resources[Ref("node", "", tenancy.node)]
    whole = Placement(node=tenancy.node, slots=(), shape=Shape.BAREMETAL)
    binding = Binding(
        ref=resource.ref, id="", login="", placement=whole, resource=resource, recorded=None
    )
    (step,) = node_kind.steps(binding, tenancy.context(of))
    whole = encode(step.item)
    files = [
        {**file, "content": (texts or {}).get(file["path"], file["content"])}
        for file in whole["files"]
    ]
    return replace(step, item=RawItem({**whole, "files": files, **item}))


def prepare(tenancy: Tenancy, step: Step) -> Receipt:
    (receipt,) = tenancy.run((step,))
    return receipt


def look(tenancy: Tenancy) -> Observation:
    """Through a connection that nobody has used before."""
    (seen,) = observe([tenancy.address()], tenancy.options(), at=NOW, fresh=[tenancy.node])
    return seen


def settled(tenancy: Tenancy, *, keep: bool) -> str:
    nodes = [tenancy.node] if keep else []
    return settle([tenancy.address()], nodes, tenancy.options())[tenancy.node]


def tree(host: Host) -> str:
    """Every file, folder and link of what a preparation could reach, with its times."""
    places = "/etc /usr/local /usr/lib/pam.d /var/lib/gpuaas"
    ignored = r"-not -path /etc/.pwd.lock -not -path '*/passwd*' -not -path '*/group*'"
    more = "-not -path '*/shadow*' -not -path '*/gshadow*' -not -path /etc -not -name '*.d'"
    form = "'%p %M %U:%G %s %l\n'"
    listed = f"find {places} -maxdepth 6 {ignored} {more} -printf {form} 2>/dev/null | sort"
    digests = f"find {places} {ignored} {more} -type f -exec sha256sum {{}} + 2>/dev/null | sort"
    return host.run(f"{listed}; {digests}; stat --format=%a /home").stdout


def wait_until(true: Callable[[], bool], seconds: float = 40) -> None:
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, "it did not come to pass"
        time.sleep(0.3)


@contextmanager
def standing(host: Host, path: str, text: str, mode: str = "0644") -> Iterator[None]:
    """A file that somebody made by hand."""
    host.run(f"install -D -m {mode} /dev/stdin {path}", given=text)
    try:
        yield
    finally:
        host.run("rm", "-f", path)


def test_every_wall_stands_and_shows(prepared: Tenancy) -> None:
    """Walls are read back where their owners say what holds, not from what was written."""
    seen = look(prepared)
    assert seen.facts is not None, seen
    assert not list(differing(seen.facts, preparation(prepared).expected))
    assert not seen.facts.problems
    platform = seen.facts.platform or {}
    assert "authorizedkeysfile=/etc/gpuaas/ssh/%u" in platform["sshd tenants"]
    assert platform["devices default"].startswith("closed: /dev/fuse rw")


def test_what_this_kernel_does_not_enforce_is_said(prepared: Tenancy) -> None:
    """A lab host may not change the machine's kernel: that is no failure, and no claim either."""
    facts = look(prepared).facts
    assert facts is not None
    checks = {check.name: check for check in hardening(facts, containers=False)}
    assert checks["controllers root"].result is CheckResult.FAIL
    assert checks["controllers root"].value == "without cpu, cpuset, io, memory, pids"
    assert checks["sysctl kernel.perf_event_paranoid"].result is CheckResult.FAIL
    assert checks["setuid extra"].result is CheckResult.PASS
    assert checks["driver module"].value == "nvidia_uvm is not loaded, not at boot"
    assert checks["driver persistence"].value.startswith("nvidia-persistenced.service is not-found")
    assert checks["mail pipes"].result is CheckResult.PASS


def test_no_file_of_a_tenants_own_speaks_to_what_pam_starts_as_root(prepared: Tenancy) -> None:
    """SEC-04: as sshd's stack of Debian 12 and of Ubuntu has it, LD_PRELOAD there was root."""
    line = "session required pam_env.so user_readenv={} envfile=/etc/default/locale"
    before = prepared.host.run("cat /etc/pam.d/sshd").stdout
    prepared.host.run("cat > /etc/pam.d/sshd", given=f"{line.format(1)}\n{before}")
    try:
        facts = look(prepared).facts
        assert facts is not None and facts.platform is not None
        assert facts.platform["environment sshd"] == "open: /etc/pam.d/sshd"
        assert prepare(prepared, preparation(prepared)).ok
        assert settled(prepared, keep=True) == ""
        assert not list(differing(look(prepared).facts, preparation(prepared).expected))
        assert line.format(0) in prepared.host.run("cat /etc/pam.d/sshd").stdout
    finally:
        prepared.host.run("cat > /etc/pam.d/sshd", given=before)


def test_a_program_with_new_rights_is_told(prepared: Tenancy) -> None:
    prepared.host.run("install -m 4755 /usr/bin/true /usr/local/bin/escalate")
    try:
        facts = look(prepared).facts
    finally:
        prepared.host.run("rm /usr/local/bin/escalate")
    assert facts is not None and facts.platform is not None
    assert facts.platform["setuid extra"] == "/usr/local/bin/escalate"


def test_a_second_run_changes_nothing(prepared: Tenancy) -> None:
    """F-ANS-15: no change is reported, no file is written, and no service is even reloaded."""
    shown = ("systemctl", "show", "--property=Id,MainPID,StateChangeTimestampMonotonic", *RELOADED)
    before, services = tree(prepared.host), prepared.host.run(*shown).stdout
    receipt = prepare(prepared, preparation(prepared))
    assert (receipt.ok, receipt.changed, receipt.problem) == (True, False, None)
    assert tree(prepared.host) == before
    assert prepared.host.run(*shown).stdout == services
    assert "0 timers" in prepared.host.run("systemctl list-timers --all 'gpuaas*'").stdout


def test_walls_outlast_a_reboot(prepared: Tenancy) -> None:
    prepared.host.reboot()
    facts = look(prepared).facts
    assert facts is not None
    assert not list(differing(facts, preparation(prepared).expected))
    ran = prepared.host.run("systemctl show --property=Result,ExecMainCode gpuaas-devices")
    assert ran.stdout.split() == ["Result=success", "ExecMainCode=1"]


ORDINARY = """
set -eu
findmnt --noheadings --output TARGET /tmp
ls -d /proc/1
crontab -l 2>/dev/null || true
echo '0 0 1 1 *  true' | crontab - && echo crontab taken && crontab -r
systemctl is-active ssh.service
python3 - /dev/nvidia0 /dev/null <<'END'
import errno, sys
for path in sys.argv[1:]:
    try:
        open(path).close()
        print(path, "opens")
    except OSError as error:
        print(path, errno.errorcode[error.errno])
END
"""


def test_other_logins_go_on_as_ever_but_for_the_cards(prepared: Tenancy) -> None:
    """Their own keys, jobs and view of the host are not the platform's; only cards are closed."""
    seen = prepared.host.run("bash -s", login="ordinary", given=ORDINARY).stdout.splitlines()
    assert seen == ["/tmp", "/proc/1", "crontab taken", "active", "/dev/nvidia0 EPERM", *OPENS]
    control = prepared.host.run("bash -s", login="gpuaas", given=ORDINARY).stdout.splitlines()
    assert control[-2:] == ["/dev/nvidia0 ENXIO", *OPENS]


OPENS = ("/dev/null opens",)


MAY_RUN_JOBS = """
import ctypes, sys
pam = ctypes.CDLL("libpam.so.0")
class Talk(ctypes.Structure):
    _fields_ = [("talk", ctypes.c_void_p), ("with", ctypes.c_void_p)]
for stack in ("cron", "atd"):
    for login in sys.argv[1:]:
        handle = ctypes.c_void_p()
        pam.pam_start(
            stack.encode(), login.encode(), ctypes.byref(Talk()), ctypes.byref(handle)
        )
        print(stack, login, pam.pam_acct_mgmt(handle, 0) == 0)
"""


def test_jobs_of_tenants_are_refused_when_they_would_run(prepared: Tenancy) -> None:
    """Rule 1: whatever lies in a spool, cron and at would run it outside of every slice."""
    prepared.host.run("useradd --groups gpuaas-tenants tenant")
    try:
        script = ("python3", "-", "root", "ordinary", "tenant")
        seen = prepared.host.run(*script, given=MAY_RUN_JOBS).stdout.splitlines()
    finally:
        prepared.host.run("userdel tenant")
    assert seen == [
        f"{stack} {login} {login != 'tenant'}"
        for stack in ("cron", "atd")
        for login in ("root", "ordinary", "tenant")
    ]


def test_a_dead_card_takes_nobody_elses_away(prepared: Tenancy) -> None:
    """Rule 1: whoever was given it has none, and all others have theirs, by minors found anew."""
    host = prepared.host
    given = {uid: gpu_uuid(host.name, index) for uid, index in ((20991, 0), (20992, 1))}
    table = "/etc/gpuaas-standin/gpus.csv"
    host.run(f"cp {table} /var/tmp/; sed -i s/{given[20991]}/ERROR/ {table}")
    for uid, uuid in given.items():
        text = json.dumps({"uuids": [uuid]})
        host.run(f"cat > /etc/gpuaas/devices/{uid}.json", given=text)
    try:
        ended = host.run("/usr/local/libexec/gpuaas/devices", check=False)
        opened = host.run("grep -h nvidia[0-9] /run/systemd/system/user-2099?.slice.d/*").stdout
    finally:
        host.run(f"rm /etc/gpuaas/devices/2099?.json; mv /var/tmp/gpus.csv {table}")
        host.run("/usr/local/libexec/gpuaas/devices")
    assert ended.returncode == 1 and "no GPU for 20991: " in ended.stderr
    assert opened == f"DeviceAllow=/dev/nvidia{minor(1)} rw\n"
    left = host.run("ls /run/systemd/system/user-2099?.slice.d/*", check=False).stdout
    assert left == "", "what is not given any more is closed"


def test_drift_of_a_wall_shows_and_is_mended(prepared: Tenancy) -> None:
    """Somebody takes our lines out of a PAM stack, and opens the default slice."""
    prepared.host.run("sed -i s/umask=0077/umask=0022/ /etc/pam.d/sshd")
    prepared.host.run("rm /etc/systemd/system/user-.slice.d/50-gpuaas.conf")
    prepared.host.run("systemctl daemon-reload")
    step = preparation(prepared)
    facts = look(prepared).facts
    assert facts is not None
    assert [key for key, _, _ in differing(facts, step.expected)] == [
        "/etc/systemd/system/user-.slice.d/50-gpuaas.conf",
        "block /etc/pam.d/sshd",
        "devices default",
    ]
    assert prepare(prepared, step).changed
    facts = look(prepared).facts
    assert facts is not None and not list(differing(facts, step.expected))
    assert settled(prepared, keep=True) == ""


def test_a_broken_sshd_is_refused_and_left_alone(bare: Tenancy) -> None:
    """What an operator left broken is said in sshd's own words, and nothing is touched."""
    with standing(bare.host, "/etc/ssh/sshd_config.d/99-by-hand.conf", "PermitTheRoot yes\n"):
        before = tree(bare.host)
        receipt = prepare(bare, preparation(bare))
        assert tree(bare.host) == before
        assert look(bare).facts is not None
    assert receipt.problem is not None and receipt.problem.code == "sshd_config_broken"
    assert "99-by-hand.conf" in receipt.problem.message and not receipt.changed


@pytest.mark.parametrize("path", ["/etc/ssh/sshd_config", "/etc/gpuaas/../passwd"])
def test_only_places_of_a_node_are_written(bare: Tenancy, path: str) -> None:
    """SEC-04: a host's own list says what may be written there, whoever asks."""
    files = [{"path": path, "mode": "0644", "content": "x\n"}]
    receipt = prepare(bare, preparation(bare, files=files))
    assert receipt.problem is not None and receipt.problem.code == "path_unsafe"


@pytest.mark.parametrize(
    ("path", "text", "said"),
    [
        (SSHD, "Match Group gpuaas-tenants\n    PermitTheRoot yes\n", "PermitTheRoot"),
        ("/etc/dbus-1/system.d/gpuaas.conf", "<busconfig>", "gpuaas.conf"),
    ],
)
def test_files_are_judged_before_they_live(bare: Tenancy, path: str, text: str, said: str) -> None:
    """Candidates that their readers refuse never come to stand where these would read them."""
    before = tree(bare.host)
    receipt = prepare(bare, preparation(bare, {path: text}))
    assert receipt.problem is not None and receipt.problem.code == "prepare_refused"
    assert said in receipt.problem.message
    assert tree(bare.host) == before


def test_a_stack_without_its_module_is_refused(bare: Tenancy) -> None:
    """A PAM line of a module that is not there would lock everybody out."""
    blocks = [
        {"path": "/etc/pam.d/sshd", "content": "session required pam_odd.so\n", "place": "end"}
    ]
    receipt = prepare(bare, preparation(bare, blocks=blocks))
    assert receipt.problem is not None and receipt.problem.code == "prepare_refused"
    assert "pam_odd.so" in receipt.problem.message


def test_v1_cgroups_are_refused(bare: Tenancy) -> None:
    """By the file system's type: in a hybrid host /sys/fs/cgroup is a tmpfs."""
    before = tree(bare.host)
    bare.host.run("mount -t tmpfs none /sys/fs/cgroup")
    try:
        receipt = prepare(bare, preparation(bare))
        facts = look(bare).facts
    finally:
        bare.host.run("umount /sys/fs/cgroup")
    assert receipt.problem is not None and receipt.problem.code == "cgroup_v2_required"
    assert facts is not None and (facts.platform or {})["cgroup fs"] == "tmpfs"
    assert tree(bare.host) == before


def locking_out(tenancy: Tenancy, seconds: int) -> Step:
    """Sound for sshd, and true of tenants; but the next connection of ours is refused."""
    (given,) = [f["content"] for f in preparation(tenancy).item["files"] if f["path"] == SSHD]
    return preparation(tenancy, {SSHD: f"DenyUsers gpuaas\n{given}"}, undoAfter=seconds)


def test_without_a_second_connection_all_is_put_back(bare: Tenancy) -> None:
    """Through the connection in hand, which nobody has closed meanwhile."""
    look(bare)
    before = tree(bare.host)
    receipt = prepare(bare, locking_out(bare, 120))
    assert receipt.ok and receipt.changed, receipt.problem
    assert look(bare).problem == "host_unreachable"
    assert settled(bare, keep=False) == ""
    assert look(bare).facts is not None
    assert tree(bare.host) == before
    assert settled(bare, keep=False) == "", "nothing waits any more, and that is no failure"


def test_a_host_that_nobody_comes_back_to_puts_all_back_itself(bare: Tenancy) -> None:
    """The last resort, when the connection in hand is gone too."""
    before = tree(bare.host)
    assert prepare(bare, locking_out(bare, 15)).ok
    assert look(bare).problem == "host_unreachable"
    wait_until(lambda: look(bare).facts is not None)
    assert tree(bare.host) == before
    assert "put back before" in settled(bare, keep=True), "who comes too late is told so"


def test_a_preparation_killed_half_way_is_put_back(bare: Tenancy) -> None:
    """What was written already goes, since the timer was armed before anything was."""
    before = tree(bare.host)
    slow = "#!/bin/sh\nexec sleep 300\n"
    with standing(bare.host, "/usr/local/sbin/systemd-sysusers", slow, "0755"):
        answers: list[Receipt] = []
        step = preparation(bare)
        at_work = threading.Thread(target=lambda: answers.append(prepare(bare, step)))
        at_work.start()
        wait_until(lambda: bare.host.run("pgrep -f '^sleep 300'", check=False).returncode == 0)
        bare.host.run("slow=$(pgrep -f '^sleep 300'); kill -KILL $(ps -o ppid= -p $slow) $slow")
        at_work.join()
    assert not answers[0].ok
    assert bare.host.run("test", "-e", SSHD).returncode == 0, "half of it is written"
    assert bare.host.run("systemctl is-active gpuaas-undo.timer").stdout == "active\n"
    bare.host.run("systemctl start gpuaas-undo.service")  # what the timer does when it is time
    wait_until(lambda: tree(bare.host) == before)
    assert look(bare).facts is not None


def test_after_a_power_cut_the_host_starts_as_it_was(bare: Tenancy) -> None:
    """The timer does not outlive the power: all is put back before sshd starts."""
    before = tree(bare.host)
    assert prepare(bare, locking_out(bare, 120)).ok
    bare.host.run("sync")
    bare.host.kill()
    bare.host.up(owner=os.getpid())
    bare.host.wait()
    assert look(bare).facts is not None
    assert tree(bare.host) == before


def test_an_unfinished_preparation_is_taken_back_by_the_next(bare: Tenancy) -> None:
    """Whoever prepared before and did not come back to keep it: the next one starts clean."""
    before = tree(bare.host)
    assert prepare(bare, locking_out(bare, 120)).ok
    assert prepare(bare, preparation(bare)).ok
    assert look(bare).facts is not None, "the way in is open again"
    assert settled(bare, keep=False) == ""
    assert tree(bare.host) == before


def test_what_fails_while_it_is_taken_up_is_put_back_at_once(bare: Tenancy) -> None:
    """A unit that systemd does not take: nobody has to come back for it."""
    before = tree(bare.host)
    unit = "/etc/systemd/system/gpuaas-devices.service"
    receipt = prepare(bare, preparation(bare, {unit: "[Service]\nExecStart=relative\n"}))
    assert receipt.problem is not None and receipt.problem.code == "prepare_rolled_back"
    assert "gpuaas-devices.service" in receipt.problem.message
    assert "all is as it was" in receipt.problem.message
    assert tree(bare.host) == before
