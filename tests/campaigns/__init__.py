"""Campaigns: many drawn cases of what may go wrong, and what tests the tests.

`python -m tests.campaigns` runs all of them, `python -m tests.campaigns worlds flips` two of them,
`--share 0.01` a hundredth of the cases, and `--list` says what each runs. Each is a package with a
command of its own, which replays single cases. A test in these packages is slow, whatever it takes.
"""
