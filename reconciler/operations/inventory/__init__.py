"""Inventory: nodes, slots and allocations as they are, and how a plan of now differs from it."""
