"""Damage to the files of runs, and what whoever reads them says of it.

    python -m tests.campaigns.flips --count 10000 --seed 1

Every case damages one file in a copy of a folder of runs (a bit, bytes, its end, its whole, or its
place taken by the same file of another run), and lets some of what reads such folders loose on it:
tables, `compare`, `report`, `trace`, `reprice`, `status`, and `fedsim run` that takes them up.

A case is a fault where what is read differs from what the undamaged folder tells and nobody has
named the damage, where the error is none of fedsim's own or does not name the file, where memory
beyond a limit is asked for, or where it takes half a minute. A case is a function of the seed and
its number: `--case N` shows one.

Where the file is gone that was written last (a summary, the last part of a table, the study's own),
the folder is as it was a moment earlier, and whoever reads it may say so.
"""
