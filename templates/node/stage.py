#!/usr/bin/python3 -IS
"""Builds one version of a bundle, and makes it visible when it is whole.

Managed by gpuaas; what is changed here is put back. `stage build FOLDER` is run by an account that
may write to the tree and to a few folders beside it alone: there it makes an environment under the
name that it will have, from wheels whose hashes were agreed, and tries what it can import. When
nothing of that runs any more, `stage seal FOLDER` is root's: it takes the tree over, writes down
what is in it, and renames it into its place, where nobody has ever seen a part of it.
"""

import fcntl
import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
from contextlib import suppress

PHASES = ("space", "environment", "download", "install", "verify", "seal")
LEAST_MIB, LEAST_FILES = 64, 2000
KEPT_LINES = 20
MANIFEST = ".gpuaas/manifest.json"


class Failure(Exception):
    """Why it did not come about, with a stable code."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code
        self.message = message


class Job:
    """`folder` is where it works; `final` is the name that its tree has in there already.

    What is asked stands in a file of root's: who builds cannot change what is sealed, or where.
    """

    def __init__(self, folder):
        self.folder = folder
        with open(os.path.join(folder, "job.json"), encoding="utf-8") as file:
            self.asked = json.load(file)
        self.final = self.asked["final"]
        self.tree = os.path.join(folder, "trees", self.asked["bundle"], self.asked["version"])

    def at(self, name):
        return os.path.join(self.folder, name)

    def say(self, name, told):
        """Whole or not at all."""
        fresh = self.at(f"state/.{name}.new")
        with open(fresh, "w", encoding="utf-8") as file:
            json.dump(told, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, self.at(f"state/{name}"))

    def begin(self, phase):
        self.say("phase.json", {"phase": phase})


def build(job):
    job.begin("space")
    check_room(job)
    job.begin("environment")
    make_environment(job)
    job.begin("download")
    source = ["--no-index", "--find-links", fetch(job)]
    job.begin("install")
    words = ("install", "--no-compile", "--no-deps", "--only-binary=:all:", "--require-hashes")
    pip(job, *words, *source, *lock(job))
    compile_all(job)
    job.begin("verify")
    verify(job)
    with open(os.path.join(job.final, "activate.sh"), "w", encoding="utf-8") as file:
        file.write(job.asked["activate"])
    job.say("built.json", {"built": True})


def check_room(job):
    """Where it is built is where it stays, so this is the only file system that counts."""
    room = os.statvfs(job.folder)
    free, wanted = room.f_bavail * room.f_frsize >> 20, max(job.asked["needMiB"], LEAST_MIB)
    if free < wanted:
        raise without_room(job, f"{free} MiB are free, {wanted} are needed")
    if room.f_files and room.f_favail < LEAST_FILES:
        raise without_room(job, f"room for {room.f_favail} files")


def without_room(job, why):
    place = os.path.dirname(os.path.dirname(job.asked["place"]))
    return Failure("runtime_without_room", f"the file system of {place}: {why}")


def make_environment(job):
    python = f"/usr/bin/python{job.asked['python']}"
    if not os.access(python, os.X_OK):
        raise Failure("runtime_python_missing", f"{python} is not there: install it on the host")
    try:
        run(job, [python, "-I", "-m", "venv", "--symlinks", job.final])
    except Failure as failure:
        if "ensurepip" in failure.message:
            message = f"{python} has no ensurepip: install python{job.asked['python']}-venv"
            raise Failure("runtime_python_missing", message) from failure
        raise


def fetch(job):
    """A folder with the wheels: the mirror itself, or what its index gave."""
    index = job.asked["index"]
    if index.startswith("file://"):
        folder = index[len("file://") :]
        if not os.path.isdir(folder):
            raise Failure("runtime_wheel_missing", f"{folder} is not there on this host")
        return folder
    where = ["--index-url", index] if index else []
    words = ("download", "--no-deps", "--only-binary=:all:", "--require-hashes", "--dest")
    pip(job, *words, job.at("wheels"), *where, *lock(job))
    return job.at("wheels")


def lock(job):
    return ["--requirement", job.at("lock.txt")]


def pip(job, verb, *words):
    python = os.path.join(job.final, "bin/python")
    run(job, [python, "-I", "-m", "pip", verb, "--no-input", "--no-cache-dir", *words])


def compile_all(job):
    """Once and for all, as nobody can do so later; by no times, which are changed when sealed."""
    python = os.path.join(job.final, "bin/python")
    words = ("-q", "-f", "-j", "0", "--invalidation-mode", "unchecked-hash")
    with suppress(Failure):
        # Wheels bring files that are no Python, as examples: what matters is imported below.
        run(job, [python, "-I", "-m", "compileall", *words, os.path.join(job.final, "lib")])


def verify(job):
    """By whoever this is, who may no more than a tenant; what only a GPU can show is not asked."""
    python = os.path.join(job.final, "bin/python")
    for name in job.asked["imports"]:
        try:
            run(job, [python, "-I", "-B", "-c", f"import importlib; importlib.import_module({name!r})"])
        except Failure as failure:
            raise Failure("runtime_verify_failed", f"import {name}: {failure.message}") from failure


def run(job, words):
    """Raises Failure in the words of the program, sorted by what they mean."""
    environment = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": job.at("tmp"),
        "TMPDIR": job.at("tmp"),
        "LC_ALL": "C.UTF-8",
        "PIP_CONFIG_FILE": os.devnull,
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
    if done.returncode == 0:
        return
    said = done.stdout.decode("utf-8", "replace").strip().splitlines()[-KEPT_LINES:]
    text = "\n".join(said)
    last = next((one.strip() for one in reversed(said) if one.strip()), str(done.returncode))
    if "No space left on device" in text or "Errno 28" in text or "Disk quota" in text:
        raise without_room(job, "no space left")
    if "DO NOT MATCH THE HASHES" in text or "do not match the hashes" in text:
        raise Failure("runtime_hash_wrong", "a wheel is not the one that was agreed")
    if "No matching distribution" in text or "Could not find a version" in text:
        raise Failure("runtime_wheel_missing", last)
    raise Failure("runtime_install_failed", last)


def seal(job):
    if not os.path.exists(job.at("state/built.json")):
        raise Failure("runtime_interrupted", "it was not built to its end")
    job.begin("seal")
    moment = int(os.stat(job.at("state/built.json")).st_mtime)
    files = take_over(job.tree, moment)
    told = {
        **{key: job.asked[key] for key in ("bundle", "version", "lockDigest")},
        "moment": moment,
        "files": files,
    }
    text = json.dumps(told, sort_keys=True, separators=(",", ":"))
    os.makedirs(os.path.join(job.tree, ".gpuaas"), mode=0o755)
    with open(os.path.join(job.tree, MANIFEST), "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(os.path.join(job.tree, MANIFEST), 0o644)
    for path in (MANIFEST, ".gpuaas", ""):
        os.utime(os.path.join(job.tree, path), (moment, moment))
    os.sync()
    put_in_place(job)
    flip_current(job)
    shutil.rmtree(job.folder)


def take_over(tree, moment):
    """Everything is root's, readable by all, writable by nobody else, and of one moment."""
    files = []
    for folder, folders, names in os.walk(tree, topdown=False):
        for name in sorted(names) + sorted(folders):
            path = os.path.join(folder, name)
            files.append([os.path.relpath(path, tree), *taken(path, moment)])
    taken(tree, moment)
    return sorted(files)


def taken(path, moment):
    """Sort, mode, size and digest of one file, after it has become root's."""
    before = os.lstat(path)
    os.chown(path, os.geteuid(), os.getegid(), follow_symlinks=False)
    if stat.S_ISLNK(before.st_mode):
        os.utime(path, (moment, moment), follow_symlinks=False)
        return ["link", 0, 0, os.readlink(path)]
    if stat.S_ISDIR(before.st_mode):
        os.chmod(path, 0o755)
        os.utime(path, (moment, moment))
        return ["dir", 0o755, 0, ""]
    if not stat.S_ISREG(before.st_mode) or before.st_nlink != 1:
        raise Failure("runtime_install_failed", f"{path} is no plain file")
    mode = 0o755 if before.st_mode & 0o100 else 0o644
    os.chmod(path, mode)
    with open(path, "rb") as file:
        digest = hashlib.sha256()
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    os.utime(path, (moment, moment))
    return ["file", mode, before.st_size, digest.hexdigest()]


def put_in_place(job):
    """By one rename; what it takes the place of, if anything, goes afterwards."""
    place = job.asked["place"]
    os.makedirs(os.path.dirname(place), mode=0o755, exist_ok=True)
    old = job.at("old")
    with suppress(FileNotFoundError):
        os.rename(place, old)
    os.rename(job.tree, place)
    descriptor = os.open(os.path.dirname(place), os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def flip_current(job):
    """The host's default; nobody's work depends on it."""
    if job.asked["current"] != job.asked["version"]:
        return
    link = os.path.join(os.path.dirname(job.asked["place"]), "current")
    if os.path.lexists(link) and not os.path.islink(link):
        raise Failure("runtime_layout_broken", f"{link} is no link")
    fresh = f"{link}.gpuaas-new"
    with suppress(FileNotFoundError):
        os.unlink(fresh)
    os.symlink(job.asked["version"], fresh)
    os.replace(fresh, link)


def main():
    os.umask(0o022)
    work, folder = sys.argv[1:]
    job = Job(folder)
    alive = os.open(job.at("state/alive"), os.O_RDONLY)
    fcntl.flock(alive, fcntl.LOCK_EX)
    try:
        {"build": build, "seal": seal}[work](job)
    except Failure as failure:
        job.say("failed.json", {"code": failure.code, "message": failure.message[:300]})
        sys.exit(1)
    except OSError as error:
        code = "runtime_without_room" if error.errno in (28, 122) else "runtime_install_failed"
        with suppress(OSError):
            job.say("failed.json", {"code": code, "message": str(error)[:300]})
        sys.exit(1)


if __name__ == "__main__":
    main()
