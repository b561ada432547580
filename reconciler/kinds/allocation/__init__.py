"""The kind Allocation: its spec, its steps and what its host is told."""
