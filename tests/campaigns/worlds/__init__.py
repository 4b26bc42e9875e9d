"""Worlds: random scenarios over every kind of block, played, and audited from their logs alone.

`python -m tests.campaigns.worlds --count 20000 --seed 1 --jobs 2 --out failures` plays many, and
`python -m tests.campaigns.worlds --world 4711` one of them again. A world is a function of its
number.
"""
