"""Same bytes: what a run writes does not depend on what should not matter.

`python -m tests.campaigns.same_bytes` runs a set of scenarios (every method, random worlds, what
ships in a short form, a network where PyTorch is there) once, and again in every way that should
not matter: under other hash seeds, on more threads, in processes, on a cluster, in shards. It also
tries what nothing is promised about, other kernels of the linear algebra. `--python PATH` adds
another Python, or the same one with other packages. The table says what is promised, and how many
runs have the same log, the same numbers (all columns of the tables, to the bit) and the same
files.

A promise that is not kept is a fault.
"""
