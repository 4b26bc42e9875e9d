"""How the server learns that a client has nothing to say: by a beacon, or by a deadline."""

from dataclasses import dataclass
from math import inf


@dataclass(frozen=True, slots=True)
class SilencePolicy:
    """What silence looks like.

    Attributes:
        beacon: a silent client sends an empty message, of which the header is charged. Else
            it sends nothing, and only the deadline ends the round.
        after: the round closes this many seconds after its broadcast, s; at once where all
            have answered.
        keep_late: a late reply counts for the round in which it arrives; else it is dropped.
    """

    beacon: bool = True
    after: float = inf
    keep_late: bool = True
