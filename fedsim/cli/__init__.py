"""The commands.

Exit codes: 0 done; 1 a run failed, or no client was left for it (`fedsim.results.record.summary`),
or there was no room for a file, or `diff` found differences; 2 nothing has begun, for the scenario,
a plugin or an option is wrong, or another process writes into the same folder; 128 and the number
of the signal that interrupted it: 130 after Ctrl-C, 143 after `kill`. `fedsim.__main__` runs them.
"""

from fedsim.cli.app import app

__all__ = ["app"]
