"""The shipped schema: numbered migrations, applied in order, each in one transaction.

A migration is never edited once it was released; the number of migrations is the version of the
schema and stands in the database as `user_version`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from reconciler.model.records import dataclass
from reconciler.stops import reach

APPLICATION_ID = int.from_bytes(b"GPUA", "big")
MIGRATION_SET = "gpuaas"


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """SQL texts by name, in the order of their numbers."""

    migrations: Mapping[str, str]

    @property
    def version(self) -> int:
        return len(self.migrations)


@cache
def shipped_schema() -> Schema:
    """The schema that this version of the program reads and writes."""
    folder = Path(__file__).parents[1] / "migrations"
    return Schema(
        migrations={
            path.stem: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.sql"))
        }
    )


def version_of(connection: sqlite3.Connection) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


def migrate(connection: sqlite3.Connection, schema: Schema) -> None:
    """Bring a database to `schema`. A migration that fails leaves no trace.

    Foreign keys are off meanwhile, as rebuilding a parent table would else delete its children
    (inside a transaction they could not be switched off); every migration ends with a check.
    """
    # Costs a tenth of a second to import, and is needed only when the schema changes.
    from sqlite_utils import Database, Migrations

    migrations = Migrations(MIGRATION_SET)
    for number, (name, text) in enumerate(schema.migrations.items(), start=1):
        migrations(name=name)(_step(number, text))
    connection.execute("PRAGMA foreign_keys = OFF")
    try:
        migrations.apply(Database(connection))
        reach("migrate.after")
    finally:
        connection.execute("PRAGMA foreign_keys = ON")


def _step(number: int, text: str) -> Any:
    def run(database: Any) -> None:
        connection: sqlite3.Connection = database.conn
        for statement in statements(text):
            connection.execute(statement)
        orphans = connection.execute("PRAGMA foreign_key_check").fetchall()
        if orphans:
            raise sqlite3.IntegrityError(f"rows of {orphans[0][0]} lost what they refer to")
        connection.execute(f"PRAGMA user_version = {number}")
        reach("migrate.before")

    return run


def statements(text: str) -> Iterator[str]:
    """The statements of a script; `executescript` would commit the transaction around it."""
    statement = ""
    for piece in text.split(";")[:-1]:
        statement += piece + ";"
        # Not at a `;` within a trigger, a text or a comment.
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def objects(connection: sqlite3.Connection) -> Mapping[tuple[str, str], str]:
    """Every table, index, trigger and view by type and name, with the SQL that made it."""
    rows = connection.execute(
        "SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
    )
    return {(type_, name): sql or "" for type_, name, sql in rows}


def expected_objects(schema: Schema) -> Mapping[tuple[str, str], str]:
    """What `objects` finds in a sound database of `schema`; found once a process."""
    return _objects_after(tuple(schema.migrations.items()))


@lru_cache(maxsize=16)
def _objects_after(migrations: tuple[tuple[str, str], ...]) -> Mapping[tuple[str, str], str]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrate(connection, Schema(migrations=dict(migrations)))
        return objects(connection)
