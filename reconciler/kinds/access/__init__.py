"""Access: public keys, who may log in, and why."""
