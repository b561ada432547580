"""Access: who may log in, ssh, suspensions and endpoints."""
