"""Approvals of held changes."""
