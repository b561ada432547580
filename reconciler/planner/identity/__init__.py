"""Identity: ids, logins, uids and claims of allocations, and what their files are made from."""
