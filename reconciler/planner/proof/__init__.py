"""Proof: what a host has to show before a slot is reused."""
