"""`new`: from answers to a spec file, one form a kind."""
