"""`gpuaas schema`."""

from __future__ import annotations

import click

from reconciler.cli.command import Reply, Session, command
from reconciler.operations import schema as schema_operation


@command("schema")
@click.argument("kind")
def schema(session: Session, kind: str) -> Reply:
    """Print the JSON Schema of a kind.

    KIND is the kind of a document (`Allocation`) or the first word of a ref (`allocation`).
    `settings` is the schema of gpuaas.yaml; `plan`, `problems` and `status` are those of the
    documents that -o json prints; `published` is that of the status.json that members of a project
    read.
    """
    return Reply(raw=schema_operation.schema(kind))
