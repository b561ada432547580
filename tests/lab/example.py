"""A fleet for hosts of the lab: people with keys, two projects, seven allocations, and no node yet.

The nodes come as they do in life: by the commands of `enrolment`, which `make lab` prints.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.lab import place
from tests.lab.host import Host

SPECS = Path(__file__).with_name("fleet")
PEOPLE = ("olga", "ana", "bo", "cem", "dana", "eli")

USER = """\
apiVersion: gpuaas/v1
kind: User
metadata: {{name: {name}}}
spec:
  emails: [{name}@lab.example]
  keys:
    - {{id: laptop, publicKey: {key}}}
"""


def write(folder: Path) -> None:
    """A repository with one commit, by Olga, who operates this fleet."""
    shutil.copytree(SPECS, folder)
    (folder / "dot-gitignore").rename(folder / ".gitignore")
    (folder / "keys").symlink_to(place.key().parent)
    (folder / "specs/nodes").mkdir()
    (folder / "specs/people").mkdir(exist_ok=True)
    for name in PEOPLE:
        text = USER.format(name=name, key=place.public(place.key(name)))
        (folder / f"specs/people/{name}.yaml").write_text(text, encoding="utf-8")
    git = ("git", "-C", folder)
    place.order("git", "init", "--quiet", "--initial-branch=main", folder)
    place.order(*git, "config", "user.name", "Olga")
    place.order(*git, "config", "user.email", "olga@lab.example")
    place.order(*git, "add", ".")
    place.order(*git, "commit", "--quiet", "--message=The fleet, without nodes")


def make_bare(host: Host) -> None:
    """As an installer leaves it: without the control login, which is in the image to save time."""
    host.run("userdel --remove gpuaas && rm /etc/sudoers.d/lab-control")


def enrolment(hosts: Iterable[Host]) -> Iterator[str]:
    """Commands that make nodes of bare hosts, for a shell in the folder of the fleet."""
    hosts = tuple(hosts)
    yield "gpuaas init"
    for each in hosts:
        config = shlex.quote(str(each.ssh_config))
        yield f"gpuaas node bootstrap --print | ssh -F {config} {each.name} sh"
    for each in hosts:
        key = next(key for key in each.host_keys() if key.startswith("ssh-ed25519"))
        yield (
            f"gpuaas node discover {each.address} --name {each.name}"
            f" --host-key {shlex.quote(key)} --write specs/nodes/{each.name}.yaml"
        )
    yield "git add specs && git commit -qm 'Hosts as they were found'"
    for each in hosts:
        yield f"gpuaas node approve {each.name} --commit"


def use() -> Iterator[str]:
    yield "gpuaas plan --refresh"
    yield "gpuaas apply --auto-approve"
    yield "ssh -F published/vision/ssh_config -i keys/ana train.vision id"
