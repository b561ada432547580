"""Approvals: leave for changes that were held."""
