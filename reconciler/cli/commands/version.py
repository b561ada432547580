"""`gpuaas version`."""

from __future__ import annotations

import platform

from reconciler import __version__
from reconciler.cli.command import Reply, Session, command
from reconciler.cli.text import line
from reconciler.cli.views.documents import SCHEMA_VERSION


@command("version", "text", "json")
def version(session: Session) -> Reply:
    """Show the versions of the program and its formats."""
    found = {
        "gpuaas": __version__,
        "python": platform.python_version(),
        "apiVersion": "gpuaas/v1",
        "outputSchema": str(SCHEMA_VERSION),
    }
    return Reply(result=found, lines=[line(f"{name:<14}{text}") for name, text in found.items()])
