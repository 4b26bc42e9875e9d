"""Secure aggregation: the server learns the sum of its clients' vectors, and no single one."""
