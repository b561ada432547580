"""Links: what a resource has to do with others, for `show` and `why`."""
