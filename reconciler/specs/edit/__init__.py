"""Edits of YAML files that leave everything else as it was written."""
