"""A fleet on the books whose one host is a real sshd, and a web server that others publish on."""

from __future__ import annotations

import http.server
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from reconciler.model.host.capacity import Shape
from reconciler.model.moment import format_moment
from reconciler.model.plan.plan import Plan
from reconciler.model.spec.revision import Revision
from reconciler.model.state.world import Recorded
from reconciler.operations.journal import writing
from tests.harness.sshd import Sshd
from tests.harness.yard import Yard
from tests.planner import fleet as paper

SETTINGS = "operators: [olga]\npublish: {dir: public, sshHostSuffix: gpu}\n"
AT = format_moment(paper.NOW)


def on_the_books(folder: Path, door: Sshd, login: str = "root") -> Yard:
    """Two projects of one host, `account` and reached over SSH; nothing was asked of it by us."""
    folder.mkdir(parents=True)
    (folder / "gpuaas.yaml").write_text(SETTINGS, encoding="utf-8")
    (folder / "specs").mkdir()
    yard = Yard(folder)
    assert yard.gpuaas("init").code == 0
    host = paper.node(
        "gpu01",
        4,
        covers=(),
        isolation="account",
        root="/",
        address="192.0.2.1",
        publicAddress="127.0.0.1",
        ssh={"port": door.port},
        identity={"machineId": "5" * 32, "hostKeys": [door.host_key]},
    )
    people = [paper.user("ana", osLogins=["aortiz"]), paper.user("bo"), paper.user("cem")]
    projects = [paper.project("vision", "ana", "bo"), paper.project("nlp", "cem")]
    grant = paper.grant("bo-on-train", "train", "bo", expiresAt="none")
    plain = [recorded(one) for one in (host, *people, *projects, grant)]
    book(
        yard,
        *plain,
        held(paper.allocation("train"), login, "s0"),
        held(paper.allocation("eval", access=["bo"]), "eval-aaaa", "s1"),
        held(paper.allocation("bert", project="nlp", owner="cem"), "bert-aaaa", "s2"),
    )
    return yard


def recorded(document: Mapping[str, Any], **more: Any) -> Recorded:
    one = paper.resource(document)
    return Recorded(
        ref=one.ref, normal=one.normal, digest=one.digest, file=one.file, applied_at=AT, **more
    )


def held(document: Mapping[str, Any], login: str, slot: str) -> Recorded:
    name = document["metadata"]["name"]
    return recorded(
        {**document, "spec": {"access": [document["spec"]["owner"]], **document["spec"]}},
        id=f"id-{name}",
        login=login,
        node="gpu01",
        slots=(slot,),
        shape=Shape.GPU_SLICE,
        basis="b",
    )


def book(yard: Yard, *resources: Recorded, forget: tuple[Any, ...] = ()) -> None:
    """As an apply would have written them down."""
    made = Plan(
        revision=Revision(),
        desired_digest="",
        state_id="",
        serial=0,
        made_at=AT,
        fingerprint="sha256:f",
    )
    with writing(yard.fleet(), "test") as journal:
        run = journal.begin_run(made)
        journal.record(run, resources, forget)


@contextmanager
def agent(door: Sshd, folder: Path) -> Iterator[Mapping[str, str]]:
    """The environment of somebody whose ssh-agent holds the key that the sshd knows."""
    socket = folder / "agent"
    keeper = subprocess.Popen(["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.DEVNULL)
    try:
        environment = {**os.environ, "SSH_AUTH_SOCK": str(socket)}
        for _ in range(100):
            if socket.exists():
                break
            threading.Event().wait(0.05)
        subprocess.run(
            ["ssh-add", "-q", str(door.login_key)], env=environment, check=True, capture_output=True
        )
        yield environment
    finally:
        keeper.terminate()
        keeper.wait()


def shell(
    *words: str, cwd: Path, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """`gpuaas` in a process of its own, as it is typed."""
    program = (sys.executable, "-c", "from reconciler.cli.main import main; main()")
    return subprocess.run(
        [*program, *words],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


Answer = Callable[[http.server.BaseHTTPRequestHandler], None]


@contextmanager
def web(answer: Answer) -> Iterator[str]:
    """A web server whose every answer is `answer`'s; its address."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self)

        def log_message(self, format: str, *args: object) -> None:
            return

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def files_below(folder: Path) -> Answer:
    def answer(request: http.server.BaseHTTPRequestHandler) -> None:
        file = folder / request.path.lstrip("/")
        content = file.read_bytes() if file.is_file() else b"none"
        request.send_response(200 if file.is_file() else 404)
        request.end_headers()
        request.wfile.write(content)

    return answer
