"""Lifecycle of allocations: expiry, evacuation, release, restart and claims."""
