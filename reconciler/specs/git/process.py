"""Git as a process: started, waited for within a time limit, its output bounded."""

from __future__ import annotations

import os
import resource
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import IO, NamedTuple

GIT_SECONDS = 60
MAX_SAID = 1 << 30
"""More than there is to say of any specs: what authors commit is no measure of our memory."""


ASKED_SECONDS, LEAVE_SECONDS = 0.1, 2.0
"""How often is asked whether it is to stop, and how long it may take then to put things away."""


class Unanswered(Exception):
    """Git did not do it; the text is why."""


class Stopped(Unanswered):
    """The caller did not want to wait any longer."""


def run(
    folder: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    *,
    seconds: int = GIT_SECONDS,
) -> str:
    with begun(folder, arguments, environment) as question:
        return answer_of(question, seconds=seconds)


def run_apart(
    folder: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    *,
    seconds: int,
    stop: Callable[[], bool] | None = None,
) -> str:
    """Run git without a terminal and its signals; whatever it has started ends with it.

    Raises Stopped as soon as `stop` says so.
    """
    with begun(folder, arguments, environment, apart=True) as question:
        return answer_of(question, seconds=seconds, stop=stop)


class _Question(NamedTuple):
    """What git was asked, and where it writes what it says: it waits for no reader."""

    process: subprocess.Popen[bytes]
    told: IO[bytes]
    errors: IO[bytes]


@contextmanager
def begun(
    folder: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    stdin: str = "",
    *,
    apart: bool = False,
) -> Iterator[_Question]:
    with _memory() as given, _memory() as told, _memory() as errors:
        given.write(stdin.encode("utf-8", "surrogateescape"))
        given.seek(0)
        try:
            process = subprocess.Popen(
                ["git", "--no-pager", "--literal-pathspecs", *arguments],
                cwd=folder,
                env=environment,
                stdin=given,
                stdout=told,
                stderr=errors,
                start_new_session=apart,
            )
        except FileNotFoundError as error:
            raise Unanswered("git is not installed") from error
        with process:
            try:
                with suppress(ProcessLookupError):
                    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (MAX_SAID, MAX_SAID))
                yield _Question(process, told, errors)
            finally:
                if process.returncode is None:
                    _end_group(process) if apart else process.kill()


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """It takes its locks and half written files away, as far as it has the time."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
            if number == signal.SIGTERM:
                _wait(process, LEAVE_SECONDS)


def _memory() -> IO[bytes]:
    return os.fdopen(os.memfd_create("git"), "w+b")


def answer_of(
    question: _Question, *, seconds: int = GIT_SECONDS, stop: Callable[[], bool] | None = None
) -> str:
    process = question.process
    if not _has_ended(process, seconds, stop):
        raise Unanswered(f"git did not answer within {seconds} s")
    # It is bounded from its first moments on, and not before.
    most = max(os.fstat(file.fileno()).st_size for file in (question.told, question.errors))
    if process.returncode == -signal.SIGXFSZ or most > MAX_SAID:
        raise Unanswered(f"git says more than {MAX_SAID >> 20} MiB")
    told, errors = map(_said, (question.told, question.errors))
    if process.returncode:
        said = errors.strip() or told.strip()
        raise Unanswered(next(iter(said.splitlines()), f"git ended with {process.returncode}"))
    return told


def _has_ended(
    process: subprocess.Popen[bytes], seconds: float, stop: Callable[[], bool] | None
) -> bool:
    """Whether it ends in time. Raises Stopped."""
    until = time.monotonic() + seconds
    while not _wait(process, min(ASKED_SECONDS, seconds) if stop else seconds):
        if stop is None or time.monotonic() >= until:
            return False
        if stop():
            raise Stopped("it was to stop")
    return process.poll() is not None


def _wait(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Whether it has ended. The kernel says so at once: who asks again and again is late.

    It is not buried yet: until then its group is nobody else's.
    """
    with suppress(OSError):
        ended = os.pidfd_open(process.pid)
        try:
            waiting = select.poll()
            waiting.register(ended, select.POLLIN)
            return bool(waiting.poll(seconds * 1000))
        finally:
            os.close(ended)
    with suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    return process.returncode is not None


def _said(file: IO[bytes]) -> str:
    file.seek(0)
    return _text(file.read())


def _text(said: bytes) -> str:
    """Every byte as it is: not even a line break of another system is turned into ours."""
    return said.decode("utf-8", "surrogateescape")
