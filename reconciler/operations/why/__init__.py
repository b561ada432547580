"""Why: the reasons for how something stands."""
