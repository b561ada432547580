"""Facts of a host: what it tells of its paths and by name, each written and read by one module."""
