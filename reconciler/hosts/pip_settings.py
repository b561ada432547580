"""Pip's settings on this machine: where it looks for wheels and how it gets there.

Everything else that somebody may have set, as which packages to build from source, is left out.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

LINE = re.compile(r"(global|download|:env:)\.([a-z-]+)=(.+)")
SECTIONS = ("global", "download", ":env:")
"""In the order in which a later one counts."""

PLACES = ("index-url", "extra-index-url", "find-links")
WAYS = ("proxy", "cert", "client-cert", "trusted-host", "timeout", "retries")
LISTS = {"extra-index-url", "find-links", "trusted-host"}
OLD_NAMES = {"default-timeout": "timeout", "pypi-url": "index-url"}
OFF = {"", "0", "false", "no", "off", "n", "f"}


def options(listed: str, *, with_places: bool) -> tuple[str, ...]:
    """Options of `pip download` for what `pip config list` says; without its places if told so."""
    settings = _settings(listed)
    found = list(_options(settings, WAYS))
    if with_places:
        found += _options(settings, PLACES)
        found += [] if settings.get("no-index", "").lower() in OFF else ["--no-index"]
    return tuple(found)


def _settings(listed: str) -> Mapping[str, str]:
    found: dict[str, dict[str, str]] = {section: {} for section in SECTIONS}
    for line in listed.splitlines():
        if match := LINE.fullmatch(line):
            found[match[1]][OLD_NAMES.get(match[2], match[2])] = _value(match[3])
    return {name: value for section in SECTIONS for name, value in found[section].items()}


def _value(told: str) -> str:
    try:
        return str(ast.literal_eval(told))
    except (ValueError, SyntaxError):
        return ""


def _options(settings: Mapping[str, str], names: tuple[str, ...]) -> Iterator[str]:
    for name in names:
        value = settings.get(name, "")
        values = value.split() if name in LISTS else [value.strip()]
        yield from (f"--{name}={one}" for one in values if one)
