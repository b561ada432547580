"""Nodes: enrolment, approval of slots, drain, retry."""
