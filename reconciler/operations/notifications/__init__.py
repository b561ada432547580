"""Notifications: what the loop has to say, told to people where they look."""
