"""Rebuild: a lost state, made anew from signed files on hosts."""
