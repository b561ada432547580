"""Runtimes on a host: what is told of them, and what becomes of them without a build."""

from __future__ import annotations

import json
import mmap
import os
import shutil
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from gpuaas import discard_runtime
from gpuaas.converge import converge
from gpuaas.runtime_builds import STARTING_SECONDS
from gpuaas.runtimes import MANIFEST, MAX_MANIFEST

from tests import privileges
from tests.bundles import hello
from tests.harness.directory_host import ENVIRONMENT, ID, LOGIN, tree
from tests.host_code.runtime_host import Ground, stage

SITE = "lib/gpuaas_hello.py"
GOOD = "a==1 --hash=sha256:" + 64 * "a" + "\n"


@pytest.fixture
def ground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ground:
    """Of a busy machine's disks nobody waits for here."""
    monkeypatch.setattr(stage, "sync", os.stat)
    return Ground.laid(tmp_path)


def kept(path: Path, change: Callable[[], object]) -> None:
    """Changed so that its time does not tell."""
    before = path.lstat()
    change()
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_what_is_sealed_is_whole_readable_by_all_and_nobodys_to_change(ground: Ground) -> None:
    """BND-04: no write bit but root's, one moment, and the default is this one."""
    ground.seal(current="1.0")
    assert ground.shown().startswith("staged sha256:")
    assert ground.facts()["current hello"] == "1.0"
    paths = [ground.tree(), *ground.tree().rglob("*")]
    assert not [path for path in paths if not path.is_symlink() and path.stat().st_mode & 0o022]
    assert len({int(path.lstat().st_mtime) for path in paths}) == 1
    assert ground.greeting() == "hello 1.0\n"
    assert ground.stray() == set()


CHANGES: dict[str, Callable[[Path], object]] = {
    f"changed 1: {SITE}": lambda tree: (tree / SITE).write_text("VERSION = '9.9'\n"),
    "changed 2: lib": lambda tree: (os.unlink(tree / SITE), os.rmdir(tree / "lib")),
    "changed 1: bin/gpuaas-hello": lambda tree: (tree / "bin/gpuaas-hello").chmod(0o777),
    "changed 1: bin/python": lambda tree: (
        os.unlink(tree / "bin/python"),
        os.symlink("/tmp/python", tree / "bin/python"),
    ),
    "changed 1: lib/stranger": lambda tree: (tree / "lib/stranger").mkdir(),
    "changed 1: .gpuaas/stranger": lambda tree: (tree / ".gpuaas/stranger").write_text(""),
    "changed 1: .": lambda tree: tree.chmod(0o777),
    "changed 1: .gpuaas/manifest.json": lambda tree: (tree / stage.MANIFEST).chmod(0o666),
    "changed 1: no manifest": lambda tree: (tree / stage.MANIFEST).unlink(),
}


@pytest.mark.parametrize("told", CHANGES)
def test_whatever_is_changed_is_told(ground: Ground, told: str) -> None:
    """BND-28: by a look at names, sizes, modes and times."""
    ground.seal()
    CHANGES[told](ground.tree())
    assert ground.shown() == told


@pytest.mark.parametrize("manifest", ["", "[]", "{}", '{"files": 1, "moment": 1, "lockDigest": 1}'])
def test_a_manifest_that_tells_nothing_is_none(ground: Ground, manifest: str) -> None:
    """F-BUN-01: a folder that is there is no version that is there."""
    ground.seal()
    (ground.tree() / stage.MANIFEST).write_text(manifest)
    assert ground.shown() == "changed 1: no manifest"


def test_a_folder_that_was_never_sealed_is_somebody_elses(ground: Ground) -> None:
    """F-BUN-01: not "already installed", not built over, not repaired away."""
    ground.tree().mkdir(parents=True)
    (ground.tree() / "work").write_text("dear to somebody")
    before = tree(ground.root)
    assert ground.shown() == "changed 1: no manifest"
    for verb in ("runtime.stage", "runtime.repair"):
        assert ground.do(verb).code == "runtime_layout_broken"
    assert tree(ground.root) == before


def test_a_version_is_never_made_from_other_requirements(ground: Ground) -> None:
    ground.seal(lockDigest="sha256:other")
    assert ground.do("runtime.stage").code == "runtime_changed"


@pytest.mark.parametrize(
    ("bundle", "version"),
    [
        ("hello", "current"),
        ("hello", "Current"),
        ("hello", "."),
        ("hello", ".."),
        ("hello", "1/2"),
        ("hello", ".staging"),
        ("hello", "1 2"),
        ("../hello", "1.0"),
        ("Hello", "1.0"),
        ("", "1.0"),
    ],
)
def test_names_that_are_no_folders_of_ours_are_refused_here_too(
    ground: Ground, bundle: str, version: str
) -> None:
    """F-BUN-06."""
    item = {**ground.item(), "bundle": bundle, "version": version}
    for verb in ("runtime.stage", "runtime.repair"):
        assert ground.do(verb, item).code == "item_invalid"
    item = {"bundle": bundle, "version": version, "withDefault": False}
    assert ground.do("runtime.discard", item).code == "item_invalid"
    assert not (ground.root / "opt").exists()


@pytest.mark.parametrize(
    "lock",
    [
        "a==1\n",
        "a>=1 --hash=sha256:" + 64 * "a" + "\n",
        "a==1 --hash=md5:" + 32 * "a" + "\n",
        "a @ https://other.example/a.whl --hash=sha256:" + 64 * "a" + "\n",
        "--extra-index-url https://other.example\n" + GOOD,
        GOOD + "--no-binary :all:\n",
        GOOD + "-e .\n",
        GOOD + "-r \\\n/etc/shadow\n",
        GOOD + "./a-1.whl\n",
        GOOD.replace("a==1", "a==${HOME}"),
        GOOD + "\x0b--pre\n",
        GOOD + "# why \\\n--pre\n",
        GOOD + "# why\u2028--pre\n",
        GOOD.replace("\n", "\r\n"),
        GOOD.replace(" ", "  "),
        GOOD.rstrip("\n"),
        GOOD.replace("a==1", "a==1+x.zip"),
        GOOD.replace("a==1", 'a==1 ; os_name == "x -y"'),
    ],
)
def test_a_lock_names_wheels_by_hash_and_is_no_options(ground: Ground, lock: str) -> None:
    """BND-20: pip takes an index, a source or a build from a line of it."""
    item = {**ground.item(lock=lock), "lockDigest": hello.digest(lock)}
    assert ground.do("runtime.stage", item).code == "item_invalid"


def test_locks_as_we_write_them_are_taken(ground: Ground) -> None:
    lock = (
        f'torch==2.13.0+cpu ; python_version not in "3.0, 3.1" and sys_platform == "linux"'
        f" --hash=sha256:{64 * 'a'} --hash=sha256:{64 * 'b'}\n"
        f"jupyter-lsp[all]==1!2.0.post1 --hash=sha256:{64 * 'c'}\n"
    )
    item = {**ground.item(lock=lock), "lockDigest": hello.digest("as somebody agreed to it")}
    assert ground.do("runtime.stage", item, dry=True).code == ""


@pytest.mark.parametrize(
    "changes",
    [
        {"lockDigest": "sha256:other"},
        {"python": "3.11/../../tmp/x"},
        {"python": "2.7"},
        {"imports": ["os; import antigravity"]},
        {"imports": ["a..b"]},
        {"index": "--pre"},
        {"index": "ftp://mirror"},
        {"index": "file://relative"},
    ],
)
def test_an_item_is_judged_here_again(ground: Ground, changes: dict[str, Any]) -> None:
    assert ground.do("runtime.stage", ground.item(**changes)).code == "item_invalid"


def begun(ground: Ground, **words: str) -> Path:
    """A job as it lies there long after somebody began with it."""
    job = ground.job()
    for folder in ("build", "seal"):
        (job / folder).mkdir(parents=True)
    (job / "alive").write_text("")
    (job / "job.json").write_text('{"bundle": "hello", "version": "1.0"}')
    for name, text in words.items():
        (job / f"{name.replace('_', '/')}.json").write_text(text)
    past = job.stat().st_mtime - 2 * STARTING_SECONDS
    for path in job.rglob("*"):
        os.utime(path, (past, past))
    return job


PHASE, FAILED = '{"phase": "install"}', '{"code": "runtime_hash_wrong", "message": "no\\nwheel"}'


@pytest.mark.parametrize(
    ("words", "fresh", "told"),
    [
        ({}, ["job"], "staging space"),
        ({"build_phase": PHASE}, ["job"], "failed runtime_interrupted: it ended during install"),
        ({"build_phase": PHASE, "build_done": "{}"}, ["build/done"], "staging install"),
    ],
)
def test_who_has_begun_and_ended_is_not_waited_for(
    ground: Ground, words: dict[str, str], fresh: list[str], told: str
) -> None:
    """F-BUN-01: a host that starts anew within seconds has the job still, and nobody at it."""
    job = begun(ground, **words)
    for name in fresh:
        os.utime(job / f"{name}.json")
    assert ground.shown() == told


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ({}, "failed runtime_interrupted: it ended during space"),
        ({"build_phase": PHASE}, "failed runtime_interrupted: it ended during install"),
        ({"build_phase": PHASE[:9]}, "failed runtime_interrupted: it ended during space"),
        (
            {"build_phase": PHASE, "seal_phase": '{"phase": "seal"}'},
            "failed runtime_interrupted: it ended during seal",
        ),
        ({"build_failed": FAILED}, "failed runtime_hash_wrong: no\\nwheel"),
        ({"build_failed": FAILED[:20]}, "failed runtime_interrupted: it ended during space"),
        ({"build_failed": '"none"'}, "failed runtime_interrupted: it ended during space"),
    ],
)
def test_of_a_job_its_own_words_tell_no_more_than_why(
    ground: Ground, words: dict[str, str], told: str
) -> None:
    """F-ANS-13: half a word is none; nobody at work and nothing there is a build that was cut."""
    begun(ground, **words)
    assert ground.shown() == told


@pytest.mark.parametrize("words", [{}, {"build_phase": PHASE}, {"build_phase": "{"}])
def test_whoever_is_at_work_has_it_locked_whatever_else_is_gone(
    ground: Ground, words: dict[str, str]
) -> None:
    """F-ANS-13: not called failed, not begun again, not discarded."""
    job = begun(ground, **words)
    with (job / "alive").open() as file:
        stage.fcntl.flock(file, stage.fcntl.LOCK_EX)
        assert (
            ground.shown() == f"staging {'install' if words == {'build_phase': PHASE} else 'space'}"
        )
        begun_again = ground.do("runtime.stage")
        assert (begun_again.code, begun_again.changed) == ("", False)
        assert discarded(ground).code == "runtime_in_use"
        (job / "job.json").write_text('{"bundle"')
        assert not ground.do("runtime.stage").changed
        assert job.exists()


ODD_WORDS = {
    "nested": b"[" * 200_000,
    "half a character": b'{"code": "\\ud800", "message": "\\udfff"}',
    "no text": b"\xff\xfe{",
    "a number": b'{"code": ' + b"1" * 5000 + b"}",
    "a fifo that somebody writes to": None,
}


@pytest.mark.parametrize("kind", ODD_WORDS)
def test_a_look_survives_whatever_a_builder_says(ground: Ground, kind: str) -> None:
    """BND-20: what one wheel writes hides no other version, and no host."""
    ground.seal("2.0")
    place, words = begun(ground) / "build/failed.json", ODD_WORDS[kind]
    writer = None
    if words is None:
        os.mkfifo(place)
        writer = os.open(place, os.O_RDWR)
    else:
        place.write_bytes(words)
    assert ground.shown().startswith("failed ") and ground.shown().isprintable()
    assert ground.shown("2.0").startswith("staged")
    if writer is not None:
        os.close(writer)


@pytest.mark.parametrize("kind", ["link", "fifo"])
def test_words_that_lead_elsewhere_are_not_followed(ground: Ground, kind: str) -> None:
    """BND-20: the builder may put there what it likes; whoever looks is root."""
    job = begun(ground)
    if kind == "link":
        (ground.root / "secret").write_text(FAILED)
        (job / "build/failed.json").symlink_to(ground.root / "secret")
    else:
        os.mkfifo(job / "build/failed.json")
    assert ground.shown() == "failed runtime_interrupted: it ended during space"


@pytest.mark.parametrize("kind", ["hard link", "fifo", "manifest"])
def test_nothing_odd_is_taken_over(ground: Ground, kind: str) -> None:
    """BND-20: what a builder has left may be a way to somebody else's file."""
    (ground.root / "other").write_text("of somebody else")
    (ground.root / "other").chmod(0o600)
    made = ground.job() / "trees/hello/1.0"
    made.mkdir(parents=True)
    if kind == "hard link":
        os.link(ground.root / "other", made / "odd")
    elif kind == "fifo":
        os.mkfifo(made / "odd")
    else:
        (made / ".gpuaas").symlink_to(ground.root)
    with pytest.raises((stage.Failure, FileExistsError)):
        ground.seal()
    assert (ground.root / "other").stat().st_mode & 0o777 == 0o600
    assert not ground.tree().exists()
    assert ground.do("runtime.stage", dry=True).code == ""


@pytest.mark.parametrize("how", ["open", "mapped", "on its way"])
def test_what_somebody_can_write_to_is_not_sealed(ground: Ground, how: str) -> None:
    """BND-20: an owner and a mode take nothing from whoever was handed it open before."""
    made = ground.job() / "trees/hello/1.0"
    made.mkdir(parents=True)
    (made / "code.py").write_text("GOOD = 1\n")
    with ExitStack() as kept:
        file = kept.enter_context((made / "code.py").open("r+b"))
        if how == "mapped":
            kept.enter_context(mmap.mmap(file.fileno(), 0))
        elif how == "on its way":
            ends = [kept.enter_context(end) for end in socket.socketpair()]
            socket.send_fds(ends[0], [b"x"], [file.fileno()])
        if how != "open":
            file.close()
        with pytest.raises(stage.Failure, match="somebody has it open"):
            ground.seal()
    assert not ground.tree().exists()


def test_what_no_look_could_compare_is_not_sealed(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """BND-20, F-BUN-07: it would stand as changed, and be built anew by every apply."""
    assert stage.MAX_MANIFEST == MAX_MANIFEST
    ground.seal("2.0")
    monkeypatch.setattr(stage, "MAX_MANIFEST", (ground.tree("2.0") / MANIFEST).stat().st_size - 1)
    with pytest.raises(stage.Failure, match="more files"):
        ground.seal()
    assert not ground.tree().exists()


def test_whoever_is_still_in_there_leads_root_nowhere_else(ground: Ground) -> None:
    """BND-20: a file that becomes a link while it is taken over."""
    secret, made, new = (ground.root / name for name in ("secret", "made", "new"))
    secret.write_text("")
    secret.chmod(0o600)
    (made / "inside").mkdir(parents=True)
    stop = threading.Event()

    def change() -> None:
        while not stop.is_set():
            new.write_text("")
            new.replace(made / "odd")
            new.symlink_to(secret)
            new.replace(made / "odd")

    other = threading.Thread(target=change)
    other.start()
    for _ in range(1500):
        with suppress(stage.Failure, OSError):
            stage.take_over(str(made), 1)
    stop.set()
    other.join()
    status = secret.stat()
    assert status.st_mode & 0o777 == 0o600 and status.st_mtime != 1


def test_what_root_adds_is_its_own(ground: Ground) -> None:
    """BND-05, BND-20: no list of a builder's lets others write to it, no text stands for it."""
    made = ground.job() / "trees/hello/1.0"
    made.mkdir(parents=True)
    anybody = struct.pack("<I" + 3 * "HHI", 2, 1, 7, 2**32 - 1, 4, 7, 2**32 - 1, 32, 7, 2**32 - 1)
    os.setxattr(made, "system.posix_acl_default", anybody)
    ground.seal()
    assert ground.shown().startswith("staged")
    assert (ground.tree() / "activate.sh").read_text() == ground.item()["activate"]
    assert os.listxattr(ground.tree()) == []
    made = ground.job("2.0") / "trees/hello/2.0"
    made.mkdir(parents=True)
    (made / "activate.sh").symlink_to(ground.root / "other")
    with pytest.raises(FileExistsError):
        ground.seal("2.0")
    assert not (ground.root / "other").exists() and not ground.tree("2.0").exists()


def test_a_folder_in_the_way_of_the_default_is_told_before_anything_is_built(
    ground: Ground,
) -> None:
    """F-BUN-05: and nothing lands inside of it."""
    ground.current.mkdir(parents=True)
    for verb in ("runtime.stage", "runtime.repair"):
        refused = ground.do(verb, ground.item(current="1.0"))
        assert refused.code == "runtime_layout_broken" and "/current" in refused.message
    with pytest.raises(stage.Failure, match="is no link"):
        ground.seal(current="1.0")
    assert (list(ground.current.iterdir()), ground.tree().exists()) == ([], False)


@pytest.fixture
def readings() -> Iterator[Callable[[Path], set[str]]]:
    """Begins to read a file over and over; afterwards what was read is there."""
    stop, threads = threading.Event(), []

    def begin(path: Path) -> set[str]:
        seen: set[str] = set()

        def read() -> None:
            while not stop.is_set():
                try:
                    seen.add(path.read_text())
                except OSError as error:
                    seen.add(str(error))

        threads.append(threading.Thread(target=read))
        threads[-1].start()
        return seen

    yield begin
    stop.set()
    for thread in threads:
        thread.join()


def test_a_reader_always_finds_a_default_and_never_a_mix(
    ground: Ground, readings: Callable[[Path], set[str]]
) -> None:
    """F-BUN-05: 200 switches, half of them by somebody else at the same time."""
    for version in hello.VERSIONS:
        ground.seal(version, current="1.0")
    texts = {(ground.tree(version) / "activate.sh").read_text() for version in hello.VERSIONS}
    seen = readings(ground.current / "activate.sh")
    items = {version: ground.item(version, current=version) for version in hello.VERSIONS}

    def sealed() -> None:
        job = ground.root / "job"
        job.mkdir()
        (job / "job.json").write_text(
            stage.json.dumps({**items["1.0"], "place": str(ground.tree())})
        )
        for _ in range(100):
            stage.flip_current(stage.Job("seal", str(job)))

    other = threading.Thread(target=sealed)
    other.start()
    for _ in range(100):
        assert ground.do("runtime.stage", items["2.0"]).code == ""
    other.join()
    assert seen <= texts and seen
    assert [path.name for path in ground.tree().parent.iterdir() if path.name[0] == "."] == []


def test_a_version_is_swapped_with_its_repair_at_once(
    ground: Ground, readings: Callable[[Path], set[str]]
) -> None:
    """F-BUN-05: there is no moment without it."""
    one, other = ground.root / "one", ground.root / "other"
    for folder in (one, other):
        folder.mkdir()
        (folder / "name").write_text(folder.name)
    seen = readings(other / "name")
    swaps = 0
    while swaps < 200 or (len(seen) < 2 and swaps < 100_000):
        stage.exchange(str(one), str(other))
        swaps += 1
    assert seen == {"one", "other"}


def test_a_repair_names_and_removes_what_is_not_ours(ground: Ground) -> None:
    """F-BUN-07, BND-16: nothing else is touched, and nothing is built for it."""
    ground.seal()
    (ground.tree() / "lib/theirs").mkdir()
    (ground.tree() / "lib/theirs/a.py").write_text("")
    (ground.tree() / "bin/link").symlink_to(ground.root)
    home = ground.root / "home/ana"
    home.mkdir(parents=True)
    (home / ".bashrc").write_text("mine")
    assert ground.shown() == "changed 3: bin/link"
    was = tree(ground.root)
    assert ground.do("runtime.repair", dry=True).changed
    assert tree(ground.root) == was
    repaired = ground.do("runtime.repair")
    assert repaired.evidence == {"removed": "bin/link, lib/theirs, lib/theirs/a.py"}
    assert (ground.shown()[:6], ground.stray()) == ("staged", set())
    assert (home / ".bashrc").read_text() == "mine"
    assert not ground.do("runtime.repair").changed


@contextmanager
def mounted(place: Path) -> Iterator[Path]:
    """Somebody's data, bound into a version."""
    data = place.parents[1] / "data"
    data.mkdir()
    (data / "dear").write_text("to somebody")
    place.mkdir()
    subprocess.run(["mount", "--bind", data, place], check=True)
    try:
        yield data
    finally:
        subprocess.run(["umount", place], check=True)


@pytest.mark.walk
@privileges.needs(privileges.mounts)
def test_nothing_is_removed_across_a_mount(ground: Ground) -> None:
    """F-BUN-07: not as a stranger's, not with what is put aside, not with what nobody uses."""
    ground.seal()
    with mounted(ground.tree() / "data b") as data:
        for _ in range(2):
            refused = ground.do("runtime.repair")
            assert (refused.code, refused.changed) == ("runtime_layout_broken", False)
            assert discarded(ground).code == "runtime_layout_broken"
            with pytest.raises(stage.Failure, match=r"mounted at .*/data b"):
                ground.seal()
            shutil.rmtree(ground.job())
            assert (data / "dear").exists() and ground.shown() == "changed 2: data b"
    (ground.tree() / "data b").rmdir()
    assert ground.shown().startswith("staged")


def test_a_repair_reads_what_a_look_does_not(ground: Ground) -> None:
    """BND-28: other content of the same size, with the time put back."""
    ground.seal()
    path = ground.tree() / SITE
    kept(path, lambda: path.write_text("VERSION = '9.9'\n"))
    assert ground.shown().startswith("staged")
    assert ground.do("runtime.repair", dry=True).changed


def test_a_repair_believes_no_manifest_but_the_recorded_one(ground: Ground) -> None:
    """BND-16: whoever is root can write one; all of it is built anew then."""
    ground.seal()
    digest = ground.shown().removeprefix("staged ")
    known = ground.item(digest=digest)
    assert not ground.do("runtime.repair", known, dry=True).changed
    other = ground.item(digest="sha256:" + "0" * 64)
    assert ground.do("runtime.repair", other, dry=True).changed


@pytest.mark.parametrize("words", [{}, {"build_failed": FAILED}])
def test_what_a_repair_was_to_replace_is_not_what_it_has_made(
    ground: Ground, words: dict[str, str]
) -> None:
    """F-BUN-01, BND-28: somebody else's tree stands, and the build of ours came to nothing."""
    ground.seal()
    theirs = ground.shown().removeprefix("staged ")
    job = begun(ground, **words)
    asked = {"bundle": "hello", "version": "1.0", "unwanted": theirs}
    (job / "job.json").write_text(json.dumps(asked))
    ground.forget_when()
    assert ground.shown().startswith("failed runtime_")
    assert ground.do("runtime.stage", ground.item("2.0"), dry=True).code == ""
    assert ground.shown().startswith("failed runtime_"), "it is no rest"
    assert ground.do("runtime.stage", dry=True).changed, "it is built anew"
    (job / "job.json").write_text(json.dumps({**asked, "unwanted": "sha256:other"}))
    ground.forget_when()
    assert ground.shown() == f"staged {theirs}"


def discarded(ground: Ground, version: str = "1.0", *, default: bool = False) -> Any:
    item = {"bundle": "hello", "version": version, "withDefault": default}
    return ground.do("runtime.discard", item)


def test_what_nobody_uses_or_names_is_gone(ground: Ground) -> None:
    for version in hello.VERSIONS:
        ground.seal(version, current="2.0")
    assert discarded(ground).changed
    assert ground.shown() == "" and ground.shown("2.0").startswith("staged")
    assert (ground.stray(), ground.tree().exists()) == (set(), False)
    assert not discarded(ground).changed


def test_the_default_stays(ground: Ground) -> None:
    ground.seal(current="1.0")
    assert "default" in discarded(ground).message
    assert ground.current.exists()


def test_each_version_is_done_by_itself(ground: Ground) -> None:
    """F-BUN-02, F-BUN-04: what somebody uses, or what is refused, keeps no other one in place."""
    for version in hello.VERSIONS:
        ground.seal(version, current="1.0")
    work = [
        ("runtime.discard", {"bundle": "hello", "version": "1.0", "withDefault": False}),
        ("runtime.stage", ground.item(python="none")),
        ("runtime.discard", {"bundle": "hello", "version": "2.0", "withDefault": False}),
    ]
    receipts = converge(
        str(ground.root),
        "",
        [{"step": "s", "verb": verb, "ref": "bundle/hello", "item": item} for verb, item in work],
    )
    assert [one["ok"] for one in receipts] == [False, False, True]
    assert ground.shown("2.0") == ""


def test_the_default_goes_with_the_last_of_its_bundle(ground: Ground) -> None:
    """F-BUN-04: unless somebody works in it, by whichever name; what was cut short goes on."""
    ground.seal(current="1.0")
    words = {"env": {"PATH": f"{ground.current}/bin"}, "executable": "/usr/bin/sleep"}
    with subprocess.Popen(["sleep", "60"], **words) as running:
        assert discarded(ground, default=True).code == "runtime_in_use"
        running.kill()
    assert ground.shown().startswith("staged") and ground.current.exists()
    assert discarded(ground, default=True).changed
    assert ground.facts() == {"runtime *": "listed", "current *": "listed"}
    ground.current.symlink_to("1.0")
    assert discarded(ground, default=True).changed
    assert not os.path.lexists(ground.current)
    ground.seal("2.0", current="2.0")
    assert not discarded(ground, default=True).changed
    assert os.readlink(ground.current) == "2.0"


@pytest.mark.parametrize(
    "line",
    ["GPUAAS_RUNTIMES=other@1.0,hello@1.0", "GPUAAS_RUNTIME=hello@1.0"],
)
def test_what_a_descriptor_names_stays(ground: Ground, line: str) -> None:
    """F-BUN-04: whatever anybody has recorded."""
    ground.seal()
    path = ground.root / ENVIRONMENT[1:]
    path.parent.mkdir(parents=True)
    path.write_text(f"# A comment\n{line}\n")
    refused = discarded(ground)
    assert refused.code == "runtime_in_use" and f"allocation {ID}" in refused.message
    path.write_text(line.replace("hello@1.0", "hello@1.0.1") + "\n")
    assert discarded(ground).changed


USES = {
    "by its environment": ("sleep", {"env": {"VIRTUAL_ENV": "{}", "PATH": "/usr/bin:/bin"}}),
    "by a path of its environment": ("sleep", {"env": {"PATH": "/usr/bin:{}/bin"}}),
    "by where it stands": ("sleep", {"cwd": "{}/lib"}),
    "by its name": ("{}/bin/python", {}),
    "by what it has open": ("sleep", {"stdin": "{}/lib/gpuaas_hello.py"}),
}


@pytest.mark.parametrize("how", USES)
def test_what_a_process_uses_stays(ground: Ground, how: str) -> None:
    """F-BUN-04: a long python has it, though its descriptor names another one by now."""
    ground.seal()
    place = str(ground.tree())
    program, options = USES[how]
    options = {k: filled(v, place) for k, v in options.items()}
    if "stdin" in options:
        options["stdin"] = os.open(options["stdin"], os.O_RDONLY)
    words = [program.format(place)]
    words += ["-c", "import time; time.sleep(60)"] if "python" in program else ["60"]
    with subprocess.Popen(words, **options) as running:
        refused = discarded(ground)
        running.kill()
    if "stdin" in options:
        os.close(options["stdin"])
    assert refused.code == "runtime_in_use" and f"process {running.pid}" in refused.message
    assert ground.shown().startswith("staged")
    assert discarded(ground).changed


@pytest.mark.walk
@privileges.needs(privileges.mounts)
def test_what_a_container_was_given_stays(ground: Ground) -> None:
    """F-BUN-04: it has it by another name, and nothing of it open."""
    ground.seal()
    script = 'mount --bind "$0" /mnt && echo there && exec sleep 60'
    words = ["unshare", "--mount", "sh", "-euc", script, str(ground.tree() / "lib")]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None and running.stdout.readline() == b"there\n"
        time.sleep(0.2)
        refused = discarded(ground)
        running.kill()
    assert refused.code == "runtime_in_use"
    assert f"process {running.pid} has it mounted at /mnt" in refused.message
    assert ground.shown().startswith("staged")
    assert discarded(ground).changed


def filled(value: Any, place: str) -> Any:
    if isinstance(value, dict):
        return {key: one.format(place) for key, one in value.items()}
    return value.format(place)


def test_namespaces_without_end_hold_up_nobody(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """BND-17: a tenant may have any number of them, each with a hundred thousand mounts."""
    monkeypatch.setattr(discard_runtime, "SECONDS", -1)
    (said,) = discard_runtime._mounted({str(ground.root)})
    assert "may have it mounted: there are too many namespaces" in said


@pytest.mark.parametrize("rest", ["a build that stands", "what was taken away", "no job"])
def test_what_a_kill_has_left_goes_with_the_next_work(ground: Ground, rest: str) -> None:
    """F-BUN-01: after the rename and before the end, there is nothing left to tell."""
    ground.seal()
    job = begun(ground, build_phase=PHASE, seal_phase='{"phase": "seal"}')
    if rest == "what was taken away":
        job.rename(job.with_suffix(".gone"))
        (job.with_suffix(".gone") / "job.json").unlink()
    elif rest == "no job":
        (job / "job.json").unlink()
    assert ground.shown().startswith("staged")
    assert ground.do("runtime.stage").code == ""
    assert ground.stray() == set()


def test_why_it_has_failed_stays_until_somebody_begins_it_anew(ground: Ground) -> None:
    begun(ground, build_failed=FAILED)
    ground.seal("2.0")
    assert ground.do("runtime.stage", ground.item("2.0")).code == ""
    assert ground.shown().startswith("failed runtime_hash_wrong")


def written(ground: Ground, content: str) -> Any:
    files = [{"path": ENVIRONMENT, "mode": "0644", "content": content}]
    item = {"id": ID, "login": LOGIN, "uid": 0, "gid": 0, "files": files}
    return ground.do("runtime.write_env_file", item)


@pytest.mark.parametrize(
    "line",
    [
        "A=x y",
        "A='x'",
        'A="x"',
        "A=x#y",
        "A=$HOME",
        "A=`id`",
        "A=$(id)",
        "A=x\\",
        "A=x\rB=y",
        "A=x\x0bB=y",
        "A=x\u2028B=y",
        "export A=x",
        "a=x",
        "A =x",
        " A=x",
        "A",
        "; A=x",
        "# ends with \\",
        "# \x1b]0;title",
        " ",
    ],
)
def test_an_env_file_has_no_line_that_readers_take_each_in_a_way_of_their_own(
    ground: Ground, line: str
) -> None:
    """F-BUN-03: quotes, blanks, #, $, backticks, newlines and what continues a line."""
    assert written(ground, f"# A comment.\nB=y\n{line}\n").code == "item_invalid"
    assert written(ground, f"B=y\n{line}").code == "item_invalid"
    assert not (ground.root / ENVIRONMENT[1:]).exists()


def test_an_env_file_is_written_whole_at_its_place_alone(ground: Ground) -> None:
    content = "# A comment: of all that is printed.\nA=x,y@1.0:/z+-_\n"
    assert written(ground, content).evidence[ENVIRONMENT].startswith("file 0644 sha256:")
    assert (ground.root / ENVIRONMENT[1:]).read_text() == content
    other: dict[str, Any] = {"path": "/etc/environment", "mode": "0644", "content": content}
    item = {"id": ID, "login": LOGIN, "uid": 0, "gid": 0, "files": [other]}
    assert ground.do("runtime.write_env_file", item).code == "path_unsafe"


@privileges.needs(privileges.giving_away)
def test_an_env_file_is_read_by_the_group_of_its_tenant_and_no_other(ground: Ground) -> None:
    file = {"path": ENVIRONMENT, "mode": "0640", "content": "A=x\n"}
    item = {"id": ID, "login": LOGIN, "uid": 0, "gid": 20101, "files": [file]}
    done = ground.do("runtime.write_env_file", item)
    fact = done.evidence[ENVIRONMENT]
    assert fact.startswith("file 0640 sha256:") and fact.endswith(" 0:20101"), done
    assert not ground.do("runtime.write_env_file", item).changed
    os.chown(ground.root / ENVIRONMENT[1:], 0, 20102)
    again = ground.do("runtime.write_env_file", item)
    assert (again.changed, again.evidence[ENVIRONMENT]) == (True, fact)
    wrong = ground.do("runtime.write_env_file", {**item, "gid": 42})
    assert wrong.code == "item_invalid", "a group of the system's"
