"""Notifications: messages of the loop, sent to where people read them."""
