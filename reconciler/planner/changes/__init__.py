"""Changes: differences become changes of a plan, each with its steps, its text and its wave."""
