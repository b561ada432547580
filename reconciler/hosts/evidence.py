"""Evidence: hosts asked about themselves by the observe code, in a call of its own.

No answer, a late one or a wrong one is an observation with a problem and without facts.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path

from reconciler.hosts.answers import AnswerError, read_answer
from reconciler.hosts.executor import RunOptions
from reconciler.hosts.folders import short_folder
from reconciler.hosts.receipts import plain
from reconciler.hosts.ssh import ssh_command, write_pins
from reconciler.model.canonical import digest
from reconciler.model.codec import encode
from reconciler.model.evidence import Observation
from reconciler.model.moment import format_moment
from reconciler.model.work import Host

AT_ONCE = 8
MAX_ANSWER = 4 * 1024 * 1024
MAX_ERRORS = 4096
SSH_FAILED = 255
NOT_STARTED = 127


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a program ended: `code` is None when its time was up."""

    code: int | None
    output: bytes
    errors: bytes


def observe(hosts: Sequence[Host], options: RunOptions, *, at: datetime) -> tuple[Observation, ...]:
    """One observation per host, in their order; several are asked at a time."""
    if not hosts:
        return ()
    with (
        tempfile.TemporaryDirectory(prefix="o", dir=short_folder()) as folder,
        ThreadPoolExecutor(max_workers=min(AT_ONCE, len(hosts))) as pool,
    ):
        pins = write_pins(hosts, Path(folder))
        ask = partial(_observe, pins=pins, options=options, at=format_moment(at))
        return tuple(pool.map(ask, hosts))


def _observe(host: Host, pins: Path, options: RunOptions, at: str) -> Observation:
    empty = Observation(node=host.node, at=at)
    if host.address == "local" and not os.path.isdir(host.root):
        message = f"root folder {host.root} is not there"
        return replace(empty, problem="host_unreachable", message=message)
    command, question = _question(host, pins, options)
    ended = run_bounded(command, question, options.observe_timeout_s)
    if problem := _problem_of(ended, host, options):
        return replace(empty, problem=problem[0], message=problem[1])
    try:
        facts = read_answer(ended.output)
    except AnswerError as error:
        return replace(empty, problem="host_answer_invalid", message=plain(str(error)))
    if host.machine_id and facts.machine_id != host.machine_id:
        found = facts.machine_id or "unknown"
        message = f"machine id {found}, expected {host.machine_id}"
        return replace(empty, problem="host_identity_changed", message=message)
    return replace(empty, facts=facts, digest=digest(encode(facts)))


def _question(host: Host, pins: Path, options: RunOptions) -> tuple[tuple[str, ...], bytes]:
    """The program that carries the observe code, and what it is given on stdin."""
    code = options.playbooks / "module_utils" / "gpuaas" / "observe.py"
    request = json.dumps({"root": host.root})
    if host.address == "local":
        return (options.python, "-I", str(code)), request.encode()
    command = ssh_command(host, pins, short_folder())
    quoted = "'" + request.replace("'", "'\\''") + "'"
    return (*command, f"/usr/bin/python3 -I - {quoted}"), code.read_bytes()


def _problem_of(ended: Ended, host: Host, options: RunOptions) -> tuple[str, str] | None:
    said = plain(ended.errors.decode("utf-8", "replace")) or f"it ended with {ended.code}"
    if len(ended.output) > MAX_ANSWER:
        return "host_answer_invalid", f"more than {MAX_ANSWER >> 20} MiB of answer"
    if ended.code is None:
        return "host_timeout", f"no answer within {options.observe_timeout_s} s"
    if host.address != "local" and ended.code == SSH_FAILED:
        return "host_unreachable", said
    if ended.code != 0:
        return "observation_failed", said
    return None


def run_bounded(command: Sequence[str], given: bytes, seconds: float) -> Ended:
    """Run a program in a group of its own; end the whole group when its time or its room is up."""
    until = time.monotonic() + seconds
    output, errors = bytearray(), bytearray()
    with tempfile.TemporaryFile() as stdin:
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
            return Ended(code=NOT_STARTED, output=b"", errors=str(error).encode())
    assert program.stdout is not None and program.stderr is not None
    with program.stdout, program.stderr, selectors.DefaultSelector() as ready:
        ready.register(program.stdout, selectors.EVENT_READ, (output, MAX_ANSWER + 1))
        ready.register(program.stderr, selectors.EVENT_READ, (errors, MAX_ERRORS))
        while ready.get_map() and len(output) <= MAX_ANSWER and time.monotonic() < until:
            for key, _ in ready.select(timeout=max(0.0, until - time.monotonic())):
                chunk = os.read(key.fd, 1 << 16)
                kept, limit = key.data
                kept += chunk[: limit - len(kept)]
                if not chunk:
                    ready.unregister(key.fileobj)
        late = bool(ready.get_map())
    return Ended(code=_end(program, until, late), output=bytes(output), errors=bytes(errors))


def _end(program: subprocess.Popen[bytes], until: float, late: bool) -> int | None:
    """Its exit code; None if it had to be ended."""
    try:
        if not late:
            return program.wait(timeout=max(0.0, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        pass
    with suppress(ProcessLookupError):
        os.killpg(program.pid, signal.SIGKILL)
    program.wait()
    return None
