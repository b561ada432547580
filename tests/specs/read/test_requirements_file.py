"""Requirements files: what is taken means to pip what is written from it, and nothing else."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from pip._internal.exceptions import InstallationError
from pip._internal.req.constructors import install_req_from_parsed_requirement
from pip._internal.req.req_file import parse_requirements

from reconciler.model.spec.requirements import Requirement
from reconciler.specs.read.requirements_file import (
    REQUIREMENT,
    RequirementsError,
    plain_text,
    read_requirements,
)

A, B = "a" * 64, "b" * 64
HASH = f"--hash=sha256:{A}"
PARTS = (
    "é==1",
    *("a==1", "B.c_d==2.0", "a[x,y]==1!2.0.post1", "a (==1)", "a == 1", "a==1+cpu", "a==1+x.zip"),
    *(
        "a>=1",
        "a==1.*",
        "a===1",
        "a==1,==2",
        "a @ https://x/a.whl",
        "./a.whl",
        "a.whl",
        "a",
        "é==1",
    ),
    *("; python_version >= '3'", ";os_name=='x'", "; python_version not in '3.0, 3.1'"),
    *("; python_full_version ~= '3.8.1'", "; python_version == '3.*'", '; os_name == "a\'b"'),
    *("; os_name == 'x -y'", "; os_name == 'a #b'", "; extra == 'T_t'", "; (os_name == 'a' or"),
    *("sys_platform != 'b')", "and platform_machine == 'c'", "; os_name == '${SIX}'"),
    *(HASH, f"--hash sha256:{B}", f'--hash="sha256:{A.upper()}"', f"--has=sha256:{A}"),
    *(f"\t{HASH}", f"--hash=sha512:{A * 2}", "--hash=sha256:", "--hash"),
    *("--no-binary :all:", "--no-binary=:all:", "--pre", "-i https://x", "-r other", "-e ."),
    *("--extra-index-url https://x", "--trusted-host x", "--config-settings=a=b", "--"),
    *("# why", "#why", " # via x", "# -*- coding: latin-1 -*-", "# coding=utf-7", "#\\", "x#y"),
    *("\\", "\\\n", "\\\n    ", "\\ \n", "\\\r\n", "\\\\\n", " \\\n", "\\\n#", "\\\n #"),
    *("\n", "\n", "\n", "\r\n", "\r", "\f", "\v", "\x1c", "\x1d", "\x85", "\u2028", "\u2029"),
    *(" ", " ", "  ", "\t", "\xa0", "\u3000", "\ufeff", "\0", "'", '"', "=", ";", "$", "${SIX}"),
)
USUAL = (f"a==1 {HASH}\n", f"b==2 \\\n    {HASH} \\\n    --hash=sha256:{B}\n    # via a\n", "# c\n")


def by_pip(path: Path, raw: bytes) -> list[tuple[object, ...]] | None:
    """What pip makes of a file: each requirement and all that it was told; None if it refuses."""
    path.write_bytes(raw)
    try:
        # Without a session, as nothing here is fetched.
        lines = list(parse_requirements(str(path), session=None, options=None))
        made = [install_req_from_parsed_requirement(line) for line in lines]
    except (InstallationError, LookupError, UnicodeDecodeError):
        return None
    return [
        (
            str(one.link or ""),
            str(one.req),
            str(one.markers or ""),
            {key: sorted(map(str.lower, value)) for key, value in one.hash_options.items()},
            (one.global_options, one.config_settings, one.editable, one.constraint),
        )
        for one in made
    ]


def agreed(path: Path, raw: bytes) -> bool:
    """Whether it was taken, and pip reads in it what it reads in what is written.

    Where pip's own version refuses what was taken, it has no other meaning.
    """
    try:
        text = plain_text(raw)
        found = read_requirements(text)
    except (RequirementsError, UnicodeDecodeError):
        return False
    lines = found.text.splitlines()
    assert all(map(REQUIREMENT.fullmatch, lines)) and found.text.isascii()
    assert read_requirements(found.text) == found
    theirs, ours = by_pip(path, raw), by_pip(path, found.text.encode())
    assert ours is not None and len(ours) == len(found.releases)
    assert theirs in (None, ours), f"{raw!r} is {theirs} to pip, and {ours} was written"
    return theirs is not None


@pytest.mark.parametrize("seed", range(20))
def test_pip_agrees_whatever_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """F-REAL-16: of odd lines, encodings and ends of lines."""
    monkeypatch.setenv("SIX", "b==2")
    random_ = random.Random(seed)
    taken = 0
    for _ in range(150):
        few = random_.choices(PARTS, k=random_.randint(0, 6))
        head = random_.choice(("", "", "\ufeff", *USUAL))
        body = "".join(f"{part}{random_.choice(('', ' '))}" for part in few)
        text = head + body + random_.choice(("", *USUAL))
        taken += agreed(tmp_path / "lock.txt", text.encode())
    assert taken


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (f"attrs==19.3.0; python_version not in '3.0, 3.1' \\\n  {HASH}\n", "3.0, 3.1"),
        (f"a==1 ; python_full_version ~= '3.8.1' {HASH}", 'python_full_version ~= "3.8.1"'),
        (f"a==1 ; python_version == '3.*' {HASH}", 'python_version == "3.*"'),
        (f"a (==1) {HASH}", f"a==1 {HASH}"),
        (f"a == 1   --hash sha256:{A}", f"a==1 {HASH}"),
        (
            f"a[y,x]==1 {HASH.upper().replace('--HASH=SHA256', '--hash=sha256')}",
            f"a[x,y]==1 {HASH}",
        ),
        (f"# agreed \\\na==1 {HASH}", f"a==1 {HASH}"),
        (f"a==1 {HASH}\n\f\nb==1 {HASH}\n", f"b==1 {HASH}"),
    ],
)
def test_what_tools_and_people_write(tmp_path: Path, text: str, written: str) -> None:
    """F-REAL-16."""
    assert written in read_requirements(text).text
    assert agreed(tmp_path / "lock.txt", text.encode())


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        (f"# x\nsix==1.17.0\t{HASH}\n", 2, "a tab stands before --hash"),
        (f"six==1.17.0 \\ \n  {HASH}\n", 1, "backslash"),
        (f"# x\n\n--no-binary :all:\na==1 {HASH}\n", 3, "an option"),
        (f"# a\u2028# b\u2028--pre\na==1 {HASH}\n", 1, "an option"),
        (f"# -*- coding: utf-7 -*-\na==1 {HASH}\n", 1, "utf-7"),
        (f"a==1 {HASH}\n\nb==1\n", 3, "without its hashes"),
        (f"a==1 \\\n{HASH} \\\n--pre\n", 1, "--pre"),
        (f"a==1+x.zip {HASH}\n", 1, "handed on"),
        (f"a==1 ; os_name == 'a\"b' {HASH}\n", 1, "handed on"),
        (f"a==1 {HASH} '\n", 1, "quotes"),
    ],
)
def test_what_is_not_taken_is_told_in_one_sentence(text: str, line: int, why: str) -> None:
    """F-REAL-16: with the line as an editor counts."""
    with pytest.raises(RequirementsError) as caught:
        read_requirements(text)
    assert str(caught.value).startswith(f"line {line}: ") and why in str(caught.value)
    assert not re.search("[\n\x00-\x1f]", str(caught.value))


def test_nothing_is_written_that_was_not_read() -> None:
    one = Requirement(name="a", version="1", hashes=(A, B), extras=("x",), marker='os_name == "y"')
    assert str(one) == f'a[x]==1 ; os_name == "y" --hash=sha256:{A} --hash=sha256:{B}'
    assert read_requirements(f"{one}\n").releases == (one,)
