"""`gpuaas schema`."""

from __future__ import annotations

import click

from reconciler.cli.command import Reply, Session, command
from reconciler.operations import schema as schema_operation


@command("schema")
@click.argument("kind")
def schema(session: Session, kind: str) -> Reply:
    """Print the JSON Schema of a kind.

    KIND is the word of a document (`Allocation`) or of a ref (`allocation`); also `settings` for
    gpuaas.yaml, `plan`, `problems`, `status` for the documents that -o json prints, and
    `published` for the status.json that a project's people read.
    """
    return Reply(raw=schema_operation.schema(kind))
