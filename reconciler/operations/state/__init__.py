"""State: init, maintenance, replicas, and rebuilding it from hosts."""
