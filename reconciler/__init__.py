"""GPU allocations on real hosts from YAML specs in git."""

__version__ = "0.1.0"
