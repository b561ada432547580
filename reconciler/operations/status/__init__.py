"""Status: the fleet as it stands, with the sync and health of each allocation."""
