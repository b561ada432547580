"""Rounds of the loop as data, and when what failed is tried again."""
