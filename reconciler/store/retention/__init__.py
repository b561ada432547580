"""Retention: what is archived and pruned, and when."""
