"""Diagnosis: rules that find what stands badly, and the timeline of a resource."""
