"""No secret comes into a spec by any field, and none that somebody tried to is ever repeated."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from reconciler import shipped
from reconciler.cli.text import render
from reconciler.cli.views import problems as problems_view
from reconciler.cli.views.documents import document
from reconciler.kinds.checks.secrecy import SECRETS, SUSPECT, find_secrets
from reconciler.model.problem import Problem, ProblemError
from reconciler.specs.read.check_file import Judge
from reconciler.specs.settings import parse_settings
from tests.security.fields import Field, Sample, samples

SCHEMAS = shipped.schemas()
JUDGE = Judge(SCHEMAS)
CODES = {"private_key_in_spec", "secret_in_spec"}
BODY = "QyNTUxOQAAACD" + "x" * 40
"""What must not be seen again. The whole is put together here: no scanner takes it for a leak."""
HEAD, TAIL = "-----BEGIN {}PRIVATE " + "KEY-----\n", "\n-----END {}PRIVATE KEY-----\n"
PRIVATE_KEYS = (
    *(HEAD.format(sort) + BODY + TAIL.format(sort) for sort in ("", "OPENSSH ", "RSA ", "EC ")),
    HEAD.format("ENCRYPTED ").replace("\n", " ") + BODY,
    f"---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\n{BODY}",
    f"PuTTY-User-Key-File-3: ssh-ed25519\n{BODY}",
    f"AGE-SECRET-KEY-1{BODY.upper()}",
    f"b3BlbnNzaC1rZXktdjE{BODY}",
    f"MC4CAQAwBQYDK2VwBCIEI{BODY}",
    f"MIIEpAIBAAKCAQEA{BODY}",
    f"MIIEvQIBADANBgkqhkiG9w0BAQEFAASC{BODY}",
)
TOKENS = {
    "a token of GitHub": ("ghp_" + "Q" * 36, "github_pat_" + "Q" * 60),
    "a token of GitLab": ("glpat-" + "Q" * 20, "glrt-" + "Q" * 20),
    "a token of Hugging Face": ("hf_" + "Q" * 30,),
    "a token of Slack": ("xoxb-" + "Q" * 12, "xapp-1-" + "Q" * 12),
    "a key of AWS": ("AKIA" + "Q" * 16,),
    "a key of Google": ("AIza" + "Q" * 35,),
    "a key of NVIDIA": ("nvapi-" + "Q" * 40,),
    "a key of OpenAI": ("sk-" + "Q" * 40,),
    "a key of Stripe": ("sk_live_" + "Q" * 24, "rk_test_" + "Q" * 24),
    "a token of a package index": ("pypi-AgE" + "Q" * 24, "npm_" + "Q" * 36),
    "a token of Docker": ("dckr_pat_" + "Q" * 24,),
    "a token of Vault": ("hvs." + "Q" * 24,),
    "a signed token": ("eyJ" + "Q" * 10 + ".eyJ" + "Q" * 10 + ".Q",),
    "an address of a webhook": (
        "https://hooks.slack.com/services/T" + "Q" * 24,
        "https://discord.com/api/webhooks/123456789/" + "Q" * 24,
    ),
    "a password in an address": ("https://ana:QQQQQQ@git.example/x", "redis://:QQQQQQ@db"),
}
ALL = (*PRIVATE_KEYS, *(token for tokens in TOKENS.values() for token in tokens))


def test_every_sort_of_secret_has_a_sample() -> None:
    assert TOKENS.keys() == SECRETS.keys()
    for text in ALL:
        assert SUSPECT.search(text), text
    for sort, tokens in TOKENS.items():
        for token in tokens:
            (found,) = find_secrets(f"use {token} there")
            assert found.message == f"{sort} stands here"


@pytest.mark.parametrize("sample", [one for one in samples() if one.fields], ids=str)
def test_a_secret_is_refused_in_every_field(sample: Sample) -> None:
    """OBJ-05, SEC-06, F-PLN-06: values and keys of mappings, alone and amidst honest text."""
    for secret in ALL:
        for text in (secret, f"see {secret} there"):
            texts = dict.fromkeys(sample.fields, text)
            written = sample.written(texts)
            problems = judged(sample, written.content)
            assert_never_shown(problems, secret)
            found = {place(p) for p in problems if p.code in CODES}
            assert {written.places[f.path, f.is_key] for f in once(sample.fields)} <= found


def once(fields: tuple[Field, ...]) -> list[Field]:
    """Of keys that were all made the same text only the last stands: those are tried alone."""
    return [field for field in fields if not any(inside(field, key) for key in fields)]


def inside(field: Field, key: Field) -> bool:
    return key.is_key and field != key and field.path[: len(key.path) - 1] == key.path[:-1]


def place(problem: Problem) -> tuple[int, int]:
    assert problem.source is not None
    return problem.source.line, problem.source.column


def assert_never_shown(problems: list[Problem], secret: str) -> None:
    """Not in words, not in the line that is shown, not as text and not as JSON."""
    lines = [render(line) for one in problems for line in problems_view.one(one)]
    shown = "\n".join((*lines, json.dumps(document("plan", 1, problems=problems))))
    body = max(re.findall(r"[0-9A-Za-z+/_-]+", secret), key=len)
    assert body[-6:] not in shown, shown[:2000]


def judged(sample: Sample, content: bytes) -> list[Problem]:
    if sample.schema != "settings":
        return list(JUDGE.judge("specs/x.yaml", content).problems)
    with pytest.raises(ProblemError) as caught:
        parse_settings(Path("/fleet"), content, SCHEMAS["settings"])
    return list(caught.value.problems)


@pytest.mark.parametrize(
    "written",
    [
        '"\\x2d\\x2d\\x2d\\x2d\\x2d\\x42EGIN \\x50RIVATE KEY-----"',
        '"gh\\x70_' + "Q" * 36 + '"',
        '"AKI\\\n  A' + "Q" * 16 + '"',
    ],
)
def test_a_secret_that_is_written_with_escapes_is_one(written: str) -> None:
    content = f"kind: User\nmetadata: {{name: x}}\nspec:\n  displayName: {written}\n"
    found = JUDGE.judge("x.yaml", content.encode()).problems
    assert {p.code for p in found} & CODES


@pytest.mark.parametrize("sort", ["OPENSSH ", "RSA "])
def test_a_key_that_was_pasted_as_it_is_breaks_the_yaml_and_is_not_shown(sort: str) -> None:
    """F-PLN-06: the place of the error is a line of the key."""
    key = HEAD.format(sort) + "\n".join([BODY] * 4) + TAIL.format(sort)
    for before in ("  keys: [{id: a, publicKey: ", "  displayName: ", "  note: |\n", ""):
        content = f"kind: User\nmetadata: {{name: x}}\nspec:\n{before}{key}"
        problems = list(JUDGE.judge("x.yaml", content.encode()).problems)
        assert problems
        assert_never_shown(problems, BODY)


@pytest.mark.parametrize("value", ["x", "12345", "[x]"])
def test_what_is_called_a_secret_is_one(value: str) -> None:
    for name in ("password", "passphrase", "HF_TOKEN", "client_secret", "accessKey", "private_key"):
        content = f"kind: App\nspec:\n  params: {{{name}: {value}}}\n".encode()
        codes = {p.code for p in JUDGE.judge("x.yaml", content).problems}
        assert ("secret_in_spec" in codes) is (value != "[x]"), name
