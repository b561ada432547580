"""One wave of a plan: what is begun, done on hosts, waited for, and proved."""
