"""Our marked lines in files that are the distribution's; the rest of such a file is not ours."""

from __future__ import annotations

import re

VENDOR = "/usr/lib/pam.d/"
"""Where a distribution keeps stacks that nobody has changed."""

BEGIN, END = "# BEGIN gpuaas: what is changed here is put back", "# END gpuaas"
BLOCK = re.compile(rf"^{re.escape(BEGIN)}\n(.*?)^{re.escape(END)}\n", re.MULTILINE | re.DOTALL)
USERS_OWN = re.compile(r"^(\s*[^#\s].*\buser_readenv=)(?!0\b)\S+", re.MULTILINE)
INCLUDED = re.compile(r"^\s*(?:@include|-?\w+\s+(?:include|substack))\s+(\S+)", re.MULTILINE)


def with_block(before: str, content: str, place: str) -> str:
    """The same file with this one block of ours, at its start or its end."""
    rest = BLOCK.sub("", before)
    if rest and not rest.endswith("\n"):
        rest += "\n"
    block = f"{BEGIN}\n{content}{END}\n"
    return block + rest if place == "start" else rest + block


def block_of(text: str) -> str:
    """What our block says; empty if there is none, or more than one."""
    blocks = BLOCK.findall(text)
    return str(blocks[0]) if len(blocks) == 1 else ""


def without_users_own(stack: str) -> str:
    """The same stack, with no file of a user's own for the environment of what it starts as root.

    Distributions have read ~/.pam_environment there, and LD_PRELOAD in it is root for everybody.
    """
    return USERS_OWN.sub(r"\g<1>0", stack)


def included(stack: str) -> list[str]:
    """The stacks that this one is made of besides its own lines, by name or path."""
    return INCLUDED.findall(stack)
