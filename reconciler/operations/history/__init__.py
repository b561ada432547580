"""History: timelines of resources, and the runbooks that go with problems."""
