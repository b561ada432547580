"""Specs: documents of git, and the resources that are made of them."""
