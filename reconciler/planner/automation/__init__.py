"""Automation: what the loop may do alone, its windows, guards and approvals."""
