"""Diagnosis: rules that find what is wrong, and the timeline of a resource."""
