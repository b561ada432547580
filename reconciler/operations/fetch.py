"""Fetches a published file, by path or over the web, within bounds."""

from __future__ import annotations

import os
import re
import stat
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException, HTTPMessage, InvalidURL
from io import BufferedIOBase
from pathlib import Path
from typing import IO, cast
from urllib.parse import urljoin, urlsplit, urlunsplit

from reconciler.model.problem import ProblemError, refuse
from reconciler.model.records import dataclass
from reconciler.specs.regular_file import at_once

LARGEST = 16 * 1024 * 1024
SECONDS = 15
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Want:
    """How a file is fetched: allowed sources, the largest size, and the words for a failure.

    What follows the `?` of an address, or precedes its `@`, may be a key: nobody is shown it.
    """

    schemes: tuple[str, ...] = ("https", "http")
    largest: int = LARGEST
    seconds: int = SECONDS
    code: str = "published_unreadable"
    hint: str = "ask an operator where things are published: publish.dir in gpuaas.yaml"

    def refusal(self, place: str, why: str, hint: str = "") -> ProblemError:
        return refuse(self.code, f"{shown(place)}: {why}", hint or self.hint)


PUBLISHED = Want()


def is_web(source: str) -> bool:
    """Whether it is an address rather than a path."""
    return _SCHEME.match(source) is not None


def fetch(source: str) -> bytes:
    """The whole content. Raises ProblemError `published_unreadable`."""
    with _opened(source, PUBLISHED) as opened:
        return b"".join(_bounded(opened, source, PUBLISHED))


def fetch_to(source: str, target: Path, want: Want) -> None:
    """Fetch what may be large into a new file, 0600. Raises ProblemError `want.code`."""
    with (
        _opened(source, want) as opened,
        open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file,
    ):
        for chunk in _bounded(opened, source, want):
            file.write(chunk)


def unreadable(place: str, why: str, hint: str = "") -> ProblemError:
    return PUBLISHED.refusal(place, why, hint)


def shown(source: str) -> str:
    """A path as it is; an address without what may be secret."""
    if not is_web(source):
        return source
    try:
        parts = urlsplit(source)
        query = "..." if parts.query else ""
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, query, ""))
    except ValueError:
        return "an address that is none"


class _SameOrSafer(urllib.request.HTTPRedirectHandler):
    """Follows a redirect to the web alone, and never from https back to http."""

    def http_error_302(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage
    ) -> IO[bytes] | None:
        target = urljoin(req.full_url, headers.get("location", ""))
        if not _speaks(target, "https", *(("http",) if req.type == "http" else ())):
            raise urllib.error.URLError(f"it redirects to {shown(target)}")
        return super().http_error_302(req, fp, code, msg, headers)

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


def _speaks(address: str, *schemes: str) -> bool:
    match = _SCHEME.match(address)
    return match is not None and match[1].lower() in schemes


@contextmanager
def _opened(source: str, want: Want) -> Iterator[BufferedIOBase]:
    if is_web(source):
        with _telling_web(source, want), _from_web(source, want) as opened:
            yield opened
    else:
        with _telling_file(source, want), _from_file(source, want) as opened:
            yield opened


def _from_web(address: str, want: Want) -> BufferedIOBase:
    if not _speaks(address, *want.schemes):
        verb = "are" if len(want.schemes) > 1 else "is"
        told = f"only {' and '.join(want.schemes)} {verb} read"
        raise want.refusal(address, told, "give such an address")
    opener = urllib.request.build_opener(_SameOrSafer())
    return cast(BufferedIOBase, opener.open(address, timeout=SECONDS))


@contextmanager
def _telling_web(address: str, want: Want) -> Iterator[None]:
    try:
        yield
    except urllib.error.HTTPError as error:
        raise want.refusal(address, f"the server says {error.code} {error.reason}") from error
    except urllib.error.URLError as error:
        raise want.refusal(address, str(error.reason)) from error
    except InvalidURL as error:
        # Its own words repeat all of it.
        raise want.refusal(address, "that is no address") from error
    except (OSError, ValueError, HTTPException) as error:
        raise want.refusal(address, str(error) or type(error).__name__) from error


@contextmanager
def _from_file(path: str, want: Want) -> Iterator[BufferedIOBase]:
    """Of a regular file alone: whoever may write there could lay a pipe that never ends."""
    with open(path, "rb", opener=at_once) as opened:
        if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
            raise want.refusal(path, "it is no regular file")
        yield opened


@contextmanager
def _telling_file(path: str, want: Want) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise want.refusal(path, error.strerror or str(error)) from error


def _bounded(opened: BufferedIOBase, place: str, want: Want) -> Iterator[bytes]:
    """All of the content, if it is not too large and does not take too long."""
    until = time.monotonic() + want.seconds
    size = 0
    # What has come is taken at once: a server that drips would else be waited for chunk by chunk.
    while chunk := opened.read1(1 << 16):
        size += len(chunk)
        if size > want.largest:
            raise want.refusal(place, f"more than {want.largest >> 20} MiB")
        if time.monotonic() > until:
            raise want.refusal(place, f"it was not there in full after {want.seconds} s")
        yield chunk
