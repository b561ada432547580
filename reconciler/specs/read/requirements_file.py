"""Requirements files, read once by the rules of pip, which acts on them (rule 28).

What pip would take for a line, a comment, an option or an encoding is the same here; of what it
would take for a requirement only releases with hashes are taken. Nobody else reads the file: pip
and the hosts are handed what is written from the result.
"""

from __future__ import annotations

import codecs
import re
import shlex
from collections.abc import Iterator

from packaging.requirements import InvalidRequirement
from packaging.requirements import Requirement as Parsed

from reconciler.model.spec.requirements import Requirement, Requirements

COMMENT = re.compile(r"(^|\s+)#.*$")
ENCODING = re.compile(r"coding[:=]\s*([-\w.]+)", re.ASCII)
HASH = re.compile(r"sha256:([0-9A-Fa-f]{64})")
ODD_ENDS = re.compile("[\v\f\x1c\x1d\x1e\x85\u2028\u2029]|\r(?!\n)")
"""Where a line ends for pip and for no editor."""

REQUIREMENT = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9._,-]+\])?==[A-Za-z0-9.!+_-]+"
    r"(?<!(?i:\.zip|\.whl|\.tgz|\.tar|\.tbz|\.txz|\.tlz|\.bz2))(?<!(?i:\.gz|\.xz|\.lz))"
    r"(?<!(?i:\.lzma))"
    r"( ; ((?! -)[A-Za-z0-9 ._\"<>=!()~*,+/|-])+)?( --hash=sha256:[0-9a-f]{64})+"
)
"""A line as it is written, and as hosts judge it again. A version that ends like the name of an
archive would be a file to pip."""


class RequirementsError(ValueError):
    """Why a file is not taken, with the line as editors count."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(f"line {line}: {why}" if line else why)


def plain_text(raw: bytes) -> str:
    """The text, whichever line ends and mark a checkout gave it. Raises UnicodeDecodeError."""
    return raw.decode("utf-8-sig").replace("\r\n", "\n")


def read_requirements(text: str) -> Requirements:
    """Read the requirements. Raises RequirementsError for anything but releases with hashes."""
    _refuse_other_encoding(text)
    return Requirements(releases=tuple(_release(number, line) for number, line in _lines(text)))


def odd_line_ends(text: str) -> str:
    """Where a line ends that looks like going on; empty if nowhere."""
    found = ODD_ENDS.search(text)
    if found is None:
        return ""
    number = text.count("\n", 0, found.start()) + 1
    return f"line {number} holds U+{ord(found[0]):04X}, where a new line begins for pip"


def _refuse_other_encoding(text: str) -> None:
    for number, line in enumerate(text.split("\n")[:2], 1):
        if line.startswith("#") and (found := ENCODING.search(line)) and not _is_ours(found[1]):
            why = f"it states the encoding {found[1]!r} for pip, and UTF-8 alone is taken"
            raise RequirementsError(number, why)


def _is_ours(encoding: str) -> bool:
    try:
        return codecs.lookup(encoding).name in ("utf-8", "ascii")
    except LookupError:
        return False


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Joined, without comments and not empty, with the number at which each begins."""
    for number, joined in _joined(text):
        if line := COMMENT.sub("", joined).strip():
            yield number, line


def _joined(text: str) -> Iterator[tuple[int, str]]:
    """A comment goes on in no next line, whatever it ends with."""
    number, began, parts = 1, 0, list[str]()
    for whole in text.splitlines(keepends=True):
        line = whole.splitlines()[0]
        is_comment = COMMENT.match(line) is not None
        if line.endswith("\\") and not is_comment:
            began = began if parts else number
            parts.append(line.strip("\\"))
        else:
            parts.append(f" {line}" if is_comment else line)
            yield began if len(parts) > 1 else number, "".join(parts)
            parts = []
        number += whole.count("\n")
    if parts:
        yield began, "".join(parts)


def _release(number: int, line: str) -> Requirement:
    words = line.split(" ")
    first = next((at for at, word in enumerate(words) if word.startswith("-")), len(words))
    named, options = " ".join(words[:first]), " ".join(words[first:])
    if not named:
        raise RequirementsError(number, f"an option, and gpuaas takes none: {options[:100]!r}")
    hashes = _hashes(number, options)
    release = _parsed(number, named, hashes)
    # What a marker compares with may hold what no second reader would take for the same.
    if not REQUIREMENT.fullmatch(str(release)):
        raise RequirementsError(number, f"no release that can be handed on: {named[:100]!r}")
    return release


def _parsed(number: int, named: str, hashes: tuple[str, ...]) -> Requirement:
    try:
        parsed = Parsed(named)
    except InvalidRequirement:
        raise RequirementsError(number, _why_none(named)) from None
    specifiers = list(parsed.specifier)
    if parsed.url or len(specifiers) != 1 or specifiers[0].operator != "==":
        raise RequirementsError(number, f"no release, which is name==version: {named[:100]!r}")
    if not hashes:
        raise RequirementsError(number, f"a release without its hashes: {named[:100]!r}")
    return Requirement(
        name=parsed.name,
        version=specifiers[0].version,
        hashes=hashes,
        extras=tuple(sorted(parsed.extras)),
        marker=str(parsed.marker or ""),
    )


def _why_none(named: str) -> str:
    if "\t" in named and "--hash" in named:
        return "a tab stands before --hash, where pip wants a blank"
    if named.rstrip().endswith("\\"):
        return "something stands after the backslash at its end, so pip does not read on"
    return f"no release, which is name==version: {named[:100]!r}"


def _hashes(number: int, options: str) -> tuple[str, ...]:
    try:
        words = shlex.split(options)
    except ValueError:
        raise RequirementsError(number, f"quotes without an end: {options[:100]!r}") from None
    found = []
    rest = iter(words)
    for word in rest:
        option, has_value, value = word.partition("=")
        value = value if has_value else next(rest, "")
        match = HASH.fullmatch(value)
        if option != "--hash" or match is None:
            raise RequirementsError(number, f"no --hash=sha256:… but {word[:100]!r}")
        found.append(match[1].lower())
    return tuple(found)
