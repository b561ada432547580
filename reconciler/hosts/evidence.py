"""Evidence: hosts are asked about themselves by the observe code, in a call of its own.

No answer, a late one or a wrong one is an observation with a problem and without facts.
"""

from __future__ import annotations

import json
import math
import os
import selectors
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from types import MappingProxyType

from reconciler.hosts.ansible.executor import RunOptions
from reconciler.hosts.ansible.receipts import plain
from reconciler.hosts.answers import NOISE, AnswerError, read_answer
from reconciler.hosts.cancel import TICK_SECONDS, Wish, halting, nobody_wishes
from reconciler.hosts.folders import short_folder, workplace
from reconciler.hosts.payload import carried
from reconciler.hosts.ssh.ssh import (
    REMOTE_PYTHON,
    SUDO,
    needs_sudo,
    ssh_command,
    why_not_begun,
    why_not_reached,
    write_pins,
)
from reconciler.hosts.workdir import marked, passing
from reconciler.model.canonical import digest
from reconciler.model.codec import encode
from reconciler.model.host.evidence import NodeFacts, Observation
from reconciler.model.moment import format_moment
from reconciler.model.plan.work import Host
from reconciler.model.records import dataclass
from reconciler.stops import around, reach

AT_ONCE = 16
MAX_ANSWER = 4 * 1024 * 1024
MAX_ERRORS = 64 * 1024
"""Banners of this host and of those on the way come before what ssh says of a key."""

SPARE_SECONDS = 15
"""Of a look's time, for logging in and for the answer: a host stops asking itself before."""

LOGIN_SECONDS, LET_GO_SECONDS = 45, 5
"""Within the first our code has begun on a host, and said so, or its login hangs.

It is long enough for a kept connection to be given up and a new one to be tried.
"""

SSH_FAILED = 255
NOT_STARTED = 127


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramEnd:
    """How a program ended: `code` is None when its time was up."""

    code: int | None
    output: bytes
    errors: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What one host is asked beyond what it always tells.

    `prove` are uids of which nothing may be left; `fresh` asks through a new connection;
    `descriptors` asks for what they say, `sweep` for what there is of the uids from one to another.
    """

    prove: tuple[int, ...] = ()
    topology: bool = False
    fresh: bool = False
    descriptors: bool = False
    sweep: tuple[int, int] | None = None


def observe(
    hosts: Sequence[Host],
    options: RunOptions,
    *,
    at: datetime,
    prove: Mapping[str, tuple[int, ...]] = MappingProxyType({}),
    fresh: Collection[str] = (),
) -> tuple[Observation, ...]:
    """One observation per host, in their order; several are asked at a time.

    `prove` maps nodes to the uids to look for; the nodes in `fresh` are reached anew.
    """
    questions = [
        Question(prove=prove.get(host.node, ()), fresh=host.node in fresh) for host in hosts
    ]
    return ask(list(zip(hosts, questions, strict=True)), options, at=at)


def ask(
    asked: Sequence[tuple[Host, Question]], options: RunOptions, *, at: datetime
) -> tuple[Observation, ...]:
    """The answer of each host to its question; `interrupted` where that was no longer wanted."""
    if not asked:
        return ()
    with (
        pinned([host for host, _ in asked]) as pins,
        ThreadPoolExecutor(max_workers=min(AT_ONCE, len(asked))) as pool,
        halting(options.forced) as forced,
    ):
        told = replace(options, forced=forced)
        one = partial(_observe, pins=pins, options=told, at=format_moment(at))
        with around("look"):
            return tuple(pool.map(one, *zip(*asked, strict=True)))


@contextmanager
def pinned(hosts: Sequence[Host]) -> Iterator[Path]:
    """The file of their pins, for as long as these hosts are spoken to."""
    with passing() as place:
        with workplace():
            pins = write_pins(hosts, place)
        yield pins


def _observe(
    host: Host, question: Question, pins: Path, options: RunOptions, at: str
) -> Observation:
    reach("look.during")
    empty = Observation(node=host.node, at=at)
    if host.is_local and not os.path.isdir(host.root):
        message = f"root folder {host.root} is not there"
        return replace(empty, problem="host_unreachable", message=message)
    program, given = _program(host, question, pins, options)
    command = marked(program, pins.parent)
    login = LOGIN_SECONDS if not host.is_local else math.inf
    ended = run_bounded(command, given, options.observe_timeout_s, login, options.forced)
    if ended.code is None and options.forced():
        return replace(empty, problem="interrupted", message="stopped before it had answered")
    if ended.code is None and not host.is_local:
        let_go(host, pins)
    if problem := _problem_of(ended, host, options):
        return replace(empty, problem=problem[0], message=plain(problem[1]))
    try:
        facts = read_answer(ended.output)
    except AnswerError as error:
        return replace(empty, problem="host_answer_invalid", message=plain(str(error)))
    if host.machine_id and facts.machine_id != host.machine_id:
        found = facts.machine_id or "unknown"
        message = f"machine id {found}, expected {host.machine_id}"
        return replace(empty, problem="host_identity_changed", message=message)
    return replace(empty, facts=facts, digest=digest(encode(_lasting(facts))))


def _lasting(facts: NodeFacts) -> NodeFacts:
    """The facts without what is new in every answer: processes, GPU utilization, login texts."""
    problems = tuple(one for one in facts.problems if one.probe != NOISE)
    gpus = facts.gpus and tuple(replace(gpu, utilization=None) for gpu in facts.gpus)
    return replace(facts, running=None, gpus=gpus, problems=problems)


def _program(
    host: Host, question: Question, pins: Path, options: RunOptions
) -> tuple[tuple[str, ...], bytes]:
    """The program that carries the observe code, and what it is given on stdin."""
    whole = host.isolation != "directory" or question.topology
    folder = options.playbooks / "module_utils" / "gpuaas"
    code = carried(folder, "observe_host" if whole else "observe")
    request = json.dumps(
        {
            "root": host.root,
            "prove": question.prove,
            "topology": question.topology,
            "descriptors": question.descriptors,
            "sweep": question.sweep,
            "seconds": max(1.0, options.observe_timeout_s - SPARE_SECONDS),
        }
    )
    if host.is_local:
        return (options.python, "-IS", "-", request), code
    command = ssh_command(host, pins, None if question.fresh else short_folder())
    words = (*((SUDO, "-n", "--") if needs_sudo(host) else ()), REMOTE_PYTHON, "-IS", "-", request)
    return (*command, shlex.join(words)), code


def _problem_of(ended: ProgramEnd, host: Host, options: RunOptions) -> tuple[str, str] | None:
    said = ended.errors.decode("utf-8", "replace").strip() or f"it ended with {ended.code}"
    if len(ended.output) > MAX_ANSWER:
        return "host_answer_invalid", f"more than {MAX_ANSWER >> 20} MiB of answer"
    if ended.code is None and not host.is_local and not ended.output:
        return "host_unreachable", f"its login came to nothing within {LOGIN_SECONDS} s"
    if ended.code is None:
        return "host_timeout", f"no answer within {options.observe_timeout_s} s"
    if not host.is_local and ended.code == SSH_FAILED:
        return why_not_reached(host, said)
    if ended.code != 0:
        return why_not_begun(host, said) or ("observation_failed", said)
    return None


def run_bounded(
    command: Sequence[str],
    given: bytes,
    seconds: float,
    first: float = math.inf,
    forced: Wish = nobody_wishes,
) -> ProgramEnd:
    """Run a program in a group of its own; end the whole group when its time or its room is up.

    Its time is up after `first` seconds if it has said nothing until then, and when it is `forced`.
    """
    began = time.monotonic()
    # In memory, since a host must be heard of when this machine's disks are full as well.
    with open(os.memfd_create("stdin"), "w+b") as stdin:
        stdin.write(given)
        stdin.seek(0)
        try:
            program = subprocess.Popen(
                command,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            return ProgramEnd(code=NOT_STARTED, output=b"", errors=str(error).encode())

    def left(heard: bool) -> float:
        bound = seconds if heard else min(first, seconds)
        return 0.0 if forced() else began + bound - time.monotonic()

    try:
        output, errors, late = _listen(program, left)
    except BaseException:
        _end(program, 0.0)
        raise
    code = _end(program, 0.0 if late else max(0.0, left(True)))
    return ProgramEnd(code=code, output=output, errors=errors)


def _listen(
    program: subprocess.Popen[bytes], left: Callable[[bool], float]
) -> tuple[bytes, bytes, bool]:
    """What it says until it has no more to say, and whether it was not to say all."""
    output, errors = bytearray(), bytearray()
    assert program.stdout is not None and program.stderr is not None
    with program.stdout, program.stderr, selectors.DefaultSelector() as ready:
        ready.register(program.stdout, selectors.EVENT_READ, (output, MAX_ANSWER + 1))
        ready.register(program.stderr, selectors.EVENT_READ, (errors, MAX_ERRORS))
        while ready.get_map() and len(output) <= MAX_ANSWER and (rest := left(bool(output))) > 0:
            for key, _ in ready.select(timeout=min(rest, TICK_SECONDS)):
                chunk = os.read(key.fd, 1 << 16)
                kept, limit = key.data
                kept += chunk[: limit - len(kept)]
                if not chunk:
                    ready.unregister(key.fileobj)
        return bytes(output), bytes(errors), bool(ready.get_map())


def let_go(host: Host, pins: Path) -> None:
    """End the kept connection to a host that has hung: the next look begins with a new one."""
    *command, _, address = ssh_command(host, pins, short_folder())
    run_bounded((*command, "-O", "exit", "--", address), b"", LET_GO_SECONDS)


def _end(program: subprocess.Popen[bytes], seconds: float) -> int | None:
    """Its exit code; None if it had to be ended, as it has to be without time left."""
    try:
        if seconds:
            return program.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        pass
    with suppress(ProcessLookupError):
        os.killpg(program.pid, signal.SIGKILL)
    program.wait()
    return None
