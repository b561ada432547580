"""The source of the loop: one commit, checked out where nobody works."""
