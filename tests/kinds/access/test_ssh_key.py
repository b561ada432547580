"""What counts as one plain OpenSSH public key; blobs are built here byte by byte."""

from __future__ import annotations

import base64
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.kinds.access.ssh_key import COMMENT_LIMIT, SshKey, parse_public_key
from reconciler.model.codes import CODES
from reconciler.model.problem import Problem


def text(part: bytes | str) -> bytes:
    raw = part.encode() if isinstance(part, str) else part
    return len(raw).to_bytes(4, "big") + raw


def number(value: int) -> bytes:
    return text(value.to_bytes(value.bit_length() // 8 + 1, "big"))


def key(kind: str, *parts: bytes, comment: str = "ana@laptop", inside: str = "") -> str:
    blob = base64.b64encode(text(inside or kind) + b"".join(parts)).decode()
    return f"{kind} {blob} {comment}".rstrip()


def rsa(bits: int, exponent: int = 65537) -> str:
    return key("ssh-rsa", number(exponent), number((1 << (bits - 1)) | 1))


POINT = {curve: b"\x04" + bytes(2 * size) for curve, size in ((256, 32), (384, 48), (521, 66))}
ED25519 = key("ssh-ed25519", text(bytes(range(32))))
PADDED = key("ecdsa-sha2-nistp256", text("nistp256"), text(POINT[256]))
TYPE, BLOB, _ = ED25519.split(" ")


def refusal(value: str) -> Problem:
    found = parse_public_key(value)
    assert isinstance(found, Problem), f"accepted: {found}"
    assert found.code in CODES
    assert found.message
    assert found.hint
    return found


@pytest.mark.parametrize(
    "value",
    [
        ED25519,
        key("ssh-ed25519", text(bytes(32)), comment=""),
        key("sk-ssh-ed25519@openssh.com", text(bytes(32)), text("ssh:")),
        key(
            "sk-ecdsa-sha2-nistp256@openssh.com", text("nistp256"), text(POINT[256]), text("ssh:x")
        ),
        PADDED,
        key("ecdsa-sha2-nistp384", text("nistp384"), text(POINT[384])),
        key("ecdsa-sha2-nistp521", text("nistp521"), text(POINT[521])),
        rsa(2048),
        rsa(4096),
    ],
)
def test_sound_keys_are_accepted(value: str) -> None:
    """F-GRT-06: security keys and every modern type."""
    found = parse_public_key(value)
    assert isinstance(found, SshKey), found
    assert f"{found.type} {found.blob} {found.comment}".rstrip() == value


@pytest.mark.parametrize(
    ("value", "code", "word"),
    [
        (key("ssh-dss", number(5), number(7)), "key_weak", "DSA"),
        (rsa(1024), "key_weak", "1024 bits"),
        (rsa(2047), "key_weak", "2047 bits"),
        (rsa(2048, exponent=1), "key_invalid", "RSA"),
        (key("ssh-ed25519", text(bytes(32)), inside="ssh-rsa"), "key_invalid", "its blob says"),
        (key("ssh-ed25519", text(bytes(31))), "key_invalid", "32 bytes"),
        (key("ssh-ed25519", text(bytes(32)), b"\0"), "key_invalid", "after the end"),
        (key("ecdsa-sha2-nistp256", text("nistp384"), text(POINT[256])), "key_invalid", "curve"),
        (key("ecdsa-sha2-nistp256", text("nistp256"), text(POINT[384])), "key_invalid", "point"),
        (key("sk-ssh-ed25519@openssh.com", text(bytes(32))), "key_invalid", "ends too early"),
        (key("sk-ssh-ed25519@openssh.com", text(bytes(32)), text("x")), "key_invalid", "ssh:"),
        (f"{TYPE} {BLOB[:-1]} c", "key_invalid", "base64"),
        (f"{TYPE} {BLOB[:-4]} c", "key_invalid", "ends too early"),
        (PADDED.replace("=", ""), "key_invalid", "base64"),
        (f"{TYPE} {BLOB[:20]}-{BLOB[21:]}", "key_invalid", "base64"),
        (f"{TYPE}", "key_invalid", "base64"),
        ("", "key_invalid", "key type"),
        ("ssh-ed25519-cert-v01@openssh.com AAAA", "key_invalid", "certificate"),
        ("ssh-ed448 AAAA", "key_invalid", "ssh-ed448"),
    ],
)
def test_weak_mismatched_and_broken_keys_are_refused_with_the_reason(
    value: str, code: str, word: str
) -> None:
    """F-GRT-06: dss, short rsa, another type inside the blob, truncated base64, no padding."""
    found = refusal(value)
    assert (found.code, word in found.message) == (code, True), found


@pytest.mark.parametrize(
    "value",
    [
        f'command="/bin/sh" {ED25519}',
        f'environment="LD_PRELOAD=/tmp/x" {ED25519}',
        f'from="10.0.0.1" {ED25519}',
        f"restrict {ED25519}",
        f"cert-authority,no-pty {ED25519}",
        f"junk {ED25519}",
        f"# {ED25519}",
        f"{BLOB} {TYPE}",
        *(f"{ED25519}{char}" for char in "\n\r\0\v\t\f\x1b\x7f\x85\u2028\u2029\u202e"),
        *(f"{TYPE}{char}{BLOB}" for char in "\n\t\xa0"),
        f"{ED25519}\n{ED25519}",
        f"{ED25519} {ED25519}",
        f"{TYPE} {BLOB} {BLOB}",
        f"{TYPE} {BLOB} ssh-rsa",
        f"{TYPE} {BLOB} " + "c" * 10_000,
        f"{TYPE} {BLOB} " + "c" * (COMMENT_LIMIT + 1),
    ],
)
def test_a_key_that_carries_orders_is_refused(value: str) -> None:
    """F-GRT-01: options, line breaks and control characters, two keys, junk, a long comment."""
    assert refusal(value).code == "key_invalid"


@pytest.mark.parametrize("marker", ["OPENSSH PRIVATE KEY", "RSA PRIVATE KEY", "PRIVATE KEY"])
def test_a_private_key_is_called_by_its_name_and_never_repeated(marker: str) -> None:
    """SEC-06: whoever reads the problem learns nothing of the secret."""
    secret = "b3BlbnNzaC1rZXktdjEAAAAABG5vbmU"
    found = refusal(f"-----BEGIN {marker}-----\n{secret}\n")
    assert found.code == "private_key_in_spec"
    assert secret not in found.message + found.hint
    assert secret not in refusal(secret).message


@given(st.text(max_size=200))
def test_no_text_breaks_the_parser(value: str) -> None:
    """F-GRT-01: whatever stands there, the answer is a key of one clean line or a reason."""
    found = parse_public_key(value)
    assert isinstance(found, Problem)


@given(st.integers(0, len(ED25519) - 1), st.characters())
def test_one_changed_character_never_makes_a_second_line(at: int, char: str) -> None:
    """F-GRT-01: what is rebuilt from an accepted key holds no character that it should not."""
    found = parse_public_key(ED25519[:at] + char + ED25519[at + 1 :])
    if isinstance(found, SshKey):
        assert f"{found.type} {found.blob}".isascii()
        assert f"{found.type} {found.blob}".isprintable()


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not installed")
@pytest.mark.parametrize("arguments", ["ed25519", "ecdsa -b 384", "rsa -b 2048"])
def test_the_fingerprint_is_that_of_ssh_keygen(tmp_path: Path, arguments: str) -> None:
    """ACC-03: people compare what we print with what their own tool prints."""
    made = ["-q", "-N", "", "-f", str(tmp_path / "key"), "-t", *arguments.split()]
    subprocess.run(["ssh-keygen", *made], check=True)
    told = subprocess.run(
        ["ssh-keygen", "-lf", str(tmp_path / "key.pub")], check=True, capture_output=True, text=True
    ).stdout.split()[1]
    found = parse_public_key((tmp_path / "key.pub").read_text().strip())
    assert isinstance(found, SshKey)
    assert found.fingerprint == told
