"""Reading specs: YAML, schemas, scalars and the problems they may have."""
