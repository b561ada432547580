"""SHA-256 in Python, because loading OpenSSL takes longer than an observation needs to digest."""

from __future__ import annotations

from typing import Any, Callable


class Digest:
    """What a digest can be asked; those of all the modules below are alike."""

    update: Callable[[bytes], None]
    digest: Callable[[], bytes]
    hexdigest: Callable[[], str]


def _own() -> Any:
    """As Python 3.12 and newer call it, then older ones, then where it always is."""
    for name in ("_sha2", "_sha256", "hashlib"):
        try:
            return __import__(name).sha256
        except ImportError:
            continue
    raise ImportError("this Python has no SHA-256")


sha256: Callable[..., Digest] = _own()
