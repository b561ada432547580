"""State: what the store knows of claims, volumes, runs, failures and events."""
