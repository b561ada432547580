"""`ssh` and `ssh-config`: how somebody gets in, from the state or from what is published."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import NoReturn

from reconciler.hosts.openssh import become, login_command, ssh_config
from reconciler.model.endpoint import Endpoint
from reconciler.model.problem import refuse
from reconciler.model.ref import Ref
from reconciler.operations.endpoints import endpoint_of, endpoints
from reconciler.operations.inspecting import ref_of
from reconciler.operations.published import published_endpoint, published_pins, read_published
from reconciler.operations.wiring import Fleet
from reconciler.store.snapshot import read_world


def ssh_line(whence: Fleet | str, ref_text: str, words: Sequence[str] = ()) -> str:
    """The exact line of ssh, pins included, as it can be pasted into a shell."""
    return shlex.join(_command(whence, ref_text, words))


def ssh(whence: Fleet | str, ref_text: str, words: Sequence[str] = ()) -> NoReturn:
    """This process goes on as OpenSSH's ssh; nothing is left behind."""
    become(_command(whence, ref_text, words))


def config_text(whence: Fleet | str, project: str = "") -> str:
    """Blocks for ~/.ssh/config; where pins are published on this machine, ssh reads them there."""
    if isinstance(whence, str):
        told = read_published(whence, project)
        blocks = [(one.endpoints, published_pins(whence, one.project)) for one in told]
    else:
        with whence.reading() as database:
            blocks = [(endpoints(whence.settings, read_world(database), project), "")]
    texts = [ssh_config([one for one in found if not one.folder], pins) for found, pins in blocks]
    return "\n".join(filter(None, texts)) or "# no allocation has a login of its own\n"


def _command(whence: Fleet | str, ref_text: str, words: Sequence[str]) -> tuple[str, ...]:
    """`whence` is a fleet, or where things are published."""
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
    return login_command(endpoint, words)


def _endpoint(whence: Fleet | str, ref: Ref) -> Endpoint:
    if isinstance(whence, str):
        return published_endpoint(whence, ref)
    with whence.reading() as database:
        return endpoint_of(whence.settings, read_world(database), ref)
