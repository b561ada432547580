"""Liveness: one loop a state, and whether it is well."""
