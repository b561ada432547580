"""Liveness: one loop for each state, and whether it is well."""
