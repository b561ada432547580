"""Nodes: preparation, readiness, GPU health and shared devices."""
