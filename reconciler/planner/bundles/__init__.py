"""Bundles: desired versions, installs, compatibility and garbage collection."""
