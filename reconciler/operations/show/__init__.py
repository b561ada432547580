"""Show: one resource with its evidence and its links."""
