"""The turns of a contestant: it gets ready, then runs some rounds on each request.

Only the standard library is imported here: contestants run in environments of their own.
"""

import sys
from collections.abc import Callable
from math import nan
from typing import NamedTuple


class Turn(NamedTuple):
    """What came of a turn.

    Attributes:
        updates: how often a client has done its whole work of a round.
        seconds: of real time.
        processor: seconds of processor time of all threads of this process; NaN if not measured.
    """

    updates: int
    seconds: float
    processor: float = nan


def take_turns(turn: Callable[[], Turn]) -> None:
    """Warm up, say so, then take a turn for each line that comes in."""
    turn()
    print("ready", flush=True)
    for _ in sys.stdin:
        done = turn()
        print(*done, flush=True)
