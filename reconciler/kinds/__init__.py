"""Kinds: one module or folder a kind; all are pure, and none imports another."""
