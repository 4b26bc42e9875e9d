"""Rounds in arrays: an exchange of many clients at once, with the log of the events one by one."""
