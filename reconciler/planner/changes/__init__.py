"""Changes: differences become lines of a plan, each with its steps, its text and its wave."""
