"""Whoever is told: programs and webhooks that work, are slow, are gone, or are somebody else."""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from reconciler import shipped
from reconciler.model.problem import ProblemError
from reconciler.model.settings import NotificationSettings, WebhookSettings
from reconciler.operations.notifications import command, delivery, webhook
from reconciler.operations.notifications.channel import Channel
from reconciler.operations.notifications.delivery import Delivery
from reconciler.operations.notifications.news import Level, News
from reconciler.operations.notifications.webhook import post
from reconciler.specs.settings import parse_settings
from tests.harness.yard import ROOT

SECRET = "QQsecretQQpathQQ"
AT = "2026-11-01T00:00:00Z"
NEWS = News(level=Level.ERROR, event="failed", about="node/gpu01", code="host_timeout", text="x")
OVER = News(level=Level.NOTICE, event="recovered", about="node/gpu01", text="y", ends="failed")
PATIENCE = 10.0


@dataclass
class Inbox:
    """A webhook of this machine; `status` is what it answers."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    bodies: list[bytes] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/{SECRET}"

    def holds(self, number: int) -> bool:
        until = time.monotonic() + PATIENCE
        while len(self.bodies) < number and time.monotonic() < until:
            time.sleep(0.02)
        return len(self.bodies) >= number


@contextmanager
def inbox(context: ssl.SSLContext | None = None) -> Iterator[Inbox]:
    found = Inbox()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            found.paths.append(self.path)
            found.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(found.status)
            for name, value in found.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    found.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()


def hook(folder: Path, url: str, form: str = "json") -> WebhookSettings:
    file = folder / "url"
    file.write_text(f"{url}\n")
    file.chmod(0o600)
    return WebhookSettings(url_file="url", format=form)


@contextmanager
def telling(folder: Path, stated: NotificationSettings) -> Iterator[Delivery]:
    made = Delivery(
        stated=stated, fleet="lab", folder=folder, channel=Channel(), first_seconds=0.05
    )
    made.start()
    yield made
    made.stop(PATIENCE)


def why(folder: Path, hook: WebhookSettings) -> str:
    found = post(hook, folder, b"{}")
    return found.why if found else ""


@pytest.mark.parametrize("form", ["json", "slack"])
def test_a_webhook_is_told_and_told_that_it_is_over(tmp_path: Path, form: str) -> None:
    with inbox() as box:
        stated = NotificationSettings(name="chat", webhook=hook(tmp_path, box.url, form))
        with telling(tmp_path, stated) as made:
            made.channel.take([NEWS], stated, AT)
            assert box.holds(1)
            made.channel.take([NEWS], stated, AT)
            made.channel.take([OVER], stated, AT)
            assert box.holds(2)
        assert [json.loads(body)["text"] for body in box.bodies] == ["[lab] x", "[lab] y"]
        assert (made.delivered, made.failed, made.why) == (2, 0, "")


def test_what_is_refused_is_tried_again(tmp_path: Path) -> None:
    with inbox() as box:
        box.status = 503
        stated = NotificationSettings(name="chat", webhook=hook(tmp_path, box.url))
        with telling(tmp_path, stated) as made:
            made.channel.take([NEWS], stated, AT)
            assert box.holds(2)
            assert made.why == "HTTP 503"
            box.status = 204
            assert box.holds(3)
            for _ in range(100):
                if made.delivered:
                    break
                time.sleep(0.02)
        assert (made.delivered, made.why) == (1, "")
        assert made.failed >= 2
        assert len({*box.bodies}) == 1


def test_a_dead_one_keeps_nobody_waiting(tmp_path: Path) -> None:
    """It takes the connection and says nothing: the loop only lays down what is to be told."""
    with socket.socket() as dead:
        dead.bind(("127.0.0.1", 0))
        dead.listen()
        url = f"http://127.0.0.1:{dead.getsockname()[1]}/"
        stated = NotificationSettings(name="chat", webhook=hook(tmp_path, url))
        made = Delivery(stated=stated, fleet="lab", folder=tmp_path, channel=Channel())
        made.start()
        began = time.monotonic()
        for number in range(1000):
            news = News(
                level=Level.ERROR, event="failed", about=f"node/gpu{number}", code="x", text="x"
            )
            made.channel.take([news], stated, AT)
        assert time.monotonic() - began < 5
        made.stop(0)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_who_died_of_a_defect_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody else would say that nobody is told any more."""

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Delivery, "_attempt", broken)
    stated = NotificationSettings(name="chat", command=("/bin/true",))
    with telling(tmp_path, stated) as one:
        one.channel.take([NEWS], stated, AT)
        assert one.thread is not None
        one.thread.join(10)
        assert "died" in one.trouble


def test_one_that_answers_a_letter_at_a_time_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook, "ALL_SECONDS", 0.5)
    over = threading.Event()
    with socket.socket() as slow:
        slow.bind(("127.0.0.1", 0))
        slow.listen()

        def drip() -> None:
            other, _ = slow.accept()
            with other:
                while not over.wait(0.1):
                    try:
                        other.send(b"H")
                    except OSError:
                        return

        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        began = time.monotonic()
        assert why(tmp_path, hook(tmp_path, f"http://127.0.0.1:{slow.getsockname()[1]}/"))
        assert time.monotonic() - began < 5
        over.set()
        thread.join(5)


def test_nobody_is_sent_elsewhere(tmp_path: Path) -> None:
    with inbox() as other, inbox() as box:
        box.status, box.headers = 307, {"Location": other.url}
        assert why(tmp_path, hook(tmp_path, box.url)) == "HTTP 307"
        assert other.bodies == []


def test_how_long_to_wait_is_taken_from_whoever_says_so(tmp_path: Path) -> None:
    with inbox() as box:
        box.status, box.headers = 429, {"Retry-After": "30"}
        found = post(hook(tmp_path, box.url), tmp_path, b"{}")
        assert found is not None
        assert (found.why, found.after) == ("HTTP 429", 30.0)
        box.headers = {"Retry-After": "-1; rm"}
        found = post(hook(tmp_path, box.url), tmp_path, b"{}")
        assert found is not None
        assert found.after == 0.0


def test_a_certificate_that_nobody_vouches_for_is_not_believed(tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate(tmp_path))
    with inbox(context) as box:
        url = box.url.replace("http://127.0.0.1", "https://localhost")
        assert why(tmp_path, hook(tmp_path, url)) == "its certificate is not trusted"
        assert box.bodies == []


def certificate(folder: Path) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), False)
        .sign(key, hashes.SHA256())
    )
    paths = folder / "cert.pem", folder / "key.pem"
    paths[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return paths


@pytest.mark.parametrize(
    "url",
    [
        "http://chat.corp.example/",
        "http://10.0.0.1/",
        "ftp://chat.corp.example/",
        "https://bob:pw@chat.corp.example/",
        "https:///x",
        "https://chat.corp.example:0/",
        "https://chat.corp.example:x/",
        "https://chat.corp.example/\r\nX: y",
        "https://chat.corp.example/a b",
        "",
    ],
)
def test_what_is_no_address_is_not_asked_and_not_shown(tmp_path: Path, url: str) -> None:
    told = why(tmp_path, hook(tmp_path, url + SECRET if url else ""))
    assert "holds" in told and SECRET not in told and "example" not in told


def test_an_address_that_others_can_read_is_not_used(tmp_path: Path) -> None:
    with inbox() as box:
        stated = hook(tmp_path, box.url)
        (tmp_path / "url").chmod(0o644)
        assert "can be read by others" in why(tmp_path, stated)
        (tmp_path / "url").unlink()
        assert "No such file" in why(tmp_path, stated)
        assert box.bodies == []


def test_an_address_in_a_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with inbox() as box:
        monkeypatch.setenv("CHAT_URL", box.url)
        assert why(tmp_path, WebhookSettings(url_variable="CHAT_URL")) == ""
        assert box.paths == [f"/{SECRET}"]
        told = why(tmp_path, WebhookSettings(url_variable="OTHER_URL"))
        assert told == "$OTHER_URL holds no address"


def test_no_reason_shows_the_address(tmp_path: Path) -> None:
    """Slack's is all that it takes to write there."""
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        port = place.getsockname()[1]
    with inbox() as box:
        box.status = 404
        urls = (box.url, f"http://127.0.0.1:{port}/{SECRET}", f"https://no.invalid/{SECRET}")
        for url in (*urls, f"https://127.0.0.1:{box.port}/{SECRET}"):
            told = why(tmp_path, hook(tmp_path, url))
            assert told and SECRET not in told and "127.0.0.1" not in told


PROGRAM = """#!/bin/sh
cat > "$1"
env > "$1.env"
exit "$2"
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "tell"
    path.write_text(PROGRAM)
    path.chmod(0o755)
    return path


def test_a_program_is_told_by_words_and_its_input(
    tmp_path: Path, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No shell looks at them; credentials of the loop's environment are none of its business."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    there = tmp_path / "a b; $(touch x)"
    stated = NotificationSettings(name="pager", command=(str(program), str(there), "0"))
    with telling(tmp_path, stated) as made:
        made.channel.take([NEWS], stated, AT)
        for _ in range(200):
            if made.delivered:
                break
            time.sleep(0.02)
    assert json.loads(there.read_text())["items"][0]["code"] == "host_timeout"
    assert SECRET not in Path(f"{there}.env").read_text()


def test_a_program_that_fails_is_said(
    tmp_path: Path, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert command.run([str(program), str(tmp_path / "x"), "0"], b"{}") == ""
    assert command.run([str(program), str(tmp_path / "x"), "7"], b"{}") == "exit 7"
    assert "cannot be started" in command.run([str(tmp_path / "none")], b"{}")
    assert "cannot be started" in command.run(["/bin/\0"], b"{}")
    assert command.run(["/bin/true"], b"x" * 1_000_000) == ""
    monkeypatch.setattr(command, "SECONDS", 0.3)
    began = time.monotonic()
    assert "did not end" in command.run(["/bin/sh", "-c", "sleep 60 & wait"], b"{}")
    assert time.monotonic() - began < 5


def test_what_nobody_takes_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "GIVEN_UP_SECONDS", 0.2)
    stated = NotificationSettings(name="pager", command=("/bin/false",))
    with telling(tmp_path, stated) as made:
        made.channel.take([NEWS], stated, AT)
        for _ in range(300):
            if made.channel.dropped:
                break
            time.sleep(0.02)
        assert made.channel.dropped == 1
        assert made.why == "exit 1"


@pytest.mark.parametrize("page", ["monitoring", "notifications"])
def test_what_the_pages_show_are_settings(page: str) -> None:
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    shown = text.split("```yaml\n")[1].split("```")[0]
    content = f"operators: [olga]\n{shown}".encode()
    found = parse_settings(ROOT, content, shipped.schemas()["settings"])
    assert found.notifications or found.loop.metrics.listen


@pytest.mark.parametrize(
    "stated",
    [
        "{name: a}",
        "{name: a, command: [/bin/true], webhook: {urlFile: x}}",
        "{name: a, command: [page]}",
        "{name: a, webhook: {}}",
        "{name: a, webhook: {urlFile: x, urlVariable: X}}",
        "{name: a, command: [/bin/true], template: $nothing}",
    ],
)
def test_settings_that_mean_nothing_are_refused(stated: str) -> None:
    content = f"operators: [olga]\nnotifications: [{stated}]\n".encode()
    with pytest.raises(ProblemError) as refused:
        parse_settings(ROOT, content, shipped.schemas()["settings"])
    (problem,) = refused.value.problems
    assert (problem.code, problem.source and problem.source.line) == ("settings_invalid", 2)


def test_an_address_of_a_chat_is_no_setting() -> None:
    url = "https://hooks.slack.com/services/T" + "Q" * 24
    content = f'operators: [olga]\nnotifications: [{{name: a, command: [/bin/c, "{url}"]}}]\n'
    with pytest.raises(ProblemError) as refused:
        parse_settings(ROOT, content.encode(), shipped.schemas()["settings"])
    assert [one.code for one in refused.value.problems] == ["secret_in_spec"]
    assert "QQQ" not in str(refused.value.problems)
