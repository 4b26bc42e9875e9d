"""The commands.

Exit codes:
- 0: done.
- 1: something was done, but not everything: a run failed, lost all its clients
  (`fedsim.results.record.summary`) or could not be re-priced, or the disk is full; also if `diff`
  found differences, a check of `conformance` failed, or the reader of the output left before its
  end.
- 2: nothing has begun: the scenario, a plugin or an option is invalid, or another process writes
  into the same folder.
- 128 plus the signal's number after an interrupt: 130 for Ctrl-C, 143 for `kill`.

`fedsim.__main__` runs the commands.
"""

from fedsim.cli.app import app, out

__all__ = ["app", "out"]
