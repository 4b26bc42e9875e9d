"""Exchanges of peers played by a kernel: the events of all nodes, with the log of the objects."""
