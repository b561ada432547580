"""Plans: changes, steps, drift, approvals and the work that hosts are asked for."""
