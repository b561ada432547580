"""The shipped schema: what it holds, and what it never will."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys

from reconciler.store.file.schema import expected_objects, shipped_schema, statements
from tests.store.records import State


def test_numbered_without_gaps() -> None:
    """F-STA-10: the number of migrations is the version of the schema."""
    numbers = [int(name[:4]) for name in shipped_schema().migrations]
    assert numbers == list(range(1, shipped_schema().version + 1))


def test_statements_are_split_where_they_end() -> None:
    """F-STA-10: a `;` within a trigger, a text or a comment ends nothing."""
    script = "-- a; b\nCREATE TABLE t (a DEFAULT ';'); INSERT INTO t VALUES (1); -- end;\n" + (
        "CREATE TRIGGER x BEFORE DELETE ON t BEGIN SELECT 1; SELECT 2; END;\n-- last; words\n"
    )
    found = list(statements(script))
    assert [text.count("CREATE") + text.count("INSERT") for text in found] == [1, 1, 1]
    connection = sqlite3.connect(":memory:")
    for statement in found:
        connection.execute(statement)


def test_no_place_for_a_secret(state: State) -> None:
    """SEC-05: no column could hold a key, token or password."""
    secret = re.compile(r"secret|passw|token|credential|private|hmac")
    for _, sql in expected_objects(shipped_schema()).items():
        assert not secret.search(re.sub(r"--.*", "", sql).lower())


def test_opening_a_state_needs_no_migration_library() -> None:
    """F-STA-08: reading commands stay quick; the library is loaded when the schema changes."""
    code = (
        "import sys, reconciler.store.journal, reconciler.store.queries, reconciler.store.cache;"
        "sys.exit('sqlite_utils' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
