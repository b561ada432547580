"""Diff: what specs want, against what was applied."""
