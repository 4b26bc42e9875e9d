"""What a block declares of itself, from which follows how a run with it can be played.

A run is played by events, which every block can be part of. All else is faster and knows less:
rounds in arrays, worlds without events (`robust`), a log under other prices (`reprice`), a page
that prices in the browser (`explore`), real clients (`live`). Each names the traits that it cannot
have; a block that declares one of these is why, in its own words.
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Nature:
    """What a block is. Each is a clause that says why it is so, or empty where it is not.

    Attributes:
        varies: its figures are not the same at all times.
        shares: how fast one message is depends on which others there are.
        draws: its figures are drawn anew while a run goes on.
        loses: messages may be lost for good.
        waits: it waits for other things than messages and work.
        reacts: what is learned depends on when things happen.
        simulated: a real client has no such thing, or a real server does not see it.
    """

    varies: str = ""
    shares: str = ""
    draws: str = ""
    loses: str = ""
    waits: str = ""
    reacts: str = ""
    simulated: str = ""

    def first(self, traits: Iterable[str]) -> str:
        """Return the first clause of some traits; empty if it has none of them."""
        return next((why for trait in traits if (why := getattr(self, trait))), "")


OF_TIMES = ("varies", "shares", "draws", "loses", "waits", "reacts")
"""The traits by which times and energy are more than constants: the recursion over worlds knows
none of them, and so neither do `fedsim robust` and `fedsim explore`."""

WITHIN_ROUNDS = ("shares", "loses", "waits", "reacts")
"""The traits by which something happens within a round, where arrays see its ends alone."""

OF_DECISIONS = ("reacts",)
"""The traits by which another world would have learned something else: no log can be re-priced."""

OF_SIMULATION = ("simulated",)
"""The traits that a live run cannot have."""

CONSTANT = Nature()
"""Of what depends on messages and work alone, and on these in the same way at all times."""
