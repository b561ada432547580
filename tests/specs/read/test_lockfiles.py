"""Locks: requirements are taken as they were agreed, and nothing in them is an option."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from playbooks.module_utils.gpuaas import requirements
from reconciler.model.canonical import text_digest
from reconciler.model.ref import Ref
from reconciler.specs.read.requirements_file import REQUIREMENT, read_requirements
from tests.bundles import hello
from tests.specs.small_fleet import Fleet

HELLO = Ref("bundle", "", "hello")
HASH = "--hash=sha256:" + "a" * 64


def lay(fleet: Fleet, text: str | bytes | None, agreed: str = "") -> None:
    """A bundle whose requirements are `text`; those that were agreed may be others."""
    document = hello.document(fleet.folder, "1.0")
    (version,) = document["spec"]["versions"]
    del version["install"]["index"]
    lock = fleet.folder / version["install"]["lock"]
    if text is None:
        lock.unlink()
    else:
        content = text.encode() if isinstance(text, str) else text
        lock.write_bytes(content)
        told = agreed or content.decode("utf-8", "replace")
        version["install"]["lockDigest"] = text_digest(told)
    fleet.write("hello.yaml", yaml.safe_dump(document))


@pytest.mark.parametrize(
    "text",
    [
        hello.lock("1.0"),
        f"# by hand\n\na==1 {HASH}  # why\nb[x,y]==2.0+cpu {HASH} {HASH}\n",
        f"a==1 \\\n    {HASH} \\\n    {HASH}\n",
        f"a==1 ; python_version >= '3.9' and sys_platform == 'linux' {HASH}\n",
        "",
    ],
)
def test_releases_with_their_hashes_are_taken(fleet: Fleet, text: str) -> None:
    lay(fleet, text)
    assert fleet.problems() == []
    found = fleet.load()
    (version,) = found.resources[HELLO].spec.versions
    assert found.locks == {version.install.lock_digest: read_requirements(text)}


@pytest.mark.parametrize("agreed", ["text", "bytes"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_line_ends_of_a_checkout_count_for_nothing(
    fleet: Fleet, end: str, mark: str, agreed: str
) -> None:
    """F-REAL-16: git writes others on some machines, and calls the file unchanged."""
    text = f"a==1 \\\n    {HASH}\n# why\nb==2 {HASH}\n"
    there = mark + text.replace("\n", end)
    lay(fleet, there, agreed=text if agreed == "text" else there)
    assert fleet.problems() == []
    (taken,) = fleet.load().locks.values()
    assert taken.text == f"a==1 {HASH}\nb==2 {HASH}\n"


@pytest.mark.parametrize("odd", ["\u2028", "\u2029", "\x85", "\r", "\f", "\v", "\x1c"])
def test_what_looks_like_a_comment_is_told_apart(fleet: Fleet, odd: str) -> None:
    """F-REAL-16: pip begins a new line there, and would take the rest for an option."""
    lay(fleet, f"# agreed in review{odd}--no-binary :all:\na==1 {HASH}\n")
    problem = fleet.one()
    assert problem.code == "bundle_lock_unsound"
    assert "line 1" in problem.message and "'--no-binary :all:'" in problem.message
    assert f"U+{ord(odd):04X}" in problem.hint


@pytest.mark.parametrize(
    "line",
    [
        "a==1",
        f"a>=1 {HASH}",
        f"a {HASH}",
        f"-e git+https://x/y {HASH}",
        f"a @ https://x/a.whl {HASH}",
        f"./a.whl {HASH}",
        f"--index-url https://x\na==1 {HASH}",
        f"# agreed in review \\\n--no-binary :all:\na==1 {HASH}",
        f"--no-binary :all:\na==1 {HASH}",
        f"a==1 {HASH}\n-r other.txt",
        f"a==1 --config-settings=x=y {HASH}",
        f"a==1 {HASH} --global-option=x",
        "a==1 --hash=md5:" + "a" * 32,
        f"a==${{HOME}} {HASH}",
    ],
)
def test_anything_else_is_refused_at_the_door(fleet: Fleet, line: str) -> None:
    """Rule 16: wheels with hashes only; an option could have code run, or fetch from elsewhere."""
    lay(fleet, line)
    problem = fleet.one()
    assert problem.code == "bundle_lock_unsound"
    found = fleet.load()
    assert (found.locks, found.frozen) == ({}, {HELLO})


@pytest.mark.parametrize(
    ("text", "agreed", "code"),
    [
        (None, "", "bundle_lock_missing"),
        ("a==1".encode("utf-16"), "", "bundle_lock_missing"),
        (b"\xff\xfe", "", "bundle_lock_missing"),
        (hello.lock("1.0"), hello.lock("2.0"), "bundle_lock_mismatch"),
    ],
)
def test_what_was_not_agreed_is_nothing(
    fleet: Fleet, text: str | bytes | None, agreed: str, code: str
) -> None:
    """Its document is frozen: what was recorded of the bundle stays as it is."""
    lay(fleet, text, agreed)
    problem = fleet.one()
    assert problem.code == code
    assert problem.source is not None and problem.source.line > 1
    found = fleet.load()
    assert HELLO not in found.resources and HELLO in found.frozen


def test_it_comes_from_no_other_place(fleet: Fleet, tmp_path: Path) -> None:
    """F-PAR-06: a link out of its folder leads nowhere."""
    lay(fleet, hello.lock("1.0"))
    outside = tmp_path / "outside.txt"
    outside.write_text(hello.lock("1.0"))
    lock = fleet.folder / "locks/hello-1.0.txt"
    lock.unlink()
    lock.symlink_to(outside)
    assert fleet.one().code == "bundle_lock_missing"


def test_hosts_judge_them_alike() -> None:
    assert requirements.REQUIREMENT.pattern == REQUIREMENT.pattern
