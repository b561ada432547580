"""PyTorch and JupyterLab on a real host, from wheels that were fetched before.

The host is of the Debian for whose Python there is a CPU build of torch; it reaches no index.
"""

from __future__ import annotations

import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.lab import place
from tests.lab.colony import Colony, founded, wait_until
from tests.lab.host import Host
from tests.planner import fleet as paper

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.xdist_group("notebook")]

Fresh = Callable[..., AbstractContextManager[tuple[Host, ...]]]
TRAIN, MIRROR, SUITE = "vision/train", "/srv/mirror", "bookworm"
BUNDLES = {"pytorch": "2.13.0-cpu", "jupyter": "4.6.6"}
"""Those that travel with the program, as they were locked."""


@pytest.fixture(scope="module")
def story(fresh_hosts: Fresh, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Colony]:
    wheels = place.folder() / "mirror"
    wheels.mkdir(exist_ok=True)
    with fresh_hosts(1, {wheels: MIRROR}, SUITE) as hosts:
        folder = tmp_path_factory.mktemp("notebook")
        family = paper.family("h100", base={"os": ["debian-12"], "driverBranches": ["580"]})
        colony = founded(folder, {"h1": hosts[0]}, family)
        settings = yaml.safe_load((folder / "gpuaas.yaml").read_text())
        settings["index"] = {"wheels": f"file://{MIRROR}"}
        (folder / "gpuaas.yaml").write_text(yaml.safe_dump(settings))
        for name, version in BUNDLES.items():
            done(colony, "bundle", "add", name, "--index", "wheels")
            # Kept for later runs of this machine: what lies there is not fetched again.
            done(colony, "bundle", "mirror", f"{name}@{version}", "--to", str(wheels))
        colony.enrol()
        yield colony


def done(colony: Colony, *words: str) -> Any:
    found = colony.gpuaas(*words)
    assert found.code == 0, found.messages
    return found.document["result"]


def test_people_are_in_long_before_torch_is(story: Colony) -> None:
    """BND-22: active without waiting; then the environment that the file names is there."""
    runtimes = [{"bundle": name, "version": version} for name, version in BUNDLES.items()]
    story.write(paper.allocation("train", runtimes=runtimes))
    story.commit()
    began = time.monotonic()
    with ThreadPoolExecutor(1) as pool:
        apply = pool.submit(story.apply)
        wait_until(lambda: (story.folder / "published/vision/ssh_config").exists(), 60)
        wait_until(lambda: story.enter(TRAIN, "ana", "true").returncode == 0, 60)
        active = time.monotonic() - began
        early = story.enter(TRAIN, "ana", "gpuaas-runtime run pytorch -- python -c 'import torch'")
        assert early.returncode == 1 and "not here yet" in early.stderr, early.stderr
        ended = apply.result()
    staged = time.monotonic() - began
    assert ended.code == 0, ended.messages
    print(f"\nactive after {active:.0f} s, both bundles staged after {staged:.0f} s")
    for name in BUNDLES:
        (standing,) = done(story, "bundle", "show", name)["versions"][0]["nodes"]
        assert (standing["state"], standing["agrees"]) == ("staged", True), "BND-28"
    sum_of = "import torch; print((torch.ones(2) + 1).tolist())"
    assert (
        story.said(TRAIN, "ana", f"gpuaas-runtime run pytorch -- python -c '{sum_of}'")
        == "[2.0, 2.0]\n"
    )
    assert story.plan("--refresh").actions == {}


def test_jupyterlab_answers_over_ssh_with_its_token(story: Colony) -> None:
    """BND-22, rule 22: on a socket that no neighbour reaches, and to nobody without the token."""
    program = str(Path(sys.executable).with_name("gpuaas"))
    words = (program, "-C", str(story.folder), "--no-color", "ssh", TRAIN, "--jupyter")
    taken = ("ssh-agent", "sh", "-c", 'ssh-add -q "$0" && exec "$@"', str(place.key("ana")))
    began = time.monotonic()
    with subprocess.Popen([*taken, *words], stderr=subprocess.PIPE, text=True) as forwarding:
        try:
            assert forwarding.stderr is not None
            told = next((line for line in forwarding.stderr if "JupyterLab: " in line), "")
            assert told, "it ended before it said where"
            url, _, token = told.split()[1].partition("/lab?token=")
            wait_until(lambda: answers(f"{url}/api/status?token={token}") == 200, 30)
            print(f"\nJupyterLab answers after {time.monotonic() - began:.0f} s")
            assert answers(f"{url}/lab?token={token}") == 200
            assert answers(f"{url}/api/kernels?token={'0' * 48}") == 403
            assert answers(f"{url}/api/kernels?token={token}", b"{}") == 201, "a kernel runs"
        finally:
            forwarding.terminate()
    assert "srw-------" in story.said(TRAIN, "ana", "ls -l ~/.local/share/gpuaas")
    assert "jupyter" not in story.machines["h1"].run("ss", "-ltnp").stdout
    ended = "gpuaas-runtime notebook stop; pgrep -x jupyter-lab || echo none"
    assert story.said(TRAIN, "ana", ended) == "none\n"


def answers(url: str, given: bytes | None = None) -> int:
    try:
        with urllib.request.urlopen(url, given, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0
