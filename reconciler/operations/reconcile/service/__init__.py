"""The loop as a service of systemd: units, notifications and signals."""
