"""Single allocations: extend, restart, forget, clean up."""
