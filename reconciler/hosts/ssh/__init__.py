"""OpenSSH: its configuration, host keys and calls that go without Ansible."""
