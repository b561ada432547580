"""Features: what each takes part in, a module each; the plan asks them in order and names none."""
