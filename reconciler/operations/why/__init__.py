"""Why: the reasons why a resource is as it is."""
