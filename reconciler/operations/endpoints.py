"""Endpoints of what is applied: names, addresses and pinned keys for its users."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

from reconciler.kinds.node.spec import NODES, NodeSpec
from reconciler.model.host.capacity import Isolation
from reconciler.model.host.endpoint import Endpoint, short_host
from reconciler.model.plan.lifecycle import Phase
from reconciler.model.problem import refuse
from reconciler.model.ref import Ref
from reconciler.model.settings import Settings
from reconciler.model.state.world import Recorded, World
from reconciler.operations.references import unknown

CONFIG, PINS, STATUS_JSON, STATUS_MD = "ssh_config", "known_hosts", "status.json", "status.md"
"""What is published of a project."""

IF_WANTED = "see what there is: gpuaas status; if it stands in a file: gpuaas apply"


def endpoints(settings: Settings, world: World, project: str = "") -> tuple[Endpoint, ...]:
    """The endpoints of every active, provided allocation, in order of ref; with `project`, its
    own.
    """
    node_of = _nodes(world)
    found = []
    for ref in sorted(world.refs_of("allocation")):
        one = world.recorded[ref]
        if project in ("", ref.project) and one.id and one.phase is Phase.ACTIVE:
            spec = node_of(one.node)
            found += [_endpoint(settings, one, spec)] if spec else []
    return tuple(found)


def endpoint_of(settings: Settings, world: World, ref: Ref) -> Endpoint:
    """The endpoint of one allocation. Raises ProblemError `not_found`, or `no_endpoint`."""
    one = world.recorded.get(ref)
    if one is None and not any(claim.ref == ref for claim in world.claims):
        raise unknown(ref, "not in the state", world.recorded, IF_WANTED)
    if one is None or not one.id or one.phase is not Phase.ACTIVE:
        raise refuse(
            "no_endpoint",
            f"{ref} is {one.phase if one and one.id else 'not provided yet'}",
            f"gpuaas show {ref}",
        )
    spec = _nodes(world)(one.node)
    if spec is None:
        raise refuse("no_endpoint", f"{ref}: nothing is recorded of node {one.node}")
    return _endpoint(settings, one, spec)


def way_in(endpoint: Endpoint, config: Path | None = None, source: str = "") -> str:
    """The command that logs in, or the folder to go to.

    `config` is the published file where there is one that can be named, `source` where else the
    endpoint was read from.
    """
    if endpoint.folder:
        return endpoint.folder
    if config is not None:
        return shlex.join(("ssh", "-F", str(config), endpoint.short_host))
    whence = ("--from", source) if source else ()
    return shlex.join(("gpuaas", "ssh", *whence, endpoint.short_ref))


def published_config(settings: Settings, project: str) -> Path | None:
    """The ssh_config of a project, where one is published."""
    folder = publish_folder(settings)
    return folder / project / CONFIG if folder else None


def publish_folder(settings: Settings) -> Path | None:
    return Path(settings.folder, settings.publish.dir) if settings.publish.dir else None


def _nodes(world: World) -> Callable[[str], NodeSpec | None]:
    """Nodes as recorded: those are the machines that the allocations were made on."""
    return lambda name: NODES.last(world, name)


def _endpoint(settings: Settings, one: Recorded, spec: NodeSpec) -> Endpoint:
    suffix = settings.publish.ssh_host_suffix
    host = ".".join(filter(None, (short_host(one.ref), suffix)))
    if spec.isolation is Isolation.DIRECTORY:
        folder = str(Path(settings.folder, spec.root, "home", one.login))
        where = folder if spec.is_local else f"{spec.address}:{folder}"
        return Endpoint(ref=one.ref, node=one.node, login=one.login, host=host, folder=where)
    return Endpoint(
        ref=one.ref,
        node=one.node,
        login=one.login,
        host=host,
        address=spec.public_address,
        port=spec.ssh.port,
        host_keys=spec.identity.host_keys if spec.identity else (),
        jump=settings.publish.proxy_jump,
    )
