"""Placement: admission, quota, inventory, predicates and the scheduler."""
