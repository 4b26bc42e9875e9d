"""Single runs, campaigns of runs, and the worker processes that make them.

`api` is `fedsim.run`; `campaign` makes the runs of a plan, here or in `workers`; `execution` makes
one. No names are handed on here: `execution` is where the hash of the code that makes a run
starts, and `interrupts` is loaded before anything else.
"""
