"""`python -m tests.lab`: hosts of the lab by hand."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping

from tests.lab import host, place
from tests.lab.host import Host


def up(each: Host) -> None:
    each.up()
    each.wait()
    print(f"{each.name} is up: ssh {' '.join(each.ssh_options())} root@{each.address}")


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


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb, (_, meaning) in VERBS.items():
        verbs.add_parser(verb, help=meaning).add_argument("hosts", nargs="+")
    shell = verbs.add_parser("sh", help="a shell or a command on a host, as root")
    shell.add_argument("host")
    shell.add_argument("command", nargs=argparse.REMAINDER)
    verbs.add_parser("list", help="which hosts there are")
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
