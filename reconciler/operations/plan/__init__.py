"""Plan: made fresh, compared, saved and read again."""
