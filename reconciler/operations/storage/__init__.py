"""Storage: usage, fencing, reopening and forced detach."""
