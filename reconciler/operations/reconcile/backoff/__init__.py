"""Backoff: what failed is tried again after a delay that doubles."""
