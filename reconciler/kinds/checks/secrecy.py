"""Secrecy: what must never be written into a spec, because git keeps it for ever.

A finding names its place and its sort, never the value itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from reconciler.model.problem import PathPart

PRIVATE_KEY = re.compile(
    r"BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY|PuTTY-User-Key-File|AGE-SECRET-KEY-1"
    # Without the line above it, by how each sort begins: OpenSSH, RSA, PKCS#8, ed25519, EC.
    r"|b3BlbnNzaC1rZXktdjE|MII[0-9A-Za-z+/]{2}[AQgw]IBAA|MII[0-9A-Za-z+/]{2}[AQgw]IBADANBgkq"
    r"|MC4CAQAwBQYDK2VwBCIE|MHcCAQEE|MIG[HT]AgEAMB"
)

SECRETS: Mapping[str, re.Pattern[str]] = {
    "a token of GitHub": re.compile(r"\b(gh[pousr]_[0-9A-Za-z]{36}|github_pat_[0-9A-Za-z_]{60})"),
    "a token of GitLab": re.compile(r"\bgl(pat|rt|dt|ft)-[0-9A-Za-z_-]{20}"),
    "a token of Hugging Face": re.compile(r"\bhf_[0-9A-Za-z]{30}"),
    "a token of Slack": re.compile(r"\bxox[abeprs]-[0-9A-Za-z-]{10}|\bxapp-[0-9]-[0-9A-Za-z-]{10}"),
    "a key of AWS": re.compile(r"\b(AKIA|ASIA)[0-9A-Z]{16}\b"),
    "a key of Google": re.compile(r"\bAIza[0-9A-Za-z_-]{35}"),
    "a key of NVIDIA": re.compile(r"\bnvapi-[0-9A-Za-z_-]{30}"),
    "a key of OpenAI": re.compile(r"\bsk-[0-9A-Za-z_-]{32}"),
    "a key of Stripe": re.compile(r"\b[rs]k_(live|test)_[0-9A-Za-z]{16}"),
    "a token of a package index": re.compile(r"\b(pypi-AgE[0-9A-Za-z_-]{16}|npm_[0-9A-Za-z]{36})"),
    "a token of Docker": re.compile(r"\bdckr_(pat|oat)_[0-9A-Za-z_-]{20}"),
    "a token of Vault": re.compile(r"\bhv[sbr]\.[0-9A-Za-z_-]{20}"),
    # Its second part alone: a pattern that begins with a part of any length takes for ever.
    "a signed token": re.compile(r"[0-9A-Za-z_-]{8}\.eyJ[0-9A-Za-z_-]{8,}\."),
    "an address of a webhook": re.compile(
        r"hooks\.slack\.com/(services|workflows|triggers)/[0-9A-Za-z/_-]{16}"
        r"|discord(app)?\.com/api/webhooks/[0-9]{8,}/|\.webhook\.office\.com/webhookb2/[0-9a-f]"
    ),
    "a password in an address": re.compile(r"://[^/\s:@]*:[^/\s@]+@"),
}

_MARKS = (
    *("BEGIN ", "PuTTY", "AGE-", "b3Blb", "IBA", "MC4C", "MHcC", "AgEA"),
    *("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "_pat_", "_oat_"),
    *("glpat-", "glrt-", "gldt-", "glft-", "hf_", "xox", "xapp-", "AKIA", "ASIA", "AIza"),
    *("nvapi-", "sk-", "k_live_", "k_test_", "pypi-", "npm_", "hvs.", "hvb.", "hvr."),
    *(".eyJ", "://", "hooks.slack.com", "/api/webhooks/", "webhook.office.com"),
)
SUSPECT = re.compile("|".join(map(re.escape, _MARKS)))
"""Stands in every text that a pattern above can match: one cheap look at all the others."""

SECRET_NAME = re.compile(r"(?i)(passw(or)?d|pass_?phrase|secret|token|(api|access|private)_?key)$")
_SECRET_NAMES = (
    *(b"passw", b"passphrase", b"pass_phrase", b"secret", b"token"),
    *(b"apikey", b"api_key", b"accesskey", b"access_key", b"privatekey", b"private_key"),
)
_SUSPECTS = tuple(mark.encode() for mark in _MARKS)
HIDDEN = "(hidden: it looks like a secret)"
_BODY = re.compile(r"[\s\"'-]*[0-9A-Za-z+/]{24,}={0,2}[\s\"',]*")


class Secret(NamedTuple):
    """`is_key`: it is the last part of the path itself, and not what stands there."""

    path: tuple[PathPart, ...]
    code: str
    message: str
    hint: str
    is_key: bool = False


def is_suspicious(content: bytes) -> bool:
    """One cheap look, so that only few documents are searched value by value.

    What is written with escapes may be anything.
    """
    lower = content.lower()
    return any(mark in content for mark in (b"\\", *_SUSPECTS)) or any(
        name in lower for name in _SECRET_NAMES
    )


def concealed(text: str) -> str:
    """The text, unless it holds a secret."""
    return HIDDEN if any(find_secrets(text)) else text


def is_body(line: str) -> bool:
    """Whether a line may be one out of the middle of a key, which alone says nothing of itself."""
    return _BODY.fullmatch(line) is not None


def find_secrets(value: object, path: tuple[PathPart, ...] = ()) -> Iterator[Secret]:
    """Every secret in a document's value, in the order of the document."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _in_text(str(key), (*path, key), is_key=True)
            if _says_something(item) and SECRET_NAME.search(str(key)):
                yield _secret((*path, key), "a secret by its name")
            else:
                yield from find_secrets(item, (*path, key))
    elif isinstance(value, (list, tuple)):
        for at, item in enumerate(value):
            yield from find_secrets(item, (*path, at))
    elif isinstance(value, str):
        yield from _in_text(value, path)


def _says_something(value: object) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool) and value != ""


def _in_text(text: str, path: tuple[PathPart, ...], *, is_key: bool = False) -> Iterator[Secret]:
    if not SUSPECT.search(text):
        return
    if PRIVATE_KEY.search(text):
        hint = "give the public key; the private one has been seen now: make a new pair"
        yield Secret(path, "private_key_in_spec", "a private key stands here", hint, is_key)
        return
    sort = next((sort for sort, pattern in SECRETS.items() if pattern.search(text)), "")
    if sort:
        yield _secret(path, sort, is_key=is_key)


def _secret(path: tuple[PathPart, ...], sort: str, *, is_key: bool = False) -> Secret:
    hint = "take it out and revoke it: whoever can read the repository has it"
    return Secret(path, "secret_in_spec", f"{sort} stands here", hint, is_key)
