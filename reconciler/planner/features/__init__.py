"""Features: a module for each; the plan asks them in order and names none."""
