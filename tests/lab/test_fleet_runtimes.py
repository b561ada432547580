"""Bundles on a real host: built there by nobody's hands, and used by tenants side by side.

One story, told in order: each test begins where the one before it ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest
import yaml

from tests.bundles import hello
from tests.lab.colony import Colony, founded
from tests.lab.host import Host
from tests.operations.yard import Said
from tests.planner import fleet as paper

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("runtimes")]

Fresh = Callable[..., AbstractContextManager[tuple[Host, ...]]]
TRAIN, NOTES = "vision/train", "nlp/notes"
PYTHON, PLACE, MIRROR = "3.13", "/opt/gpuaas/runtimes/hello", "/srv/mirror"
PREFIX = "gpuaas-runtime run hello -- python -c 'import sys; print(sys.prefix)'"


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
        (folder / "gpuaas.yaml").write_text(yaml.safe_dump(settings))
        colony.write(hello.document(folder, "1.0", "2.0", python=PYTHON))
        colony.enrol()
        yield colony


def applied(colony: Colony, *documents: Any, but: tuple[Any, ...] = ()) -> Said:
    done = colony.change(*documents, but=but)
    assert done.code == 0, done.messages or done.blocked
    return done


def said(colony: Colony, ref: str, person: str, command: str) -> str:
    done = colony.enter(ref, person, command)
    assert done.returncode == 0, done.stderr
    return done.stdout


def shown(colony: Colony, version: str) -> str:
    """How a version stands on the host, as it was seen last."""
    facts = colony.world.observations["h1"].facts
    assert facts is not None and facts.platform is not None
    return facts.platform.get(f"runtime hello/{version}", "")


def test_two_tenants_use_two_versions_at_once(story: Colony) -> None:
    """BND-05, BND-06, BND-18: each its own by name, and nothing in anybody's dotfiles."""
    one = with_hello("train", "1.0", "vision", "ana")
    two = with_hello("notes", "2.0", "nlp", "bo")
    applied(story, one, two)
    assert said(story, TRAIN, "ana", "gpuaas-runtime run hello -- gpuaas-hello") == "hello 1.0\n"
    assert said(story, NOTES, "bo", "gpuaas-runtime run hello -- gpuaas-hello") == "hello 2.0\n"
    assert said(story, TRAIN, "ana", "gpuaas-runtime list") == "hello@1.0 ready, default\n"
    assert said(story, TRAIN, "ana", PREFIX) == f"{PLACE}/1.0\n"
    used = 'eval "$(gpuaas-runtime use hello)"; gpuaas-hello; deactivate; gpuaas-hello || echo no'
    assert said(story, TRAIN, "ana", used) == "hello 1.0\nno\n"
    other = story.enter(TRAIN, "ana", "gpuaas-runtime run hello@2.0 -- gpuaas-hello")
    assert other.returncode == 1 and "has no runtime" in other.stderr
    touched = "grep -rl gpuaas ~ /etc/profile.d /etc/bash.bashrc || echo none"
    assert said(story, TRAIN, "ana", touched) == "none\n"
    tried = f"touch {PLACE}/1.0/x || touch {PLACE}/x || echo refused"
    assert said(story, TRAIN, "ana", f"({tried}) 2> /dev/null") == "refused\n"


def test_an_upgrade_leaves_the_neighbour_and_what_people_have_made(story: Colony) -> None:
    """BND-13 … BND-15, BND-19, F-BUN-04: no build, no other prefix, no other digest."""
    own = "python3 -m venv --without-pip ~/mine && touch ~/mine/kept ~/.bashrc && echo made"
    assert said(story, TRAIN, "ana", own) == "made\n"
    before = shown(story, "1.0"), shown(story, "2.0"), said(story, NOTES, "bo", PREFIX)
    for version in ("2.0", "1.0", "2.0"):
        done = applied(story, with_hello("train", version, "vision", "ana"))
        assert {c["action"] for c in done.plan["changes"]} == {"change"}, "nothing is built"
        assert said(story, TRAIN, "ana", PREFIX) == f"{PLACE}/{version}\n"
    assert (shown(story, "1.0"), shown(story, "2.0"), said(story, NOTES, "bo", PREFIX)) == before
    assert said(story, TRAIN, "ana", "ls ~/mine/kept ~/.bashrc | wc -l") == "2\n"


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
    assert said(story, TRAIN, "ana", "gpuaas-runtime run hello -- gpuaas-hello") == "hello 2.0\n"
    assert shown(story, "2.0").startswith("staged") and before.startswith("staged")
    assert said(story, TRAIN, "ana", "ls ~/mine/kept ~/.bashrc | wc -l") == "2\n"
    assert story.plan("--refresh").actions == {}


def test_a_restart_keeps_runtimes_and_homes(story: Colony) -> None:
    """BND-19, RST-05."""
    assert story.gpuaas("restart", TRAIN, "--reason", "try", "--commit").code == 0
    assert story.apply("--auto-approve=interrupts").code == 0
    assert said(story, TRAIN, "ana", "gpuaas-runtime current") == f"hello@2.0 {PLACE}/2.0\n"
    assert said(story, TRAIN, "ana", "ls ~/mine/kept ~/.bashrc | wc -l") == "2\n"
