"""The kind Node: its spec, its slots and what its host is told."""
