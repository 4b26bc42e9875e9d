"""The records of runs: `record` writes them; `analysis`, `report` and `result` only read them.

Nothing is imported here: what only shows results is no part of the code that makes a run.
"""
