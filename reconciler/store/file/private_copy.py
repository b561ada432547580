"""A private copy: somebody else's copy of a state, read and thrown away.

It is checked like a copy that is to be restored, and brought to the schema of this version: whoever
reviews a change may have a newer program than the one that applied last.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from reconciler.model.problem import ProblemError
from reconciler.store.backup.maintenance import check_copy
from reconciler.store.file.database import Database, Opening
from reconciler.store.file.errors import wording
from reconciler.store.file.schema import migrate, shipped_schema, version_of


def open_private_copy(path: Path) -> Database:
    """Open a copy of our own, which is written to where its schema is an older one.

    Raises ProblemError for what is no state, is damaged or of a newer version.
    """
    problems = check_copy(path)
    if problems:
        raise ProblemError(problems)
    with wording(path), closing(sqlite3.connect(path, isolation_level=None)) as connection:
        if version_of(connection) < shipped_schema().version:
            migrate(connection, shipped_schema())
    return Database.open(path, write=False, opening=Opening(anywhere=True))
