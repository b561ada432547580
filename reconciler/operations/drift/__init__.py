"""Drift: where hosts differ from what was applied, and its acceptance."""
