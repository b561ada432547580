"""Kinds: one module or folder a kind; all are pure. Of another kind one knows its specs, and no more."""
