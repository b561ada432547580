"""Ansible: its inventory, the supervised process that runs it, and what its events say."""
