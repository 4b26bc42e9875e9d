"""What a block declares about itself; this decides which ways of simulating a run are possible.

The event-driven simulation accepts every block. Each other way is faster but more limited: rounds
computed in arrays, worlds without events (`robust`), a log under other constants (`reprice`), a
page that recomputes costs in the browser (`explore`), and real clients (`live`). Each of these
lists the traits that it excludes. A block with such a trait rules it out, and gives the reason.
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Nature:
    """The traits of a block.

    Each attribute is a clause with the reason why the block has the trait, or empty if it does not.

    Attributes:
        varies: the block's figures change over time.
        shares: the speed of one message depends on the other messages.
        draws: its figures are sampled during the run.
        loses: messages may be lost for good.
        waits: it waits for something other than messages and work.
        reacts: the result of the optimisation depends on when things happen.
        simulated: a real client has no such thing, or a real server cannot observe it.
        apart: the server reads single replies, and not only sums of them.
        unbounded: clients send more than vectors, such as numbers that no clipping bounds.
    """

    varies: str = ""
    shares: str = ""
    draws: str = ""
    loses: str = ""
    waits: str = ""
    reacts: str = ""
    simulated: str = ""
    apart: str = ""
    unbounded: str = ""

    def first(self, traits: Iterable[str]) -> str:
        """Return the reason for the first of `traits` that the block has; empty if it has none."""
        return next((why for trait in traits if (why := getattr(self, trait))), "")


OF_TIMES = ("varies", "shares", "draws", "loses", "waits", "reacts")
"""The traits that make times and energy more than sums of constants. The recursion over worlds
excludes all of them, and so do `fedsim robust` and `fedsim explore`."""

WITHIN_ROUNDS = ("shares", "loses", "waits", "reacts")
"""The traits with effects inside a round. Arrays represent only the start and end of a round."""

OF_DECISIONS = ("reacts",)
"""The traits by which other costs would change the optimisation, so a log cannot be re-priced."""

OF_SIMULATION = ("simulated",)
"""The traits that a live run cannot have."""

OF_SINGLE_REPLIES = ("apart",)
"""The traits for which sums of replies do not suffice, so no rule can take their place."""

OF_UNBOUNDED_REPLIES = ("apart", "unbounded")
"""The traits by which one client can change what the server computes by more than noise covers."""

CONSTANT = Nature()
"""The nature of a block that depends only on messages and work, always in the same way."""
