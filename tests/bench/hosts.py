"""100 allocations on 50 hosts over ssh: our apply and our look, beside pyinfra, Ansible and ssh.

The hosts are folders behind a sshd of this machine, each at an address and with a root of its own.
The peers make the same folders and files with the same content, in roots beside ours.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reconciler import shipped
from reconciler.hosts.folders import short_folder
from reconciler.hosts.payload import carried
from reconciler.operations.fleet import utc_now
from reconciler.operations.node.directory_host import DRIVER
from tests import fleets
from tests.bench import plain_ansible, prepared, pyinfra
from tests.bench.measuring import (
    GPUAAS,
    Row,
    Run,
    at_least,
    at_most,
    median,
    run,
    scaled,
    seconds,
    timed,
)
from tests.bench.peer_work import Work, work_of
from tests.harness.sshd import Sshd, sshd
from tests.harness.yard import Yard
from tests.operations.reconcile.rounds import Rounds
from tests.planner import fleet as paper

HARDWARE = fleets.Hardware(
    family="h100",
    model=fleets.MODEL,
    memory_mib=fleets.MEMORY_MIB,
    gpus=2,
    cores=28,
    memory_gib=256,
)
PROJECTS, PEOPLE, AT_ONCE, ROUNDS, SAMPLE = 5, 5, 16, 2, 5
IDLE_ROUNDS = 10
STANDIN = "#!/bin/sh\n# TEST STAND-IN, not a GPU\n"
LEARNING = 'printf "%s\\n" "$*" >> "$0.asked"; exec "$0.asks" "$@"\n'
APPLY = [GPUAAS, "apply", "--auto-approve"]
LOOK = [GPUAAS, "plan", "--refresh", "--detailed-exitcode"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The hosts of one bench: where each node answers, and by which keys."""

    work: Path
    server: Sshd
    addresses: Mapping[str, str]

    def what(self) -> str:
        return f"{2 * len(self.addresses)} allocations on {len(self.addresses)} unseen hosts"


def main(work: Path, scale: float) -> None:
    if os.geteuid() != 0:
        print("hosts: not measured, since a sshd of our own needs root", file=sys.stderr)
        return
    count = scaled(50, scale, least=5)
    addresses = {f"node-{number}": f"127.0.1.{number}" for number in range(1, count + 1)}
    rounds = ROUNDS if scale >= 1 else 1
    with sshd(work / "sshd", tuple(addresses.values()), recorded=False) as server:
        site = Site(work=work, server=server, addresses=addresses)
        folders = [fleet(site, work / f"fleet-{number}") for number in range(rounds)]
        measure(site, folders)
        forget_connections(site)


def measure(site: Site, folders: list[Path]) -> None:
    cold, warm, work = floor(site)
    tell("floor: ssh true, 16 at once", "", f"{seconds(cold)} cold, {seconds(warm)} warm")
    program = pyinfra.program(site.work)
    applies, looks, changes, nothing = [], [], [], []
    for number, folder in enumerate(folders):
        forget_connections(site)
        applies.append(run(APPLY, folder))
        looks += [run(LOOK, folder) for _ in range(3)]
        if program:
            peer = works(site, folder, site.work / f"pyinfra-{number}")
            command = pyinfra.prepare(program, site.work / f"deploy-{number}", site.server, peer)
            changes.append(run(command, folder))
            nothing.append(run(command, folder))
    apply, look = median(applies), median(looks)
    report_change(site, apply, median(changes) if changes else None)
    beside_ansible(site, apply, folders[0])
    what = f"nothing to do on {len(site.addresses)} hosts, all looked at"
    beside = f"ssh true, warm {seconds(warm)}"
    tell(what, seconds(look.seconds), beside, **at_most(look.seconds / warm, 6))
    beside_loop(site, folders[0], work)
    if nothing:
        peer_look = median(nothing).seconds
        ratio = at_least(peer_look / look.seconds, 6)
        tell(what, seconds(look.seconds), f"pyinfra {seconds(peer_look)}", **ratio)


def report_change(site: Site, apply: Run, peer: Run | None) -> None:
    ours = seconds(apply.seconds)
    if peer is None:
        tell(site.what(), ours, "pyinfra cannot be installed here")
        return
    beside = f"pyinfra {seconds(peer.seconds)}"
    tell(site.what(), ours, beside, **at_least(peer.seconds / apply.seconds, 1.2))


def beside_ansible(site: Site, apply: Run, folder: Path) -> None:
    """Ansible as it is mostly written, for ten allocations; the rest is reckoned from these."""
    some = [works(site, folder, site.work / name)[:SAMPLE] for name in ("play", "each")]
    factor = len(site.addresses) / SAMPLE
    one = plain_ansible.one_play(site.work / "one-play", site.server, some[0], factor)
    each = factor * plain_ansible.play_each(site.work / "play-each", site.server, some[1])
    for how, peer, reach in (
        ("one play, a task an operation", one, 12),
        ("a playbook an allocation", each, 30),
    ):
        beside = f"Ansible, {how}: {seconds(peer)} (from {2 * SAMPLE} allocations)"
        ratio = at_least(peer / apply.seconds, reach)
        tell(site.what(), seconds(apply.seconds), beside, **ratio)


def beside_loop(site: Site, folder: Path, work: float) -> None:
    """Rounds of an idle loop, a minute apart on a clock of their own; `work` is of the floor."""
    yard = Yard(folder)
    yard.commit()
    rounds = Rounds(yard, utc_now())
    for _ in range(IDLE_ROUNDS):
        rounds()
    before = processor_seconds()
    observed = sum(rounds().observed for _ in range(IDLE_ROUNDS))
    mine = (processor_seconds() - before) / IDLE_ROUNDS
    what = f"a round of an idle loop, {observed / IDLE_ROUNDS:.0f} of {len(site.addresses)} due"
    beside = f"ssh true on all, {seconds(work)} of CPU"
    tell(what, f"{seconds(mine)} of CPU", beside, **at_most(mine / work, 3))


def processor_seconds() -> float:
    """Of this process and of those that it has waited for."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, kinds))


def works(site: Site, folder: Path, roots: Path) -> list[Work]:
    """What our apply has made, to be made again by others below other roots."""
    return [
        work_of(address, folder / "nodes" / node, roots / node)
        for node, address in site.addresses.items()
    ]


def fleet(site: Site, folder: Path) -> Path:
    """A committed fleet whose hosts were never looked at."""
    prepared.on_disk(folder, documents(site, folder))
    key = f"ssh: {{identityFile: {site.server.login_key}}}\n"
    (folder / "gpuaas.yaml").write_text(fleets.SETTINGS + key, encoding="utf-8")
    prepared.commit(folder)
    Yard(folder).lay_nodes()
    for node in site.addresses:
        answer_at_once(folder / "nodes" / node)
    return folder


def answer_at_once(root: Path) -> None:
    """Cards that cost nothing to ask: how long a driver takes is not what is measured here.

    What a look asks of them it asks once before, and that is all they know.
    """
    program = root / "usr/bin/nvidia-smi"
    slow, asked = (program.with_name(f"{program.name}.{name}") for name in ("asks", "asked"))
    program.rename(slow)
    program.write_text(f"{STANDIN}{LEARNING}")
    program.chmod(0o755)
    look(root)
    branches = []
    for words in sorted(set(asked.read_text().splitlines())):
        told = subprocess.run(
            [slow, *words.split(" ")], capture_output=True, text=True, check=False
        )
        branches.append(f"{shlex.quote(words)}) printf %s {shlex.quote(told.stdout)}")
        branches.append(f"exit {told.returncode} ;;")
    program.write_text("\n".join((f'{STANDIN}case "$*" in', *branches, "esac", "exit 2", "")))
    slow.unlink()
    asked.unlink()


def look(root: Path) -> str:
    """What the code that is carried to hosts says of the one that this folder stands for."""
    words = [sys.executable, "-IS", "-", json.dumps({"root": str(root)})]
    code = carried(shipped.folder("playbooks") / "module_utils" / "gpuaas", "observe")
    return subprocess.run(words, input=code, capture_output=True, check=True).stdout.decode()


def documents(site: Site, folder: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    base = {"os": ["debian-12"], "driverBranches": [DRIVER.split(".")[0]]}
    yield "fleet/policy.yaml", fleets.policy()
    yield "fleet/family.yaml", paper.family(base=base)
    yield "fleet/sku.yaml", fleets.sku(1, [HARDWARE.family])
    yield "fleet/olga.yaml", fleets.user("olga")
    for number, (name, address) in enumerate(site.addresses.items()):
        yield f"nodes/{name}.yaml", node(site, name, address, folder / "nodes" / name)
        team = f"team-{number % PROJECTS}"
        people = [f"{team}-{person}" for person in range(PEOPLE)]
        if number < PROJECTS:
            for person in people:
                yield f"people/{person}.yaml", fleets.user(person)
            yield f"projects/{team}/project.yaml", fleets.project(team, people, ["gpus-1"], 100)
        for which in ("a", "b"):
            made = fleets.allocation(f"run-{number}-{which}", people[0], "gpus-1", team)
            made["spec"]["access"] = people
            yield f"projects/{team}/run-{number}-{which}.yaml", made


def node(site: Site, name: str, address: str, root: Path) -> Mapping[str, Any]:
    machine = hashlib.sha256(name.encode()).hexdigest()[:32]
    return paper.node(
        name,
        [fleets.slot(name, number, HARDWARE) for number in range(HARDWARE.gpus)],
        address=address,
        root=str(root),
        ssh={"port": site.server.port, "user": "root"},
        identity={"machineId": machine, "hostKeys": [site.server.host_key]},
    )


def floor(site: Site) -> tuple[float, float, float]:
    """Seconds of `ssh true` on every host, through new connections and through kept ones; and
    seconds of CPU through kept ones.
    """
    sockets = site.work / "sockets"
    sockets.mkdir()
    kept = ("-o", f"ControlPath={sockets}/%C")
    cold = timed(1, lambda: everywhere(site, "-o", "ControlPath=none"))[0]
    everywhere(site, "-o", "ControlMaster=auto", "-o", "ControlPersist=300", *kept)
    before = processor_seconds()
    warm = timed(5, lambda: everywhere(site, *kept))[0]
    work = (processor_seconds() - before) / 5
    everywhere(site, "-O", "exit", *kept)
    return cold, warm, work


def everywhere(site: Site, *options: str) -> None:
    """`ssh true` to each host, or whatever else the options ask of ssh."""
    server = site.server
    pins = server.pins(list(site.addresses.values()))
    common = ("-F", "none", "-o", "BatchMode=yes", "-o", f"UserKnownHostsFile={pins}")
    login = ("-p", str(server.port), "-l", "root", "-i", str(server.login_key))

    def visit(address: str) -> None:
        command = ["ssh", *common, *login, *options, address, "true"]
        subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=True)

    with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
        list(pool.map(visit, site.addresses.values()))


def forget_connections(site: Site) -> None:
    """End the connections that an apply or a look has kept."""
    for socket in short_folder().glob(f"{site.server.mark}-*"):
        words = ["ssh", "-O", "exit", "-o", f"ControlPath={socket}", "nobody"]
        subprocess.run(words, capture_output=True, check=False)


def tell(what: str, ours: str, beside: str, **verdict: object) -> None:
    Row(topic="hosts", what=what, ours=ours, beside=beside, **verdict).tell()  # type: ignore[arg-type]


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
