"""Repricing: time and energy again from a log, under another fleet or network, without training.

A run is re-enacted. The world of the changed scenario is built as for any run; in place of the
method a re-enactment takes part, which says and does what the log tells: messages of the same
labels and bits, work of the same operations, cohorts drawn from the same streams, and the same
objectives at the end of each round. So radios, tails, links, batteries and the ledger are those
of a fresh run, row by row, but no gradient is computed and no data is read.

The seams: `original` reads what is known of a run, `conditions` says what may change, `tape`
reads off the log the recipients and actions, `reenactment` replays them, `rebuilding` makes
the world around it. What the log alone cannot tell, the re-enactment finds out: where a battery
is empty, a message lost, or a rule of `stop` not met at the end of the log, it refuses.

Methods decide by what they are told, and by the clock and the batteries as the ports show them;
a method of one's own, which may keep time in other ways, is re-enacted in its own world first
(`proof`).
"""

from fedsim.repricing.api import reprice

__all__ = ["reprice"]
