"""Bundles: their versions, the catalogue and mirrored packages."""
