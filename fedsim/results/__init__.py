"""What runs leave: `record` writes it; `analysis`, `report` and `result` read it, and nothing else.

Nothing is imported here: what only shows results is no part of the code that makes a run.
"""
