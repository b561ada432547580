"""Reconcile: the loop that keeps hosts as git wants them, unattended."""
