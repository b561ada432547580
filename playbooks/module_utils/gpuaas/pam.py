"""Our marked lines in files of the distribution; the rest of such a file is not ours."""

from __future__ import annotations

import re

VENDOR = "/usr/lib/pam.d/"
"""Where a distribution keeps stacks that nobody has changed."""

BEGIN, END = "# BEGIN gpuaas: what is changed here is put back", "# END gpuaas"
BLOCK = re.compile(rf"^{re.escape(BEGIN)}\n(.*?)^{re.escape(END)}\n", re.MULTILINE | re.DOTALL)
MARK = re.compile(r"^[^\S\n]*#[^\S\n]*(BEGIN|END)[^\S\n]+gpuaas\b", re.MULTILINE | re.IGNORECASE)
"""What anybody would take for a border of ours, copied or half removed."""

USERS_OWN = re.compile(r"^(\s*[^#\s].*\buser_readenv=)(?!0\b)\S+", re.MULTILINE)
INCLUDED = re.compile(r"^\s*(?:@include|-?\w+\s+(?:include|substack))\s+(\S+)", re.MULTILINE)


def unclear(text: str) -> str:
    """Why nobody can say what in this file is ours; '' where there is one whole block, or none."""
    marks = [found.group(1).upper() for found in MARK.finditer(text)]
    whole = BLOCK.search(text)
    if not marks or (marks == ["BEGIN", "END"] and whole and not MARK.search(whole.group(1))):
        return ""
    begins, ends = marks.count("BEGIN"), marks.count("END")
    if (begins, ends) == (1, 1):
        return "the lines that mark ours are not as we wrote them"
    return f"{begins} lines begin what is ours, and {ends} end it"


def with_block(before: str, content: str, place: str) -> str:
    """The same file with this one block of ours, at its start or its end.

    Raises ValueError where it is unclear what is ours: then nothing around it is touched.
    """
    if why := unclear(before):
        raise ValueError(why)
    rest = BLOCK.sub("", before)
    if rest and not rest.endswith("\n"):
        rest += "\n"
    block = f"{BEGIN}\n{content}{END}\n"
    return block + rest if place == "start" else rest + block


def block_of(text: str) -> str:
    """What our block says; empty if there is none, or nobody can say."""
    found = None if unclear(text) else BLOCK.search(text)
    return found.group(1) if found else ""


def without_users_own(stack: str) -> str:
    """The same stack, with no file of a user's own for the environment of what it starts as root.

    Distributions have read ~/.pam_environment there, and LD_PRELOAD in it is root for everybody.
    """
    return USERS_OWN.sub(r"\g<1>0", stack)


def included(stack: str) -> list[str]:
    """The stacks that this one is made of besides its own lines, by name or path."""
    return INCLUDED.findall(stack)
