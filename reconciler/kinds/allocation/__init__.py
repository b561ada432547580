"""The kind Allocation: its spec, its steps and its work items for the host."""
