"""Hosts: what is asked of them and what they answer. Only this room runs Ansible and ssh.

It knows no plan, no store and no kind: steps and hosts come in, receipts and observations go out.
"""
