"""Hosts: their hardware, what they report, and the signed files they keep."""
