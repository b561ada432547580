"""Automation: what the loop may do without approval, its windows, guards and approvals."""
