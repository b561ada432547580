"""Tables: a module each, with the queries that read and write it."""
