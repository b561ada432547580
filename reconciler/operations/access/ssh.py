"""`ssh`: how somebody logs in, from the state or from what is published."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from typing import NoReturn

from reconciler.hosts.ssh.local_port import free_port, tell_when_ours
from reconciler.hosts.ssh.openssh import (
    answer_of,
    become,
    forward_command,
    login_command,
    program_command,
)
from reconciler.model.host import layout
from reconciler.model.host.endpoint import Endpoint
from reconciler.model.problem import refuse
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.operations.endpoints import endpoint_of
from reconciler.operations.fleet import Fleet
from reconciler.operations.published.read import published_endpoint
from reconciler.operations.references import ref_of
from reconciler.store.snapshot import read_world


def ssh_line(whence: Fleet | str, ref_text: str, words: Sequence[str] = ()) -> str:
    """The exact line of ssh, pins included, as it can be pasted into a shell."""
    return shlex.join(_command(whence, ref_text, words))


def ssh(whence: Fleet | str, ref_text: str, words: Sequence[str] = ()) -> NoReturn:
    """Replace this process by OpenSSH's ssh; no file is left behind."""
    become(_command(whence, ref_text, words))


NOTEBOOK = ("gpuaas-runtime", "notebook", "start")
_STARTED = re.compile(rf"socket=({layout.HOMES}/[a-z0-9-]+/[a-z./]+)\ntoken=([0-9a-f]{{48}})\n\Z")
"""A `.bashrc` may have printed something before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notebook:
    """JupyterLab in an allocation, at `port` of this machine.

    `line` is the ssh command that opens it for as long as it runs.
    """

    url: str
    port: int
    line: tuple[str, ...]


def notebook(whence: Fleet | str, ref_text: str) -> Notebook:
    """Start JupyterLab in an allocation, if it does not run. Raises ProblemError."""
    endpoint = _reached(whence, ref_text)
    told = answer_of(program_command(endpoint, NOTEBOOK))
    started = _STARTED.search(told)
    if started is None:
        raise refuse(
            "ssh_failed",
            "the host does not say where JupyterLab listens",
            "does the allocation name the bundle jupyter? See gpuaas show",
        )
    port = free_port()
    url = f"http://127.0.0.1:{port}/lab?token={started[2]}"
    return Notebook(url=url, port=port, line=forward_command(endpoint, port, started[1]))


def forward(notebook: Notebook, tell: Callable[[], None]) -> NoReturn:
    """Replace this process by ssh, which forwards until it is ended.

    `tell` is called once the port is ours: whoever took it meanwhile would be sent the token, and
    ssh ends where it does not get the port.
    """
    tell_when_ours(notebook.port, tell)
    become(notebook.line)


def _command(whence: Fleet | str, ref_text: str, words: Sequence[str]) -> tuple[str, ...]:
    return login_command(_reached(whence, ref_text), words)


def _reached(whence: Fleet | str, ref_text: str) -> Endpoint:
    """The endpoint; `whence` is a fleet, or the place where things are published."""
    ref = ref_of(ref_text)
    if ref.kind != "allocation":
        raise refuse("usage", f"nobody logs in to {ref}", "name an allocation: project/name")
    endpoint = _endpoint(whence, ref)
    if endpoint.folder:
        raise refuse(
            "no_endpoint",
            f"{ref} is a folder without a login of its own",
            f"go there: {endpoint.folder}",
        )
    return endpoint


def _endpoint(whence: Fleet | str, ref: Ref) -> Endpoint:
    if isinstance(whence, str):
        return published_endpoint(whence, ref)
    with whence.reading() as database:
        return endpoint_of(whence.settings, read_world(database), ref)
