"""Public keys: what counts as one plain OpenSSH public key, and its fingerprint.

A key is accepted only when its blob was read to the last byte; nobody writes its text on, since
a line for sshd is rebuilt from `type` and `blob` alone.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType

from reconciler.model.problem import Problem, ProblemError, refuse
from reconciler.model.records import dataclass

COMMENT_LIMIT = 128
RSA_MIN_BITS, RSA_MAX_BITS = 2048, 16384
TEXT_LIMIT = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class SshKey:
    """`blob` is canonical base64; `fingerprint` is spelt as `ssh-keygen -l` spells it."""

    type: str
    blob: str
    comment: str
    fingerprint: str


@lru_cache(maxsize=1 << 18)
def parse_public_key(text: str) -> SshKey | Problem:
    """The key in `text`, or why it is none: a Problem `key_invalid` or `key_weak` without place."""
    try:
        return _parse(text)
    except ProblemError as refused:
        return refused.problems[0]


def why_no_host_key(text: str) -> str:
    """Why a pinned key of a host is none; empty if it is one. How strong it is its host decides."""
    parsed = parse_public_key(text)
    if isinstance(parsed, SshKey) or parsed.code == "key_weak":
        return ""
    return f"{text[:40]}… is no host key: {parsed.message}"


def _parse(text: str) -> SshKey:
    if "PRIVATE KEY" in text:
        raise _no(
            "this is a private key",
            "make a new key pair now, and give the text of its .pub file",
            "private_key_in_spec",
        )
    if not text.isprintable():
        raise _no("line breaks or control characters inside the key", "give one key on one line")
    if len(text) > TEXT_LIMIT:
        raise _no(f"longer than {TEXT_LIMIT} characters", _COPY_WHOLE)
    kind, blob, comment = (*text.strip(" ").split(" ", 2), "", "")[:3]
    read = _reader(kind)
    data = _decode(blob)
    _Blob(data).read_as(kind, read)
    _check_comment(comment)
    return SshKey(type=kind, blob=blob, comment=comment, fingerprint=fingerprint(data))


def fingerprint(data: bytes) -> str:
    """`SHA256:…` of a decoded blob."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")


def listed(key: SshKey, comment: str) -> str:
    """The line that `ssh-keygen -l` shows of it: bits, fingerprint, comment, sort."""
    sort, bits = _LISTED[key.type]
    if not bits:
        blob = _Blob(base64.b64decode(key.blob))
        *_, modulus = blob.string(), blob.number(), blob.number()
        bits = modulus.bit_length()
    return f"{bits} {key.fingerprint} {comment} ({sort})"


def _no(reason: str, hint: str = "", code: str = "key_invalid") -> ProblemError:
    return refuse(code, reason, hint)


def _reader(kind: str) -> Reader:
    if kind in _READERS:
        return _READERS[kind]
    if kind == "ssh-dss":
        raise _no("DSA keys are no longer safe", _MAKE_ONE, "key_weak")
    if "-cert-v" in kind:
        raise _no("a certificate is no public key", "give the key that was certified")
    if not _WORD.fullmatch(kind):
        # Nothing of it is repeated: what was pasted here may be secret.
        raise _no("it does not start with a key type; options are not allowed", _ACCEPTED)
    raise _no(f"{kind} is no accepted key type", _ACCEPTED)


def _decode(blob: str) -> bytes:
    try:
        data = base64.b64decode(blob, validate=True)
    except (binascii.Error, ValueError):
        raise _no("the middle part is no whole base64: cut off?", _COPY_WHOLE) from None
    if not data or base64.b64encode(data).decode() != blob:
        raise _no("the middle part is no canonical base64", _COPY_WHOLE)
    return data


def _check_comment(comment: str) -> None:
    if len(comment) > COMMENT_LIMIT:
        raise _no(f"the comment is longer than {COMMENT_LIMIT} characters", "shorten it")
    if any(word in _READERS or word.startswith("AAAA") for word in comment.split()):
        raise _no("two keys in one value", "make an entry in the list for each key")


class _Blob:
    """Reads the wire format of RFC 4251: strings with a length in front."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def read_as(self, kind: str, read: Reader) -> None:
        inside = self.string()
        if inside != kind.encode():
            raise _no(f"it says {kind}, but its blob says {inside[:40]!r}", _COPY_WHOLE)
        read(self)
        if self._at != len(self._data):
            raise _no("bytes after the end of the key", _COPY_WHOLE)

    def string(self) -> bytes:
        start = self._at + 4
        end = start + int.from_bytes(self._data[self._at : start], "big")
        if start > len(self._data) or end > len(self._data):
            raise _no("the blob ends too early", _COPY_WHOLE)
        self._at = end
        return self._data[start:end]

    def number(self) -> int:
        """A positive multiple-precision integer in its shortest form."""
        raw = self.string()
        value = int.from_bytes(raw, "big", signed=True)
        if value <= 0 or len(raw) != value.bit_length() // 8 + 1:
            raise _no("a number in the blob is malformed", _COPY_WHOLE)
        return value


Reader = Callable[[_Blob], None]


def _ed25519(blob: _Blob) -> None:
    if len(blob.string()) != 32:
        raise _no("an Ed25519 key has 32 bytes", _COPY_WHOLE)


def _ecdsa(curve: str, size: int) -> Reader:
    def read(blob: _Blob) -> None:
        if blob.string() != curve.encode():
            raise _no(f"its blob does not name the curve {curve}", _COPY_WHOLE)
        point = blob.string()
        if len(point) != 1 + 2 * size or point[0] != 4:
            raise _no(f"its blob holds no point of {curve}", _COPY_WHOLE)

    return read


def _rsa(blob: _Blob) -> None:
    exponent, bits = blob.number(), blob.number().bit_length()
    if bits < RSA_MIN_BITS:
        raise _no(
            f"RSA with {bits} bits; at least {RSA_MIN_BITS} are needed", _MAKE_ONE, "key_weak"
        )
    if bits > RSA_MAX_BITS or exponent < 3 or exponent % 2 == 0:
        raise _no("an RSA key that OpenSSH does not take", _MAKE_ONE)


def _security_key(read_key: Reader) -> Reader:
    def read(blob: _Blob) -> None:
        read_key(blob)
        application = blob.string()
        if not application.startswith(b"ssh:") or not application.decode("latin-1").isprintable():
            raise _no("its blob does not name an ssh: application", _COPY_WHOLE)

    return read


_WORD = re.compile(r"[a-z][a-z0-9@.-]{0,31}")
_MAKE_ONE = "make a new one: ssh-keygen -t ed25519"
_COPY_WHOLE = "copy the whole line of the .pub file again"

_READERS: Mapping[str, Reader] = MappingProxyType(
    {
        "ssh-ed25519": _ed25519,
        "sk-ssh-ed25519@openssh.com": _security_key(_ed25519),
        "ecdsa-sha2-nistp256": _ecdsa("nistp256", 32),
        "ecdsa-sha2-nistp384": _ecdsa("nistp384", 48),
        "ecdsa-sha2-nistp521": _ecdsa("nistp521", 66),
        "sk-ecdsa-sha2-nistp256@openssh.com": _security_key(_ecdsa("nistp256", 32)),
        "ssh-rsa": _rsa,
    }
)
_LISTED: Mapping[str, tuple[str, int]] = MappingProxyType(
    {
        "ssh-ed25519": ("ED25519", 256),
        "sk-ssh-ed25519@openssh.com": ("ED25519-SK", 256),
        "ecdsa-sha2-nistp256": ("ECDSA", 256),
        "ecdsa-sha2-nistp384": ("ECDSA", 384),
        "ecdsa-sha2-nistp521": ("ECDSA", 521),
        "sk-ecdsa-sha2-nistp256@openssh.com": ("ECDSA-SK", 256),
        "ssh-rsa": ("RSA", 0),
    }
)
"""What `ssh-keygen -l` calls a type, and its bits; 0 where each key has its own."""
_ACCEPTED = "accepted: " + ", ".join(_READERS)
