#!/usr/bin/python3 -IS
"""Builds one version of a bundle, and makes it visible when it is whole.

Managed by gpuaas; what is changed here is put back. `stage build FOLDER` is run by an account that
may write to the tree and to a few folders beside it alone: there it makes an environment under the
name that it will have, from wheels whose hashes were agreed, and tries what it can import. When
nothing of that runs any more, `stage seal FOLDER` is root's: it takes the tree over, writes down
what is in it, and puts it in its place by one rename. Nobody has ever seen a part of it.
"""

import ast
import ctypes
import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import time
from contextlib import suppress
from typing import Any

LEAST_MIB, LEAST_FILES = 64, 2000
KEPT_LINES, WORDS_BYTES = 20, 4096
MANIFEST = ".gpuaas/manifest.json"
MAX_MANIFEST = 64 * 1024 * 1024
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
RENAME_EXCHANGE = 2
OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
ACCESS_LISTS = ("system.posix_acl_access", "system.posix_acl_default")
PIP_PLACES = ("index-url", "extra-index-url", "find-links")
PIP_WAYS = ("proxy", "cert", "client-cert", "trusted-host", "timeout", "retries")
PIP_LISTS = ("extra-index-url", "find-links", "trusted-host")
COMPILE = """
import compileall, multiprocessing, sys
multiprocessing.set_start_method("spawn")
sys.exit(not compileall.main())
"""
"""By as many processes as there are processors, which need no socket to find each other."""

OCTAL = re.compile(r"\\([0-7]{3})")
LIBC = ctypes.CDLL(None, use_errno=True)


class Failure(Exception):
    """Why it did not come about, with a stable code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Job:
    """`folder` is where it works; `place` is the name that its tree has in there already.

    What is asked stands in a file of root's, and each work has a folder for its own words: who
    builds can change neither what is sealed and where, nor what root says of it.
    """

    def __init__(self, work: str, folder: str) -> None:
        self.folder = folder
        self.words = os.path.join(folder, work)
        with open(self.at("job.json"), encoding="utf-8") as file:
            self.asked: dict[str, Any] = json.load(file)
        self.place: str = self.asked["place"]
        self.tree = self.at(f"trees/{self.asked['bundle']}/{self.asked['version']}")

    def at(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def say(self, name: str, **told: str) -> None:
        """Whole or not at all."""
        fresh = os.path.join(self.words, f".{name}.new")
        with open(fresh, "w", encoding="utf-8") as file:
            json.dump(told, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, os.path.join(self.words, f"{name}.json"))

    def make_room(self) -> None:
        """For why it fails, which is to be said when there is none."""
        with open(os.path.join(self.words, "failed.json"), "wb") as file:
            file.write(b" " * WORDS_BYTES)

    def fail(self, failure: Failure) -> None:
        """In room that is there already."""
        told = json.dumps({"code": failure.code, "message": failure.message[:300]})
        place = os.open(os.path.join(self.words, "failed.json"), os.O_WRONLY | os.O_CREAT, 0o644)
        with open(place, "wb") as file:
            file.write(told.encode("ascii"))

    def begin(self, phase: str) -> None:
        self.say("phase", phase=phase)


def build(job: Job) -> None:
    job.begin("space")
    check_room(job)
    job.begin("environment")
    make_environment(job)
    job.begin("download")
    wheels = fetch(job)
    job.begin("install")
    words = ("--no-compile", "--no-index", "--find-links", wheels)
    pip(job, "install", *words)
    compile_all(job)
    job.begin("verify")
    verify(job)
    job.say("done")


def check_room(job: Job) -> None:
    """To begin with, as nobody says how much it takes. It is built where it stays."""
    room = os.statvfs(job.folder)
    free = room.f_bavail * room.f_frsize >> 20
    if free < LEAST_MIB:
        raise without_room(job, f"{free} MiB are free, {LEAST_MIB} are needed")
    if room.f_files and room.f_favail < LEAST_FILES:
        raise without_room(job, f"room for {room.f_favail} more files, {LEAST_FILES} are needed")


def without_room(job: Job, why: str) -> Failure:
    place = os.path.dirname(os.path.dirname(job.place))
    return Failure("runtime_without_room", f"the file system of {place}: {why}")


def make_environment(job: Job) -> None:
    python = f"/usr/bin/python{job.asked['python']}"
    if not os.access(python, os.X_OK):
        raise Failure("runtime_python_missing", f"{python} is not there: install it on the host")
    run(job, [python, "-I", "-m", "venv", "--symlinks", "--without-pip", job.place])
    # Not by venv, which keeps to itself what goes wrong.
    words = ("-I", "-m", "ensurepip", "--upgrade", "--default-pip")
    run(job, [os.path.join(job.place, "bin/python"), *words])


def fetch(job: Job) -> str:
    """A folder with the wheels, which are ours alone by then: pip looks at a hash and then at the

    wheel again, and whoever fills a mirror could change it in between.
    """
    index: str = job.asked["index"]
    if index.startswith("file://"):
        folder = index[len("file://") :]
        if not os.path.isdir(folder):
            raise Failure("runtime_wheel_missing", f"{folder} is not there on this host")
        whence: tuple[str, ...] = ("--no-index", "--find-links", folder)
    else:
        whence = (*settings_of_host(job, not index), *(("--index-url", index) if index else ()))
    pip(job, "download", "--dest", job.at("wheels"), *whence)
    return job.at("wheels")


def pip(job: Job, verb: str, *words: str) -> None:
    """By nobody's settings: it is told whatever it relies on."""
    python = os.path.join(job.place, "bin/python")
    ours = ("--no-input", "--no-cache-dir", "--no-deps", "--only-binary=:all:", "--require-hashes")
    lock = ("--requirement", job.at("lock.txt"))
    run(job, [python, "-I", "-m", "pip", verb, "--isolated", *ours, *words, *lock])


def settings_of_host(job: Job, with_places: bool) -> list[str]:
    """How pip gets out of this host, and where it looks unless that is said, from the host's own

    settings as pip tells them. What else stands there, as what to build from source, is left out.
    """
    python = os.path.join(job.place, "bin/python")
    found: dict[str, str] = {}
    listed = run(job, [python, "-I", "-m", "pip", "config", "list"], "").splitlines()
    for section in ("global", "download"):
        for line in listed:
            name, is_setting, value = line.partition("=")
            if is_setting and name.startswith(f"{section}."):
                with suppress(ValueError, SyntaxError):
                    found[name[len(section) + 1 :]] = str(ast.literal_eval(value))
    found.setdefault("timeout", found.pop("default-timeout", ""))
    words = []
    for name in (*PIP_WAYS, *(PIP_PLACES if with_places else ())):
        values = found.get(name, "").split() if name in PIP_LISTS else [found.get(name, "")]
        words += [f"--{name}={one}" for one in values if one]
    no_index = with_places and found.get("no-index", "").lower() in ("1", "true", "yes", "on")
    return [*words, *(("--no-index",) if no_index else ())]


def compile_all(job: Job) -> None:
    """Once and for all, as nobody can do so later; by no times, which are changed when sealed."""
    python = os.path.join(job.place, "bin/python")
    words = ("-q", "-f", "-j", "0", "--invalidation-mode", "unchecked-hash")
    try:
        run(job, [python, "-I", "-c", COMPILE, *words, os.path.join(job.place, "lib")])
    except Failure as failure:
        # Wheels bring files that are no Python, as examples: what matters is imported below.
        if failure.code != "runtime_install_failed":
            raise


def verify(job: Job) -> None:
    """By whoever this is, who may no more than a tenant; what only a GPU can show is not asked."""
    python = os.path.join(job.place, "bin/python")
    for name in job.asked["imports"]:
        try:
            run(job, [python, "-I", "-B", "-c", f"import {name}"])
        except Failure as failure:
            raise Failure("runtime_verify_failed", f"import {name}: {failure.message}") from failure


def run(job: Job, words: list[str], pip_settings: str = os.devnull) -> str:
    """What it says. Raises Failure in the words of the program, sorted by what they mean."""
    environment = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": job.at("tmp"),
        "TMPDIR": job.at("tmp"),
        "LC_ALL": "C.UTF-8",
        "PIP_CONFIG_FILE": pip_settings,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_ROOT_USER_ACTION": "ignore",
    }
    done = subprocess.run(
        words,
        env=environment,
        cwd=job.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    said = done.stdout.decode("utf-8", "replace")
    if done.returncode != 0:
        raise failure_of(job, done.returncode, said)
    return said


def failure_of(job: Job, status: int, said: str) -> Failure:
    lines = [line.strip() for line in said.splitlines() if line.strip()][-KEPT_LINES:]
    last = lines[-1] if lines else f"it ended with {status}"
    text = "\n".join(lines)
    if status < 0:
        return Failure("runtime_interrupted", f"ended by {signal.Signals(-status).name}")
    if any(word in text for word in ("No space left on device", "Errno 28", "Disk quota exceeded")):
        return without_room(job, "nothing is left of it")
    if "do not match the hashes" in text.lower():
        return Failure("runtime_hash_wrong", "a wheel is not the one that was agreed")
    if "No matching distribution" in text or "Could not find a version" in text:
        return Failure("runtime_wheel_missing", last)
    if "No module named ensurepip" in text or "No module named venv" in text:
        python = f"python{job.asked['python']}"
        return Failure("runtime_python_missing", f"{python} is not whole: install {python}-venv")
    return Failure("runtime_install_failed", last)


def seal(job: Job) -> None:
    """At most once: what is not at its end when this is cut short is built anew."""
    try:
        os.unlink(job.at("build/done.json"))
    except FileNotFoundError:
        raise Failure("runtime_interrupted", "it was not built to its end") from None
    job.begin("seal")
    refuse_other_current(job)
    # Of root's own words, which nobody could change who was in there.
    with open(os.path.join(job.tree, "activate.sh"), "x", encoding="utf-8") as file:
        file.write(job.asked["activate"])
    write_manifest(job, int(time.time()))
    sync(job.tree)
    put_in_place(job)
    flip_current(job)
    shutil.rmtree(job.folder)


def write_manifest(job: Job, moment: int) -> None:
    """What is in the tree from now on, all of it of one moment."""
    told = {
        **{key: job.asked[key] for key in ("bundle", "version", "lockDigest")},
        "moment": moment,
        "files": take_over(job.tree, moment),
    }
    text = json.dumps(told, sort_keys=True, separators=(",", ":"))
    if len(text) > MAX_MANIFEST:
        raise Failure("runtime_install_failed", "it has more files than a look compares")
    os.mkdir(os.path.join(job.tree, ".gpuaas"))
    with open(os.path.join(job.tree, MANIFEST), "w", encoding="utf-8") as file:
        file.write(text)
    for path in (MANIFEST, ".gpuaas", ""):
        os.utime(os.path.join(job.tree, path), (moment, moment))


def take_over(tree: str, moment: int) -> list[list[Any]]:
    """Everything is root's, readable by all, and nothing leads root elsewhere if somebody is still

    in there: it goes by open folders and files alone.
    """
    files: list[list[Any]] = []
    for folder, folders, names, at in os.fwalk(tree, onerror=_raise):
        own(at, 0o755, moment)
        for name in names + folders:
            path = os.path.join(folder, name)
            files.append([os.path.relpath(path, tree), *taken(path, at, moment)])
    return sorted(files)


def _raise(error: OSError) -> None:
    """What cannot be read cannot be told of either."""
    raise error


def taken(path: str, at: int, moment: int) -> list[Any]:
    """Sort, mode, size and content of one path, after it has become root's; folders come later."""
    name = os.path.basename(path)
    mode = os.stat(name, dir_fd=at, follow_symlinks=False).st_mode
    if stat.S_ISDIR(mode):
        return ["dir", 0o755, 0, ""]
    if stat.S_ISLNK(mode):
        os.chown(name, os.geteuid(), os.getegid(), dir_fd=at, follow_symlinks=False)
        os.utime(name, (moment, moment), dir_fd=at, follow_symlinks=False)
        return ["link", 0, 0, os.readlink(name, dir_fd=at)]
    with open(os.open(name, OPEN_FILE, dir_fd=at), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
            raise Failure("runtime_install_failed", f"{path} is no plain file")
        mode = 0o755 if found.st_mode & 0o100 else 0o644
        own(file.fileno(), mode, moment)
        refuse_writers(file.fileno(), path)
        digest = hashlib.sha256()
        for chunk in iter(lambda: file.read(1 << 20), b""):
            digest.update(chunk)
        return ["file", mode, found.st_size, digest.hexdigest()]


def refuse_writers(file: int, path: str) -> None:
    """Whoever has it open could write to what is sealed, and may be somebody to whom it was passed.

    The kernel gives such a lease on what nobody has open, mapped or on its way to be written to.
    """
    try:
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError as error:
        why = "somebody has it open to write to it"
        if error.errno != errno.EAGAIN:
            why = f"nobody can say who has it open on its file system ({error.strerror})"
        raise Failure("runtime_install_failed", f"{path}: {why}") from error


def own(place: int, mode: int, moment: int) -> None:
    """Of an open file or folder. What a list lets others do is no mode, and would be inherited."""
    for name in ACCESS_LISTS:
        with suppress(OSError):
            os.removexattr(place, name)
    os.fchown(place, os.geteuid(), os.getegid())
    os.fchmod(place, mode)
    os.utime(place, (moment, moment))


def put_in_place(job: Job) -> None:
    """What it takes the place of, if anything, is beside the job's other rest from then on."""
    folder = os.path.dirname(job.place)
    os.makedirs(folder, exist_ok=True)
    if os.path.lexists(job.place):
        refuse_mounts(job.place)
        exchange(job.tree, job.place)
    else:
        os.rename(job.tree, job.place)
    sync(folder)


def refuse_mounts(place: str) -> None:
    """What is mounted in there is somebody's. The kernel tells blanks in names as octal."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as table:
        points = [OCTAL.sub(lambda one: chr(int(one[1], 8)), line.split(" ")[4]) for line in table]
    for point in points:
        if f"{point}/".startswith(f"{place}/"):
            raise Failure("runtime_layout_broken", f"something is mounted at {point}")


def sync(folder: str) -> None:
    """All of its file system: a power cut afterwards takes nothing of it away."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        if LIBC.syncfs(descriptor) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), folder)
    finally:
        os.close(descriptor)


def exchange(one: str, other: str) -> None:
    """At no moment is neither there; on a file system that cannot do so, for a moment only."""
    cwd, names = -100, (os.fsencode(one), os.fsencode(other))
    with suppress(AttributeError):
        if LIBC.renameat2(cwd, names[0], cwd, names[1], RENAME_EXCHANGE) == 0:
            return
        if ctypes.get_errno() not in (errno.EINVAL, errno.ENOSYS):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), other)
    os.rename(other, f"{one}.old")
    os.rename(one, other)


def refuse_other_current(job: Job) -> None:
    link = os.path.join(os.path.dirname(job.place), "current")
    if os.path.lexists(link) and not os.path.islink(link):
        raise Failure("runtime_layout_broken", f"{link} is no link: move it away")


def flip_current(job: Job) -> None:
    """The host's default; nobody's work depends on it."""
    version: str = job.asked["current"]
    if version != job.asked["version"]:
        return
    folder = os.path.dirname(job.place)
    # A name of its own, as another version may be at the same point.
    fresh = os.path.join(folder, f".current.{version}")
    with suppress(FileNotFoundError):
        os.unlink(fresh)
    os.symlink(version, fresh)
    os.replace(fresh, os.path.join(folder, "current"))


def give_up(job: Job, failure: Failure) -> None:
    """What was made goes: it is of no use, and may be what the disk had room for."""
    for folder in (job.tree, job.at("tmp"), job.at("wheels")):
        with suppress(OSError):
            for entry in list(os.scandir(folder)):
                if entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry.path, ignore_errors=True)
                else:
                    os.unlink(entry.path)
    job.fail(failure)
    sys.exit(1)


WORKS = {"build": build, "seal": seal}


def main() -> None:
    os.umask(0o022)
    work, folder = sys.argv[1:]
    job = Job(work, folder)
    alive = os.open(job.at("alive"), os.O_RDONLY)
    fcntl.flock(alive, fcntl.LOCK_EX)
    try:
        job.make_room()
        WORKS[work](job)
    except Failure as failure:
        give_up(job, failure)
    except OSError as error:
        broken = Failure("runtime_install_failed", f"{error.filename}: {error.strerror}")
        full = without_room(job, "nothing is left of it")
        give_up(job, full if error.errno in NO_ROOM else broken)


if __name__ == "__main__":
    main()
