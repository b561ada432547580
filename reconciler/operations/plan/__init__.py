"""Plan: made, compared, saved and read again."""
