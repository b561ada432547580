"""The forms of `new`, a module a kind."""
