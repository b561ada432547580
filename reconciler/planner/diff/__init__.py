"""Diff: what specs want, compared with what was applied."""
