"""The command line: parse, one call into operations, one view, an exit code."""
