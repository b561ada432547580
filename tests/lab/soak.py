"""What happens to a fleet in a soak: people commit, and the world breaks. All of it seeded."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.lab.colony import Colony
from tests.planner import fleet as paper

PEOPLE = {"vision": ("ana", "cem"), "nlp": ("bo", "dana")}
NAMES = tuple(f"{project}/w{number}" for project in PEOPLE for number in range(6))
LOOP = ("--watch", "--interval", "5s")


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", folder, "-c", "user.name=olga", "-c", "user.email=olga@corp.example", *words],
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout


@dataclass
class Author:
    """Commits as people do, and what git wants at the end: `wanted` by ref."""

    colony: Colony
    chance: random.Random
    counts: Counter[str]
    wanted: dict[str, dict[str, Any]] = field(default_factory=dict)
    broken: str = ""

    @property
    def bare(self) -> Path:
        return self.colony.folder / "fleet.git"

    def act(self) -> str:
        acts: tuple[tuple[Callable[[], bool], int], ...] = (
            (self.create, 4),
            (self.change, 3),
            (self.release, 3),
            (self.spoil, 1),
            (self.revert, 1),
            (self.move, 1),
            (self.rewrite, 1),
        )
        act = self.chance.choices([a for a, _ in acts], [w for _, w in acts])[0]
        if not act():
            return ""
        self.counts[act.__name__] += 1
        self.push()
        return act.__name__

    def push(self, *words: str) -> None:
        if self.bare.is_dir():
            git(self.colony.folder, "push", "-q", *words, str(self.bare), "HEAD:main")

    def create(self) -> bool:
        free = [name for name in NAMES if name not in self.wanted]
        if not free:
            return False
        ref = self.chance.choice(free)
        project, _, name = ref.partition("/")
        owner = self.chance.choice(PEOPLE[project])
        size = self.chance.choice(("slice-1", "slice-2"))
        one = paper.allocation(name, size, project, owner=owner, access=[owner])
        return self._write(ref, one)

    def change(self) -> bool:
        if not self.wanted:
            return False
        ref = self.chance.choice(sorted(self.wanted))
        one = self.wanted[ref]
        people = PEOPLE[ref.partition("/")[0]]
        owner = one["spec"]["owner"]
        access = [owner] if len(one["spec"]["access"]) > 1 else list(people)
        return self._write(ref, {**one, "spec": {**one["spec"], "access": access}})

    def release(self) -> bool:
        if len(self.wanted) < 4:
            return False
        ref = self.chance.choice(sorted(self.wanted))
        one = self.wanted.pop(ref)
        for file in self._files(one):
            file.unlink()
        self._commit(f"release {ref}")
        return True

    def spoil(self) -> bool:
        """A file that is broken for a while, or is mended again."""
        folder = self.colony.folder
        if self.broken:
            git(folder, "checkout", "-q", self.broken, "--", "specs/user/dana.yaml")
            self.broken = ""
            self._commit("mend")
            return True
        self.broken = git(folder, "rev-parse", "HEAD").strip()
        (self.colony.specs / "user/dana.yaml").write_text("kind: [half of a", encoding="utf-8")
        self._commit("half of a file")
        return True

    def revert(self) -> bool:
        """A change that everybody has seen is taken back."""
        before = dict(self.wanted)
        if not (self.create() or self.change()):
            return False
        self.push()
        git(self.colony.folder, "revert", "--no-edit", "HEAD")
        self.wanted = before
        return True

    def move(self) -> bool:
        """A file gets another name; nothing else."""
        files = [file for one in self.wanted.values() for file in self._files(one)]
        if not files:
            return False
        file = self.chance.choice(sorted(files))
        other = file.with_name(f"{file.stem.partition('.')[0]}.{self.chance.randrange(1000)}.yaml")
        file.rename(other)
        self._commit("move a file")
        return True

    def rewrite(self) -> bool:
        """A force push; an operator looks at it and accepts it."""
        folder = self.colony.folder
        if not self.bare.is_dir():
            return False
        git(folder, "commit", "-q", "--amend", "--allow-empty", "-m", "rewritten")
        self.push("--force")
        head = git(folder, "rev-parse", "HEAD").strip()
        said = self.colony.gpuaas(
            *("reconcile", "accept", head[:12], "--reason", "soak", "--lock-timeout", "60s")
        )
        if said.code:
            self.counts["accept refused"] += 1
        return True

    def settle(self) -> None:
        """Everything is mended, and all of it is pushed."""
        if self.broken:
            self.spoil()
        self.push("--force")
        head = git(self.colony.folder, "rev-parse", "HEAD").strip()
        words = ("reconcile", "accept", head[:12], "--reason", "soak", "--lock-timeout", "120s")
        for _ in range(10):
            said = self.colony.gpuaas(*words)
            if said.code == 0:
                return
            time.sleep(3)
        raise AssertionError(said.document["problems"])

    def _write(self, ref: str, one: Mapping[str, Any]) -> bool:
        files = self._files(one)
        self.wanted[ref] = dict(one)
        if files:
            files[0].write_text(yaml.safe_dump(dict(one), sort_keys=False), encoding="utf-8")
        else:
            self.colony.write(one)
        self._commit(f"write {ref}")
        return True

    def _files(self, one: Mapping[str, Any]) -> list[Path]:
        path = self.colony.file(one)
        return sorted({*path.parent.glob(f"{path.stem}.*yaml")})

    def _commit(self, why: str) -> None:
        git(self.colony.folder, "add", "-A", "specs")
        git(self.colony.folder, "commit", "-q", "--allow-empty", "-m", why)


@dataclass
class Loop:
    """The loop as a process that may be killed and is begun again."""

    colony: Colony
    log: Path
    process: subprocess.Popen[bytes] | None = None

    def begin(self) -> None:
        program = Path(sys.executable).with_name("gpuaas")
        command = [str(program), "-C", str(self.colony.folder), "reconcile", *LOOP]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=log)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def end(self) -> int:
        """In order, as a service manager does."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(300)


@dataclass
class World:
    """Hosts, git and the loop, broken at random and healed a while later."""

    colony: Colony
    loop: Loop
    author: Author
    chance: random.Random
    counts: Counter[str]
    healing: list[tuple[float, Callable[[], None]]] = field(default_factory=list)
    hurt: set[str] = field(default_factory=set)

    def act(self) -> None:
        name = self.chance.choice(("cut", "power", "reboot", "loop", "git"))
        if name == "loop":
            self.loop.kill()
            self.counts["loop killed"] += 1
            self.loop.begin()
        elif name == "git":
            self._git()
        else:
            self._host(name)

    def heal(self, *, all_of_it: bool = False) -> None:
        now = time.monotonic()
        due = [one for one in self.healing if all_of_it or one[0] <= now]
        self.healing = [one for one in self.healing if one not in due]
        for _, mend in due:
            mend()

    def _later(self, seconds: float, mend: Callable[[], None]) -> None:
        self.healing.append((time.monotonic() + seconds, mend))

    def _git(self) -> None:
        bare = self.author.bare
        if not bare.is_dir():
            return
        away = bare.rename(bare.with_name("away.git"))
        self.counts["git away"] += 1

        def back() -> None:
            away.rename(bare)
            self.author.push("--force")

        self._later(self.chance.uniform(5, 25), back)

    def _host(self, how: str) -> None:
        whole = sorted(self.colony.machines.keys() - self.hurt)
        if len(whole) < 2:
            return
        name = self.chance.choice(whole)
        host = self.colony.machines[name]
        self.hurt.add(name)
        self.counts[how] += 1
        if how == "cut":
            host.cut()

            def join() -> None:
                host.heal()
                self.hurt.discard(name)

            self._later(self.chance.uniform(10, 40), join)
            return
        host.down() if how == "reboot" else host.kill()

        def on() -> None:
            host.up(owner=os.getpid())
            host.wait()
            self.hurt.discard(name)

        self._later(self.chance.uniform(2, 30), on)
