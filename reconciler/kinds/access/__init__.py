"""Access: keys, who may log in, and leave for it."""
