"""Mutants: does a test fail when a line of fedsim is wrong?

`python -m tests.campaigns.mutants --count 600 --seed 1` changes one place of fedsim at a time (`<`
becomes `<=`, a statement goes away), runs the tests that reach that line, and counts, room by
room, how many mutants a test notices. The operators are those of cosmic-ray, and three of our own.
A mutant that no test notices is a fault of the tests, unless `reasons.toml` says why no test
could: the program does the same, or what differs is promised by no page. `--rooms` keeps to some
rooms, whose tests alone are then measured and asked; `--each` takes that many mutants of each
room.

`python -m tests.campaigns.mutants --listed` tries the mutants of `sample.toml`, which need no
measuring.

Tests are collected in one process, of which each mutant of a function is a fork (`server.py`).

Mutants are made in a copy of the checkout, so nothing is ever changed in it. The sample is a
function of the seed and of the sources.
"""
