"""Specs: documents in git, and the resources made from them."""
