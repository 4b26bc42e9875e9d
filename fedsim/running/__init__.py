"""Single runs, campaigns of runs, and the worker processes that make them.

`api` is `fedsim.run`; `campaign` makes the runs of a plan, here or in `workers`; `run` makes one.
Nothing is re-exported here: the hash of the code that makes a run starts at `run` and follows its
imports, and `interrupts` is loaded before anything else.
"""
