"""Published files: what others may read of the fleet without its state."""
