"""Core: the words that all packages of the planner use: differences, facts, seats, tasks, risks."""
