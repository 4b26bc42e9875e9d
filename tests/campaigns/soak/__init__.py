"""Soak: what runs long, or often, in one process takes no more memory, files or time in the end.

`python -m tests.campaigns.soak events --count 100000000` writes so many rows into the log of one
run, `rounds --count 100000` goes through so many rounds, and `runs --count 10000` makes so many
short runs, each with a folder of its own. Memory is what the operating system says (`--traced`:
what Python's own allocator says); a fault is memory that grows with the work, or a file that stays
open. The ratio of the processor's time for the last tenth to that for the first is told, and no
fault: a machine has other work.
"""
