"""From files to Desired: read, parse, validate, type and link. The only room that knows YAML."""
