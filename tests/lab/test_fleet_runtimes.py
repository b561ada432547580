"""Bundles on a real host: built there by nobody's hands, and used by tenants side by side.

One story, told in order: each test begins where the one before it ended.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest
import yaml

from tests.bundles import hello
from tests.lab import network
from tests.lab.colony import Colony, founded
from tests.lab.host import Host
from tests.planner import fleet as paper

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("runtimes")]

Fresh = Callable[..., AbstractContextManager[tuple[Host, ...]]]
TRAIN, NOTES, LATE = "vision/train", "nlp/notes", "vision/late"
PYTHON, PLACE, MIRROR = "3.13", "/opt/gpuaas/runtimes/hello", "/srv/mirror"
STAGING = "/opt/gpuaas/staging"
PREFIX = "gpuaas-runtime run hello -- python -c 'import sys; print(sys.prefix)'"
MAKE_OWN = f"""
    python3 -m venv ~/mine && touch ~/mine/kept ~/.bashrc
    pip() {{ ~/mine/bin/pip -q "$@" --no-index --find-links {MIRROR}; }}
    pip install gpuaas-hello==2.0
    pip --python /usr/bin/python3 install --user --break-system-packages gpuaas-hello==1.0
"""
LIST_OWN = "ls ~/mine/kept ~/.bashrc | wc -l; ~/mine/bin/gpuaas-hello; ~/.local/bin/gpuaas-hello"
OWN = "2\nhello 2.0\nhello 1.0\n"
"""What somebody has of an environment of their own, and of packages installed with `--user`."""


def with_hello(name: str, version: str, project: str, owner: str, **changes: Any) -> Any:
    runtimes = [{"bundle": "hello", "version": version}]
    return paper.allocation(name, project=project, owner=owner, runtimes=runtimes, **changes)


@pytest.fixture(scope="module")
def story(fresh_hosts: Fresh, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Colony]:
    """A host with a folder of wheels, and no way to any index."""
    folder = tmp_path_factory.mktemp("runtimes")
    (folder / "mirror").mkdir()
    with fresh_hosts(1, {folder / "mirror": MIRROR}) as hosts:
        colony = founded(folder, {"h1": hosts[0]}, hello.document(folder, python=PYTHON))
        settings = yaml.safe_load((folder / "gpuaas.yaml").read_text())
        settings["index"] = {"mirror": f"file://{MIRROR}"}
        settings["network"] = {"closed": [network.OURS]}
        (folder / "gpuaas.yaml").write_text(yaml.safe_dump(settings))
        colony.write(hello.document(folder, "1.0", "2.0", python=PYTHON))
        colony.enrol()
        yield colony


def shown(colony: Colony, version: str) -> str:
    """How a version stands on the host, as it was seen last."""
    facts = colony.world.observations["h1"].facts
    assert facts is not None and facts.platform is not None
    return facts.platform.get(f"runtime hello/{version}", "")


def test_two_tenants_use_two_versions_at_once(story: Colony) -> None:
    """BND-05, BND-06, BND-18: each its own by name, and nothing in anybody's dotfiles."""
    one = with_hello("train", "1.0", "vision", "ana")
    two = with_hello("notes", "2.0", "nlp", "bo")
    story.applied(one, two)
    assert story.said(TRAIN, "ana", "gpuaas-runtime run hello -- gpuaas-hello") == "hello 1.0\n"
    assert story.said(NOTES, "bo", "gpuaas-runtime run hello -- gpuaas-hello") == "hello 2.0\n"
    assert story.said(TRAIN, "ana", "gpuaas-runtime list") == "hello@1.0 ready, default\n"
    compiled = f"ls {PLACE}/1.0/lib/python{PYTHON}/site-packages/__pycache__"
    assert "gpuaas_hello" in story.said(TRAIN, "ana", compiled)
    assert story.said(TRAIN, "ana", PREFIX) == f"{PLACE}/1.0\n"
    used = 'eval "$(gpuaas-runtime use hello)"; gpuaas-hello; deactivate; gpuaas-hello || echo no'
    assert story.said(TRAIN, "ana", used) == "hello 1.0\nno\n"
    other = story.enter(TRAIN, "ana", "gpuaas-runtime run hello@2.0 -- gpuaas-hello")
    assert other.returncode == 1 and "has no runtime" in other.stderr
    touched = "grep -rl gpuaas ~ /etc/profile.d /etc/bash.bashrc || echo none"
    assert story.said(TRAIN, "ana", touched) == "none\n"
    tried = f"touch {PLACE}/1.0/x || touch {PLACE}/x || echo refused"
    assert story.said(TRAIN, "ana", f"({tried}) 2> /dev/null") == "refused\n"


def test_an_upgrade_leaves_the_neighbour_and_what_people_have_made(story: Colony) -> None:
    """BND-13 … BND-15, BND-19, F-BUN-04: no build, no other prefix, no other digest."""
    story.said(TRAIN, "ana", MAKE_OWN)
    before = shown(story, "1.0"), shown(story, "2.0"), story.said(NOTES, "bo", PREFIX)
    for version in ("2.0", "1.0", "2.0"):
        done = story.applied(with_hello("train", version, "vision", "ana"))
        assert {c["action"] for c in done.plan["changes"]} == {"change"}, "nothing is built"
        assert story.said(TRAIN, "ana", PREFIX) == f"{PLACE}/{version}\n"
    assert (shown(story, "1.0"), shown(story, "2.0"), story.said(NOTES, "bo", PREFIX)) == before
    assert story.said(TRAIN, "ana", LIST_OWN) == OWN


def test_a_repair_puts_back_what_the_platform_made(story: Colony) -> None:
    """BND-16, BND-28, F-BUN-07: strangers in it go, what is elsewhere stays."""
    host = story.machines["h1"]
    site = f"{PLACE}/2.0/lib/python{PYTHON}/site-packages"
    before = shown(story, "2.0")
    host.run("sh", "-c", f"'rm {site}/gpuaas_hello.py; echo x > {site}/stranger.py'")
    drifted = story.plan("--refresh")
    assert drifted.code == 0, drifted.document
    assert drifted.actions == {"bundle/hello": "repair"}
    done = story.apply()
    assert done.code == 0, done.messages
    assert host.run("ls", site).stdout.count("stranger") == 0
    assert story.said(TRAIN, "ana", "gpuaas-runtime run hello -- gpuaas-hello") == "hello 2.0\n"
    assert shown(story, "2.0").startswith("staged") and before.startswith("staged")
    assert story.said(TRAIN, "ana", LIST_OWN) == OWN
    assert story.plan("--refresh").actions == {}


PROBE = """
import json, os, socket, time
def tried(do, *words):
    try:
        do(*words)
        return "done"
    except OSError as error:
        return error.strerror or str(error)
    except Exception as error:
        return str(error)
places = ("/etc", "/opt/gpuaas/runtimes/hello", "/opt/gpuaas/staging", "/var/lib/gpuaas", "/home")
print(json.dumps({
    "who": os.getresuid()[0] if len({*os.getresuid()}) == 1 else 0,
    "writes": {one: tried(open, one + "/probe", "w") for one in places},
    "own words": tried(open, FOLDER + "/build/probe", "w"),
    "root's words": tried(open, FOLDER + "/seal/probe", "w"),
    "job": tried(open, FOLDER + "/job.json", "a"),
    "cards": sorted(name for name in os.listdir("/dev") if "nvidia" in name),
    "runtimes": os.listdir("/opt/gpuaas/runtimes"),
    "jobs": os.listdir("/opt/gpuaas/staging"),
    "behind tenants": "/gpuaas.slice/" in open("/proc/self/cgroup").read()
    and open("/proc/self/oom_score_adj").read() == "1000\\n",
    "homes": tried(os.listdir, "/home"),
    "root": tried(os.setuid, 0),
    "kill": tried(os.kill, 1, 0),
    "bus": tried(socket.socket, socket.AF_UNIX),
    "listens": tried(socket.create_server, ("127.0.0.1", 4711)),
    "closed": tried(socket.create_connection, ("10.77.0.1", 9), 3),
    "others": [one for one in os.listdir("/proc") if one.isdigit() and int(one) != os.getpid()],
    "leaves": (tried(open, "/dev/shm/probe", "x"), os.listdir("/dev/mqueue")),
    "mounts": tried(os.unshare, os.CLONE_NEWNS) if hasattr(os, "unshare") else "",
}), flush=True)
time.sleep(2)
"""


def test_who_builds_is_kept_in(story: Colony) -> None:
    """BND-20: the unit itself, with a program of ours in place of the one that builds.

    Of two at one time neither is anybody to the other.
    """
    host, jobs = story.machines["h1"], ("probe", "other")
    units = " ".join(f"gpuaas-stage@{job}.service" for job in jobs)
    script = f"""
        {"".join(map(laid_out, jobs))}
        systemctl daemon-reload
        systemctl start {units} || true
        for unit in {units}; do journalctl -u $unit -o cat --no-pager | grep "^[{{T]"; done
        {"; ".join(f"rm -r {STAGING}/{job} {dropin(job)}" for job in jobs)}
        systemctl daemon-reload
        ls -A /dev/shm /dev/mqueue; ipcs -mq
    """
    told = host.run("sh", "-euc", shlex.quote(script))
    one, other, *left = told.stdout.splitlines()
    seen, uid = json.loads(one), json.loads(other).pop("who")
    assert 0 not in (uid, seen["who"]) and uid != seen.pop("who")
    assert "done" not in seen.pop("writes").values()
    assert (seen.pop("jobs"), seen.pop("behind tenants")) == (["probe"], True)
    assert (seen.pop("own words"), seen.pop("runtimes"), seen.pop("cards")) == ("done", [], [])
    assert (seen.pop("others"), seen.pop("leaves")) == ([], ["done", []])
    assert seen.pop("closed") == "timed out"
    assert "done" not in seen.values(), seen
    assert "probe" not in "".join(left)


def dropin(job: str) -> str:
    return f"/run/systemd/system/gpuaas-stage@{job}.service.d"


def laid_out(job: str) -> str:
    """A job as the platform lays it out, but for what it is to run."""
    folder = f"{STAGING}/{job}"
    program = f"FOLDER = {folder!r}\n{PROBE}"
    unit = f"[Unit]\nOnSuccess=\n[Service]\nExecStart=\nExecStart=python3 -I {folder}/probe\n"
    return f"""
        mkdir -p {folder}/build {folder}/seal {folder}/trees {dropin(job)}
        chgrp gpuaas-stage {folder} {folder}/build
        chmod 0750 {folder} && chmod 0775 {folder}/build
        echo "{{}}" > {folder}/job.json
        printf %s {shlex.quote(program)} > {folder}/probe
        printf %s {shlex.quote(unit)} > {dropin(job)}/probe.conf
    """


def test_every_reader_of_an_environment_reads_the_same(story: Colony) -> None:
    """F-BUN-03: systemd's own, a shell, and one that takes lines as they are."""
    host, ident = story.machines["h1"], story.recorded(f"allocation/{TRAIN}").id
    path = f"/etc/gpuaas/runtime/allocations/{ident}.env"
    text = host.run("cat", path).stdout
    plain = {line for line in text.splitlines() if not line.startswith("#")}
    assert {"GPUAAS_RUNTIME=hello@2.0", f"GPUAAS_RUNTIME_ROOT={PLACE}/2.0"} <= plain
    systemd = host.run("systemd-run", "-q", "--pipe", "-p", f"EnvironmentFile={path}", "env")
    shell = host.run("sh", "-c", shlex.quote(f"set -a; . {path}; env"))
    assert plain <= set(systemd.stdout.splitlines()) and plain <= set(shell.stdout.splitlines())


def test_a_restart_keeps_runtimes_and_homes(story: Colony) -> None:
    """BND-19, RST-05."""
    assert story.gpuaas("restart", TRAIN, "--reason", "try", "--commit").code == 0
    assert story.apply("--auto-approve=interrupts").code == 0
    assert story.said(TRAIN, "ana", "gpuaas-runtime current") == f"hello@2.0 {PLACE}/2.0\n"
    assert story.said(TRAIN, "ana", LIST_OWN) == OWN


@pytest.mark.slow
def test_a_power_cut_during_a_build_changes_nothing(story: Colony) -> None:
    """F-BUN-01, F-ANS-13: not lost, not run twice at once; the next apply ends it."""
    host = story.machines["h1"]
    story.applied(with_hello("notes", "2.0", "nlp", "bo"))
    story.write(hello.document(story.folder, "1.0", "2.0", "3.0", python=PYTHON))
    story.write(with_hello("late", "3.0", "vision", "ana"))
    story.commit()
    begun = story.apply("--no-wait")
    assert begun.code in (0, 1), begun.blocked or begun.messages
    host.run("sh", "-c", shlex.quote("until pgrep -f ensurepip; do sleep 0.1; done"))
    host.reboot()
    current = host.run("readlink", f"{PLACE}/current").stdout
    assert story.said(NOTES, "bo", "gpuaas-runtime run hello -- gpuaas-hello") == "hello 2.0\n"
    early = story.enter(LATE, "ana", "gpuaas-runtime run hello -- gpuaas-hello")
    assert early.returncode == 1 and "not here yet" in early.stderr
    assert current == "2.0\n"
    done = story.apply()
    assert done.code == 0, done.messages or done.blocked
    assert story.said(LATE, "ana", "gpuaas-runtime run hello -- gpuaas-hello") == "hello 3.0\n"
    assert host.run("ls", "/opt/gpuaas/staging").stdout == ""
