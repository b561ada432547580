"""`edit`: a spec is changed in place, by values or by its person in an editor."""
