"""Secrecy: what may never stand in a spec, wherever it stands. Git keeps it for ever.

A finding names its place and its sort, never the value itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from reconciler.model.problem import PathPart

PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY|PuTTY-User-Key-File|AGE-SECRET-KEY-1")

SECRETS: Mapping[str, re.Pattern[str]] = {
    "a token of GitHub": re.compile(r"\b(gh[pousr]_[0-9A-Za-z]{36}|github_pat_[0-9A-Za-z_]{60})"),
    "a token of GitLab": re.compile(r"\bglpat-[0-9A-Za-z_-]{20}"),
    "a token of Hugging Face": re.compile(r"\bhf_[0-9A-Za-z]{30}"),
    "a token of Slack": re.compile(r"\bxox[abprs]-[0-9A-Za-z-]{10}"),
    "a key of AWS": re.compile(r"\b(AKIA|ASIA)[0-9A-Z]{16}\b"),
    "a key of OpenAI": re.compile(r"\bsk-[0-9A-Za-z_-]{32}"),
    # Its second part alone: a pattern that begins with a part of any length takes for ever.
    "a signed token": re.compile(r"[0-9A-Za-z_-]{8}\.eyJ[0-9A-Za-z_-]{8,}\."),
    "a password in an address": re.compile(r"://[^/\s:@]+:[^/\s@]+@"),
}

SUSPECT = re.compile(r"-----BEGIN|PuTTY|AGE-|gh._|_pat_|glpat-|hf_|xox|AKIA|ASIA|sk-|eyJ|://")
"""Stands in every text that a pattern above can match: one cheap look at all the others."""

SECRET_NAME = re.compile(r"(?i)(password|passwd|secret|token|api_?key|private_?key)$")


class Secret(NamedTuple):
    path: tuple[PathPart, ...]
    code: str
    message: str
    hint: str


def find_secrets(value: Any, path: tuple[PathPart, ...] = ()) -> Iterator[Secret]:
    """Every secret in a document's value, in the order of the document."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if isinstance(item, str) and item and SECRET_NAME.search(str(key)):
                yield _secret((*path, key), "a secret by its name")
            else:
                yield from find_secrets(item, (*path, key))
    elif isinstance(value, (list, tuple)):
        for at, item in enumerate(value):
            yield from find_secrets(item, (*path, at))
    elif isinstance(value, str) and SUSPECT.search(value):
        yield from _in_text(value, path)


def _in_text(text: str, path: tuple[PathPart, ...]) -> Iterator[Secret]:
    if PRIVATE_KEY.search(text):
        hint = "give the public key; the private one has been seen now: make a new pair"
        yield Secret(path, "private_key_in_spec", "a private key stands here", hint)
        return
    for sort, pattern in SECRETS.items():
        if pattern.search(text):
            yield _secret(path, sort)
            return


def _secret(path: tuple[PathPart, ...], sort: str) -> Secret:
    hint = "take it out and revoke it: whoever can read the repository has it"
    return Secret(path, "secret_in_spec", f"{sort} stands here", hint)
