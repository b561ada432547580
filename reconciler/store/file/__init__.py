"""The database file: where it lies, its connection, lock, schema and integrity."""
