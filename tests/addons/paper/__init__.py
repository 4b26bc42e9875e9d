"""The folder of a paper."""
