"""Checks of specs that several kinds share."""
