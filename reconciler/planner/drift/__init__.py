"""Drift: what hosts show that differs from what was applied, and what is done about it."""
