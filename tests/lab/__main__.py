"""`python -m tests.lab`: hosts of the lab by hand."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.lab import borrowing, example, host, network, place
from tests.lab.host import Host

BIN = str(Path(sys.executable).parent)


def up(each: Host) -> None:
    each.up()
    each.wait()
    print(f"{each.name} is up: ssh -F {each.ssh_config} {each.name}")


VERBS: Mapping[str, tuple[Callable[[Host], None], str]] = {
    "up": (up, "start hosts, new ones if need be"),
    "down": (Host.down, "press the power button"),
    "kill": (Host.kill, "cut the power; the disk stays"),
    "wipe": (Host.wipe, "cut the power and take a new disk"),
    "reboot": (Host.reboot, "start again, in order"),
    "cut": (Host.cut, "pull the network cable"),
    "heal": (Host.heal, "put it back"),
    "forget": (host.forget, "off, and everything of it away"),
}


SHOWN = ("gpu01", "gpu02", "gpu03")


def open_lab() -> None:
    """Three hosts as an installer leaves them, a fleet for them, and how to bring both together."""
    print("Three hosts; the first time their image takes a minute.", flush=True)
    hosts = [host.host(name) for name in SHOWN]
    new = [each for each in hosts if not each.disk.is_dir()]
    for each in hosts:
        each.up()
    for each in hosts:
        up(each)
    for each in new:
        example.make_bare(each)
    folder = place.folder() / "fleet"
    if not folder.exists():
        example.write(folder)
    print("\nA fleet for them. Its users' private keys lie in keys/; Olga operates it.\n")
    way = (f"cd {folder}", f"export PATH={BIN}:$PATH")
    for command in (*way, *example.enrolment(hosts), *example.use()):
        print(f"  {command}")
    print("\nmake lab-down ends all of it.")


def close_lab() -> None:
    """The shown hosts and their fleet are gone; so is the network, if nobody else uses it."""
    for name in SHOWN:
        host.forget(host.host(name))
    shutil.rmtree(place.folder() / "fleet", ignore_errors=True)
    if not any(each.is_on() for each in host.hosts()):
        network.down()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb, (_, meaning) in VERBS.items():
        verbs.add_parser(verb, help=meaning).add_argument("hosts", nargs="+")
    shell = verbs.add_parser("sh", help="a shell or a command on a host, as root")
    shell.add_argument("host")
    shell.add_argument("command", nargs=argparse.REMAINDER)
    verbs.add_parser("list", help="which hosts there are")
    verbs.add_parser("open", help="three hosts, a fleet for them, and what to do with both")
    verbs.add_parser("close", help="end what `open` began")
    verbs.add_parser("able", help="whether this machine can have hosts, and why not")
    asked = parser.parse_args()
    try:
        return obey(asked)
    except place.LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1


def obey(asked: argparse.Namespace) -> int:
    if asked.verb == "list":
        for each in host.hosts():
            print(f"{each.name:12} {each.address:15} {'on' if each.is_on() else 'off'}")
    elif asked.verb == "open":
        open_lab()
    elif asked.verb == "close":
        close_lab()
    elif asked.verb == "able":
        if why := borrowing.why_not():
            raise place.LabError(why)
    elif asked.verb == "sh":
        there = host.host(asked.host)
        sys.stdout.flush()
        os.execvp("ssh", ["ssh", *there.ssh_options(), f"root@{there.address}", *asked.command])
    else:
        for name in asked.hosts:
            VERBS[asked.verb][0](host.host(name))
    return 0


if __name__ == "__main__":
    sys.exit(main())
