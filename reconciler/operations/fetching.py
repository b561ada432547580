"""Fetching a file that others have published, by path or over the web, within bounds."""

from __future__ import annotations

import os
import re
import stat
import time
import urllib.error
import urllib.request
from http.client import HTTPException, HTTPMessage
from io import BufferedIOBase
from typing import IO, cast
from urllib.parse import urljoin

from reconciler.model.problem import ProblemError, refuse
from reconciler.specs.regular_file import at_once

LARGEST = 16 * 1024 * 1024
SECONDS = 15
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)


def is_web(source: str) -> bool:
    """Whether it is an address rather than a path."""
    return _SCHEME.match(source) is not None


def fetch(source: str) -> bytes:
    """The whole content. Raises ProblemError `published_unreadable`."""
    return _from_web(source) if is_web(source) else _from_file(source)


def unreadable(place: str, why: str, hint: str = "") -> ProblemError:
    hint = hint or "ask an operator where things are published: publish.dir in gpuaas.yaml"
    return refuse("published_unreadable", f"{place}: {why}", hint)


class _SameOrSafer(urllib.request.HTTPRedirectHandler):
    """Follows a redirect to the web alone, and never from https back to http."""

    def http_error_302(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage
    ) -> IO[bytes] | None:
        target = urljoin(req.full_url, headers.get("location", ""))
        if not _speaks(target, "https", *(("http",) if req.type == "http" else ())):
            raise urllib.error.URLError(f"it redirects to {target}")
        return super().http_error_302(req, fp, code, msg, headers)

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


def _speaks(address: str, *schemes: str) -> bool:
    match = _SCHEME.match(address)
    return match is not None and match[1].lower() in schemes


def _from_web(address: str) -> bytes:
    if not _speaks(address, "https", "http"):
        raise unreadable(address, "only https and http are read", "give such an address")
    try:
        with urllib.request.build_opener(_SameOrSafer()).open(address, timeout=SECONDS) as opened:
            return _bounded(cast(BufferedIOBase, opened), address)
    except urllib.error.HTTPError as error:
        raise unreadable(address, f"the server says {error.code} {error.reason}") from error
    except urllib.error.URLError as error:
        raise unreadable(address, str(error.reason)) from error
    except (OSError, ValueError, HTTPException) as error:
        raise unreadable(address, str(error) or type(error).__name__) from error


def _from_file(path: str) -> bytes:
    """Of a regular file alone: whoever may write there could lay a pipe that never ends."""
    try:
        with open(path, "rb", opener=at_once) as opened:
            if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
                raise unreadable(path, "it is no regular file")
            return _bounded(opened, path)
    except OSError as error:
        raise unreadable(path, error.strerror or str(error)) from error


def _bounded(opened: BufferedIOBase, place: str) -> bytes:
    """All of it, if it is not too much and does not take too long."""
    until = time.monotonic() + SECONDS
    content = bytearray()
    # What has come is taken at once: a server that drips would else be waited for chunk by chunk.
    while chunk := opened.read1(1 << 16):
        content += chunk
        if len(content) > LARGEST:
            raise unreadable(place, f"more than {LARGEST >> 20} MiB")
        if time.monotonic() > until:
            raise unreadable(place, f"it was not there in full after {SECONDS} s")
    return bytes(content)
