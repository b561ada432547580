"""Notification by a webhook: one POST to an address that may be a secret and is never shown.

What is told of a failure are words of this module's own: those of a library may hold the address.
"""

from __future__ import annotations

import http.client
import os
import socket
import ssl
import stat
import threading
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from reconciler import __version__
from reconciler.model.records import dataclass
from reconciler.model.settings import WebhookSettings

SECONDS, ALL_SECONDS = 10.0, 30.0
"""Of one word of an answer, and of all together."""
MOST_ANSWER, MOST_ADDRESS = 4096, 4096
OTHERS = stat.S_IRGRP | stat.S_IWGRP | stat.S_IROTH | stat.S_IWOTH


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryRefusal:
    """Why nothing was delivered; `after` is in how many seconds it may be tried, if it was said."""

    why: str
    after: float = 0.0


class _NoAddress(Exception):
    """With words of our own."""


def post(hook: WebhookSettings, folder: Path, body: bytes) -> DeliveryRefusal | None:
    """POST a message. The address is read anew each time, so that it can be changed without a
    restart.
    """
    try:
        place = _address(hook, folder)
    except _NoAddress as error:
        return DeliveryRefusal(why=str(error))
    connection = _connection(place)
    path = f"{place.path or '/'}{f'?{place.query}' if place.query else ''}"
    headers = {
        "Content-Type": "application/json",
        "User-Agent": f"gpuaas/{__version__}",
        "Connection": "close",
    }
    timer = threading.Timer(ALL_SECONDS, _cut, [connection])
    timer.daemon = True
    timer.start()
    try:
        connection.request("POST", path, body, headers)
        answer = connection.getresponse()
        answer.read(MOST_ANSWER)
    except ssl.SSLCertVerificationError:
        return DeliveryRefusal(why="its certificate is not trusted")
    except ssl.SSLError:
        return DeliveryRefusal(why="no TLS with it")
    except TimeoutError:
        return DeliveryRefusal(why=f"no answer within {SECONDS:.0f} s")
    except socket.gaierror:
        return DeliveryRefusal(why="its host has no address")
    except OSError as error:
        more = f": {os.strerror(error.errno)}" if error.errno else ""
        return DeliveryRefusal(why=f"it cannot be reached{more}")
    except (http.client.HTTPException, ValueError):
        return DeliveryRefusal(why="it answers no HTTP")
    finally:
        timer.cancel()
        connection.close()
    if 200 <= answer.status < 300:
        return None
    return DeliveryRefusal(
        why=f"HTTP {answer.status}", after=_after(answer.headers.get("Retry-After"))
    )


def _address(hook: WebhookSettings, folder: Path) -> SplitResult:
    where = hook.url_file or f"${hook.url_variable}"
    text = (
        _read(folder / hook.url_file)
        if hook.url_file
        else os.environ.get(hook.url_variable, "").strip()
    )
    if not text:
        raise _NoAddress(f"{where} holds no address")
    if not text.isascii() or not text.isprintable() or " " in text:
        raise _NoAddress(f"{where} holds no address: one line of plain characters")
    try:
        place = urlsplit(text)
        known = place.port != 0 and bool(place.hostname)
    except ValueError:
        known = False
    if not known or place.username is not None or place.password is not None:
        raise _NoAddress(f"{where} holds no address of a host, or one with a login")
    if place.scheme != "https" and not (place.scheme == "http" and _is_here(place.hostname or "")):
        raise _NoAddress(f"{where} holds an address that is not https")
    return place


def _read(path: Path) -> str:
    """The address, from a file that nobody else can read or change."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(handle, "rb") as file:
            found = os.fstat(handle)
            if not stat.S_ISREG(found.st_mode):
                raise _NoAddress(f"{path} is no file")
            if found.st_mode & OTHERS or found.st_uid not in (0, os.geteuid()):
                raise _NoAddress(f"{path} can be read by others, and may hold a secret: chmod 600")
            return file.read(MOST_ADDRESS).decode("ascii", "replace").strip()
    except OSError as error:
        raise _NoAddress(f"{path} cannot be read: {error.strerror}") from None


def _connection(place: SplitResult) -> http.client.HTTPConnection:
    host = place.hostname or ""
    if place.scheme == "https":
        context = ssl.create_default_context()
        return http.client.HTTPSConnection(host, place.port, timeout=SECONDS, context=context)
    return http.client.HTTPConnection(host, place.port, timeout=SECONDS)


def _cut(connection: http.client.HTTPConnection) -> None:
    """Whoever answers a letter at a time is not waited for."""
    with suppress(OSError, AttributeError):
        connection.sock.shutdown(socket.SHUT_RDWR)


def _is_here(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _after(text: str | None) -> float:
    return float(text) if text is not None and text.isdecimal() and len(text) < 5 else 0.0
