"""Monitoring: what the loop and its fleet show to whoever watches them from outside."""
