"""Kinds: a module or folder each, all pure. Of another kind one knows its specs, and no more."""
