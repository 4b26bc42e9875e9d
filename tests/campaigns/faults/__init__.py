"""Campaigns of faults on one machine: what is killed, and what a disk or a clock does to a study.

`python -m tests.campaigns.faults.kill --count 1000 --seed 1` kills commands, and `python -m
tests.campaigns.faults.disk` lets their disk fail. A case is a function of its number and the seed.
Both stand on `operations`, which counts what a process does to files and lets a fault meet any of
it; `commands`, which gives commands of fedsim in processes forked off this one, where all is
loaded; and `studies`, the study that is to come out as if nothing had happened, and what counts as
a fault.
"""
