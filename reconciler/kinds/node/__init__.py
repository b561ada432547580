"""The kind Node: its spec, its slots and its work items for the host."""
