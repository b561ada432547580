"""Git: history, authors, checkouts and mirrors, read by one guarded process."""
