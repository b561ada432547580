"""Core: what every package of the planner speaks of: differences, facts, seats, tasks, risks."""
