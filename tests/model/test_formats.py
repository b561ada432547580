"""Formats: texts of the right characters that mean nothing are told apart from those that do."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from reconciler.model.formats import (
    why_no_card,
    why_no_email,
    why_no_host,
    why_no_index,
    why_no_jump,
    why_no_name,
    why_no_replica,
)

GOOD: tuple[tuple[Callable[[str], str], tuple[str, ...]], ...] = (
    (why_no_host, ("local", "gpu01", "gpu01.corp.example", "10.0.0.1", "255.255.255.254", "::1")),
    (
        why_no_host,
        ("fd00::12", "2001:db8::1", "::ffff:10.0.0.1", "1a.example", "xn--bcher-kva"),
    ),
    (why_no_name, ("gpu", "corp.example", "a" * 63)),
    (why_no_jump, ("jump", "ops@jump.example:2200", "user@[::1]:22", "[fd00::1]", "a,b@c:1,[::1]")),
    (why_no_index, ("https://x.example/simple/", "http://10.0.0.1:8080/", "file:///srv/wheels")),
    (why_no_index, ("https://[fd00::1]:443/simple", "https://me:secret@x.example/simple")),
    (why_no_email, ("ana@x.example", "9+bot@users.x.example", "root@localhost", "a..b@c")),
    (why_no_replica, ("/srv/copy", "~/copy", "file:///srv/copy", "s3://bucket/path?region=eu")),
    (why_no_replica, ("sftp://me@host.example:22/srv", "sftp://[fd00::1]:22/x", "abs://a@b/c")),
    (why_no_card, ("GPU-40b7b21a-8c48-4f0f-a2b8-51184c609854", "GPU-0", "GPU-gpu01-1")),
)
BAD: tuple[tuple[Callable[[str], str], tuple[str, ...]], ...] = (
    (why_no_email, ("@x", "a@", "a@-x.example", "a@x-.example", "a@b..c", "a")),
    (why_no_replica, ("s3://", "file://srv", "://x", "S 3://x", "sftp://a..b/x", "sftp://a:0/x")),
    (why_no_replica, ("sftp://300.1.1.1/x", "sftp://[::g]/x", "sftp:///x")),
    (why_no_host, ("300.1.1.1", "1.2.3", "10.0.0.1.5", "010.0.0.1", "a..b", "::::", "1:2", "a:22")),
    (why_no_host, ("fe80::1::2", "12345::", "a.-b", "a-.b", "-a", "a.b.", ".a", "::", "0.0.0.0")),
    (why_no_host, ("ff02::1", "224.0.0.1", "a" * 64, "a.123", "fe80::1%eth0", "[::1]", "")),
    (why_no_name, ("a..b", ".a", "a.", "-a", "a" * 64)),
    (why_no_jump, ("::1", "user@::1:22", "a:0", "a:65536", "a:", "@a", "A b@c", "a,,b")),
    (
        why_no_jump,
        ("none", "[a]", "[300.1.1.1]", "a@b@c", "[::1", "a,-oProxyCommand=x", "1.2.3"),
    ),
    (why_no_index, ("https://", "http:///x", "https://a..b/", "https://x:0/", "https://x:99999/")),
    (why_no_index, ("file://srv/wheels", "https://[::g]/", "https://300.1.1.1/")),
    (
        why_no_card,
        ("GPU-40b7b21a-8c48-4f0f-a2b8-51184c60985", "GPU-40b7b21a-8c48-4f0f-a2b8-5118-4c6"),
    ),
    (why_no_card, ("GPU-40b7b21g-8c48-4f0f-a2b8-51184c609854",)),
)


@pytest.mark.parametrize(("why", "text"), [(why, one) for why, texts in GOOD for one in texts])
def test_what_means_something_is_taken(why: Callable[[str], str], text: str) -> None:
    """F-REAL-19."""
    assert why(text) == ""


@pytest.mark.parametrize(("why", "text"), [(why, one) for why, texts in BAD for one in texts])
def test_what_means_nothing_is_told(why: Callable[[str], str], text: str) -> None:
    """F-REAL-19."""
    assert why(text)
