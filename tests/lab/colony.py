"""A colony: a fleet of lab hosts in a folder of its own, with people who have keys of their own.

All is done as its people do it: specs are committed, `gpuaas` is run, and who logs in does so by
OpenSSH's own ssh, with the line that apply printed and a key of their own.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import yaml

from reconciler.hosts.folders import short_folder
from tests.harness.yard import Said, Yard
from tests.lab import place
from tests.lab.host import Host
from tests.planner import fleet as paper

SETTINGS = """\
operators: [olga]
ssh: {{identityFile: {key}}}
publish: {{dir: published}}
posix: {{firstUid: {first}, firstGid: {first}}}
"""
FIRST_NUMBER, NUMBERS = 20000, 100
"""Of accounts, for each host: those of the lab have one kernel, and it keeps keys by number."""
PEOPLE = ("olga", "ana", "bo", "cem", "dana")
SIZES = (1, 2)
FAMILY = "h100"

LOOK = Path(__file__).with_name("look.py").read_text(encoding="utf-8")

PLACES = "/etc /usr/local /home /root /var/lib/gpuaas /var/lib/systemd/linger /var/spool/cron"
OURS = f"find {PLACES} -xdev -not -path /etc/.pwd.lock"
TREE = f"""
{OURS} -printf '%p %M %U:%G %l %T@\\n' 2>/dev/null | sort
{OURS} -type f -print0 2>/dev/null | sort -z | xargs -0 sha256sum
"""
DOORS = re.compile(r"^(/etc/gpuaas/ssh|/var/lib/gpuaas/instances/[a-z-]+) (d.*)  \S+$", re.M)

T = TypeVar("T")
R = TypeVar("R")
Completed = subprocess.CompletedProcess[str]


class Colony(Yard):
    """`machines` are its hosts by the names of their nodes, `first` what its first apply said."""

    def __init__(self, folder: Path, machines: Mapping[str, Host]) -> None:
        super().__init__(folder)
        self.machines = machines
        self.first: Completed

    def write(self, *documents: Mapping[str, Any]) -> None:
        """With the restart that somebody asked for before: no generation goes down."""
        super().write(*map(self._as_restarted, documents))

    def _as_restarted(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        file = self.file(document)
        if document["kind"] != "Allocation" or not file.exists():
            return document
        before = yaml.safe_load(file.read_text(encoding="utf-8"))["spec"]
        restart = {"restart": before["restart"]} if "restart" in before else {}
        return {**document, "spec": {**restart, **document["spec"]}}

    # What operators do.

    def enrol(self) -> None:
        """Discover by the key that a host's console shows, and give one's word for all of it."""
        names = tuple(self.machines)
        for found in beside(self.discover, names):
            assert found.returncode == 0, found.stderr
        self.commit()
        for name in names:
            approved = self.gpuaas("node", "approve", name)
            assert approved.code == 0, approved.document
        self.commit()

    def discover(self, name: str) -> Completed:
        host = self.machines[name]
        key = next(key for key in host.host_keys() if key.startswith("ssh-ed25519"))
        file = self.specs / f"node/{name}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        return self.shell(
            *("node", "discover", host.address, "--name", name),
            *("--host-key", key, "--write", str(file)),
        )

    def shell(self, *words: str) -> Completed:
        """`gpuaas` as people see it: text, in a process of its own, with nobody to ask."""
        program = Path(sys.executable).with_name("gpuaas")
        return run(str(program), "-C", str(self.folder), "--no-color", *words)

    # What people do.

    def line(self, ref: str) -> str:
        """As apply prints it for a new allocation, and `status` for whoever asks later."""
        project, _, name = ref.partition("/")
        return f"ssh -F {self.folder}/published/{project}/ssh_config {name}.{project}"

    def enter(self, ref: str, key: str, command: str, given: str = "") -> Completed:
        """A command in a session of whoever has this key, and no other."""
        return run(*as_person(self.line(ref), key), command, given=given)

    def opened(self, *keys: str) -> set[tuple[str, str]]:
        """Each allocation with each of these keys that opens it, tried by real logins."""
        tries = [(ref, key) for ref in self.refs for key in keys]
        done = beside(lambda one: self.enter(*one, "true"), tries)
        for one in done:
            assert one.returncode == 0 or "Permission denied (publickey)" in one.stderr, one
        return {pair for pair, one in zip(tries, done, strict=True) if one.returncode == 0}

    @property
    def refs(self) -> list[str]:
        """Allocations that are recorded, as `project/name`."""
        known = (ref for ref in self.world.recorded if ref.kind == "allocation")
        return sorted(f"{ref.project}/{ref.name}" for ref in known)

    def said(self, ref: str, key: str, command: str) -> str:
        """What it prints there, where it ends well."""
        done = self.enter(ref, key, command)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def look(self, ref: str, key: str, command: str = "python3 -I -") -> dict[str, Any]:
        """What a session sees, or what `command` starts from it; it has an agent with the key."""
        program, *words = as_person(self.line(ref), key)
        taken = ("ssh-agent", "sh", "-c", 'ssh-add -q "$0" && exec "$@"', str(place.key(key)))
        done = run(*taken, program, "-A", *words, command, given=LOOK)
        assert done.returncode == 0, done.stderr
        seen: dict[str, Any] = json.loads(done.stdout)
        return seen

    @contextmanager
    def session(self, ref: str, key: str) -> Iterator[subprocess.Popen[str]]:
        """A shell that stays open until it is ended from outside; it answers when this returns."""
        shell = subprocess.Popen(
            [*as_person(self.line(ref), key), "echo open; exec sleep 600"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            assert shell.stdout is not None and shell.stdout.readline() == "open\n"
            yield shell
        finally:
            shell.kill()
            shell.communicate()

    def let_go(self, node: str) -> None:
        """End what is kept of the connections to a host, as it ends by itself after ten minutes."""
        keys = self.recorded(f"node/{node}").normal["spec"]["identity"]["hostKeys"]
        pins = hashlib.sha256("\n".join(keys).encode()).hexdigest()[:8]
        for socket in short_folder().glob(f"{pins}-*"):
            run("ssh", "-o", f"ControlPath={socket}", "-O", "exit", node)

    # What stands on hosts.

    def host_of(self, ref: str) -> Host:
        return self.machines[self.recorded(f"allocation/{ref}").node]

    def change(self, *documents: Mapping[str, Any], but: Sequence[Mapping[str, Any]] = ()) -> Said:
        """Write these, remove those, commit all of it and apply; what the apply came to."""
        self.write(*documents)
        self.commit()
        if but:
            self.remove(*but)
        return self.apply()

    def applied(self, *documents: Mapping[str, Any], but: Sequence[Mapping[str, Any]] = ()) -> Said:
        """As `change`, where nothing is refused and nothing fails."""
        done = self.change(*documents, but=but)
        assert done.code == 0, done.messages or done.blocked
        return done

    def rests(self) -> None:
        """Nothing is to be done, and all hosts show what they should.

        Hosts that many look at may not come to all that they are asked; the next look does.
        """
        for _ in range(3):
            said = self.plan("--refresh", "--detailed-exitcode")
            notes = said.plan["notes"]
            if said.code == 0:
                return
            if any(note["topic"] != "unchecked" for note in notes):
                break
        raise AssertionError((said.code, said.actions, notes, said.document["problems"]))

    def tree(self, name: str) -> str:
        """Names, modes, owners, times and content of all that the platform may write there.

        But for the times of the folders in which each look lets its probe in, and leaves nothing.
        """
        return DOORS.sub(r"\1 \2", self.machines[name].run(TREE).stdout)

    def trees(self, *names: str) -> dict[str, str]:
        wanted = names or tuple(self.machines)
        return dict(zip(wanted, beside(self.tree, wanted), strict=True))


def beside(work: Callable[[T], R], things: Iterable[T]) -> list[R]:
    """The same for each thing, at the same time; the answers in order."""
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(work, things))


def run(*words: str, given: str | None = None) -> Completed:
    return subprocess.run(
        words,
        **({"stdin": subprocess.DEVNULL} if given is None else {"input": given}),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def as_person(line: str, key: str) -> tuple[str, ...]:
    """The words of a line for ssh, used by somebody who has one key of the lab's, and no other."""
    program, *words = shlex.split(line)
    assert program == "ssh", line
    own = ("-i", str(place.key(key)), "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes")
    return (program, *own, *words)


def documents() -> Iterator[Mapping[str, Any]]:
    """Everything but nodes and allocations: one tenant, two projects, five people, two SKUs."""
    guard = {"maxRemovals": 5, "maxRemovalPercent": 100}
    yield paper.policy(guard=guard, grant={"mayBeOpenEnded": True})
    yield paper.family(FAMILY, base={"os": ["debian-13"], "driverBranches": ["580"]})
    yield from (paper.sku(f"slice-{size}", size, isolation=["account"]) for size in SIZES)
    yield from map(person, PEOPLE)
    yield project("vision", "ana", "cem")
    yield project("nlp", "bo", "dana")


def person(name: str, *more: str, **changes: Any) -> dict[str, Any]:
    """With the key `name`, and `name-MORE` for each more."""
    keys = [{"id": "laptop", "publicKey": place.public(place.key(name))}]
    keys += [{"id": id, "publicKey": place.public(place.key(f"{name}-{id}"))} for id in more]
    return paper.user(name, **{"keys": keys, **changes})


def project(name: str, *members: str) -> dict[str, Any]:
    skus = [f"slice-{size}" for size in SIZES]
    return paper.project(name, *members, entitlements={"skus": skus})


def founded(folder: Path, machines: Mapping[str, Host], *more: Mapping[str, Any]) -> Colony:
    """A new fleet without a node, committed."""
    first = FIRST_NUMBER + NUMBERS * min((one.index for one in machines.values()), default=0)
    settings = SETTINGS.format(key=place.key(), first=first)
    (folder / "gpuaas.yaml").write_text(settings, encoding="utf-8")
    colony = Colony(folder, machines)
    colony.write(*documents(), *more)
    made = colony.gpuaas("init")
    assert made.code == 0, made.document
    colony.commit()
    # Who approves nodes is whoever git says is at work here.
    place.order("git", "-C", folder, "config", "user.email", "olga@corp.example")
    return colony


ALLOCATIONS = {
    "vision/train": ("slice-2", "c1", ("ana", "cem")),
    "vision/eval": ("slice-1", "c1", ("cem",)),
    "nlp/bert": ("slice-2", "c1", ("bo", "dana")),
    "vision/sweep": ("slice-1", "c2", ("ana",)),
    "nlp/gpt": ("slice-1", "c2", ("bo",)),
    "vision/desk": ("slice-1", "c3", ("cem",)),
    "nlp/tok": ("slice-1", "c3", ("dana",)),
}
"""Seven, of two projects, so that on every host there is a neighbour of the other one."""


def allocation(ref: str, **changes: Any) -> dict[str, Any]:
    """One of the seven; its first person is the owner."""
    sku, node, people = ALLOCATIONS[ref]
    project, _, name = ref.partition("/")
    spec = {"owner": people[0], "access": list(people), "node": node}
    return paper.allocation(name, sku, project, **{**spec, **changes})


def wait_until(true: Callable[[], bool], seconds: float = 30) -> None:
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, "it did not come to pass"
        time.sleep(0.1)
