"""Backup: snapshots, copies, replicas and their upkeep."""
