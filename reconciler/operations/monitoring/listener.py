"""A listener on the loopback: /metrics and /healthz, answered by threads of their own.

What it tells was made before anybody asked: no request reads the state, waits for a round, or
keeps one waiting, and a loop that hangs is still told of.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

from reconciler import __version__

AT_ONCE, PATIENCE_SECONDS = 8, 5.0
"""So many are answered at a time, and nobody is waited for longer."""


class HttpResponse(NamedTuple):
    status: HTTPStatus
    kind: str
    body: bytes


Answers = Callable[[str], HttpResponse | None]
"""By path; None for one that there is not."""

ABSENT = HttpResponse(HTTPStatus.NOT_FOUND, "text/plain", b"/metrics and /healthz\n")


class HttpListener:
    """A listener on a loopback port. Raises OSError where the port cannot be had."""

    def __init__(self, address: str, answers: Answers) -> None:
        host, _, port = address.rpartition(":")
        self._server = _Server((host.strip("[]"), int(port)), answers)
        self._thread = threading.Thread(target=self._server.serve_forever, name="listener")
        self._thread.daemon = True
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def lives(self) -> bool:
        return self._thread.is_alive()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=PATIENCE_SECONDS)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, place: tuple[str, int], answers: Answers) -> None:
        self.address_family = socket.AF_INET6 if ":" in place[0] else socket.AF_INET
        self.answers = answers
        self._room = threading.BoundedSemaphore(AT_ONCE)
        super().__init__(place, _Handler)

    def process_request(self, request: object, client_address: object) -> None:
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)  # type: ignore[arg-type]
            return
        super().process_request(request, client_address)  # type: ignore[arg-type]

    def process_request_thread(self, request: object, client_address: object) -> None:
        try:
            super().process_request_thread(request, client_address)  # type: ignore[arg-type]
        finally:
            self._room.release()

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore clients that hang up."""


class _Handler(BaseHTTPRequestHandler):
    timeout = PATIENCE_SECONDS
    server_version = f"gpuaas/{__version__}"
    sys_version = ""

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def _answer(self, *, with_body: bool) -> None:
        assert isinstance(self.server, _Server)
        found = self.server.answers(self.path.partition("?")[0]) or ABSENT
        self.send_response(found.status)
        self.send_header("Content-Type", found.kind)
        self.send_header("Content-Length", str(len(found.body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        if with_body:
            self.wfile.write(found.body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing of scrapes."""
