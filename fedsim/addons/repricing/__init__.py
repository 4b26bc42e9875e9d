"""Repricing: time and energy of a recorded run under another fleet or network, without training.

A run is replayed. The world of the changed scenario is built as for any run, with a replay in place
of the method. It sends and does what the log recorded: messages of the same labels and bits, work
of the same operations, cohorts sampled from the same streams, and the same objectives at the end of
each round. So radios, tails, links, batteries and the ledger behave as in a fresh run, row by row,
but no gradient is computed and no data is read.

`conditions` lists the changes that are possible, `history` reads messages and work from the log,
`replay` repeats them, and `rebuilding` makes the changed world in which it does. Some conditions
only show during the replay: where a battery runs empty, a message is lost, or a stop rule is not
met at the end of the log, the original run would have gone another way, and the replay is refused.

fedsim's methods depend on received messages, and read clock and batteries only through the ports. A
user-defined method might measure time in other ways, so it is first replayed in its original world
(`rebuilding.check_replay`).
"""

from typing import TYPE_CHECKING

from fedsim.core.blocks.on_demand import exports

if TYPE_CHECKING:
    from fedsim.addons.repricing.api import reprice
else:
    __getattr__, __dir__ = exports(__name__)

__all__ = ["reprice"]
