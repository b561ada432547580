"""Access: grants, revocations, suspensions and the checks at login."""
