"""Access: grants, revocations, suspensions and checks of logins."""
