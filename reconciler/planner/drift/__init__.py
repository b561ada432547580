"""Drift: where hosts differ from what was applied, and what is done about it."""
