"""Hosts: what they are made of, what they show, and the files they carry."""
