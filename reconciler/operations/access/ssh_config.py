"""The ssh configuration that reaches allocations by name."""

from __future__ import annotations

from reconciler.hosts.ssh.client_config import Earlier, earlier
from reconciler.hosts.ssh.openssh import (
    ssh_config,
)
from reconciler.operations.endpoints import endpoints
from reconciler.operations.fleet import Fleet
from reconciler.operations.published.read import published_pins, read_published
from reconciler.operations.references import insist_on_name
from reconciler.store.snapshot import read_world

PLACE = """\
# ssh takes the first value that it finds: below a `Host *` these lines lose. Keep them in a file of
# their own, as in `gpuaas ssh-config > ~/.ssh/gpuaas`, and let ~/.ssh/config begin with the line
#     Include ~/.ssh/gpuaas

"""
"""How the blocks are used so that they hold."""


def lost_to(config: str, text: str) -> tuple[Earlier, ...]:
    """Lines of somebody's configuration above these blocks, which therefore override them."""
    hosts = (line.split()[1] for line in text.splitlines() if line.startswith("Host "))
    return earlier(config, hosts)


def config_text(whence: Fleet | str, project: str = "") -> str:
    """Blocks for ~/.ssh/config; where pins are published on this machine, ssh reads them there."""
    if isinstance(whence, str):
        told = read_published(whence, project)
        blocks = [(one.endpoints, published_pins(whence, one.project)) for one in told]
    else:
        with whence.reading() as database:
            world = read_world(database)
            insist_on_name(whence, database, world, "project", project)
        blocks = [(endpoints(whence.settings, world, project), "")]
    texts = [ssh_config([one for one in found if not one.folder], pins) for found, pins in blocks]
    printed = "\n".join(filter(None, texts))
    return f"{PLACE}{printed}" if printed else "# no allocation has a login of its own\n"
