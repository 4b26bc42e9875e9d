"""Comparing: what variants took to a target, in pairs, on fronts, in tables and figures."""
