"""Work items: what a host is told of one step, a record for each verb."""
