"""Monitoring: what the loop and its fleet export to those who watch from outside."""
