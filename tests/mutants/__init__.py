"""Mutants: does a test fail when a line of fedsim is wrong?

`python -m tests.mutants --count 400 --seed 1` changes one place of sim, protocol, wire, record or
repricing at a time (`<` becomes `<=`, a statement goes away), runs the tests that reach that line,
and counts how many mutants a test notices. The operators are those of cosmic-ray, and two of our
own. A mutant that no test notices is a fault of the tests, unless `reasons.toml` says why no test
could: the program does the same, or what differs is nobody's promise.

Mutants are made in a copy of the checkout, so nothing is ever changed in it. The sample is a
function of the seed and of the sources.
"""
