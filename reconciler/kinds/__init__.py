"""Kinds: one drawer a kind; all pure, none imports another."""
