"""`fedsim join` on a slower device: work takes the time that it would take there.

    python analysis/reality/linux/paced.py SPEED SIGMA join HOST:PORT --client 3 ...

Clients of an experiment share one machine, so each would be as fast as all others, and slower when
these are busy. Here work is computed, and the rest of its time is slept: its operations by a SPEED,
flop/s, times factors of a lognormal spread SIGMA, one for each of its parts. So the length of work
is known, and other load matters little. What follows are the words of a command of fedsim.
"""

import sys
import time
from collections.abc import Sequence

import numpy as np

from fedsim.__main__ import main as fedsim_main
from fedsim.core.ports import Array, Work
from fedsim.problems.evaluators.serial import SerialEvaluator


def pace(speed: float, sigma: float) -> None:
    """Let all work of this process take the time of a device."""
    compute, rng = SerialEvaluator.result, np.random.default_rng()

    def result(evaluator: SerialEvaluator, ticket: Work) -> Array:
        """Return the result of work once its time has passed."""
        begun = time.monotonic()
        found = compute(evaluator, ticket)
        seconds = ticket.operations / speed * rng.lognormal(0.0, sigma, ticket.pieces).sum()
        time.sleep(max(begun + seconds - time.monotonic(), 0.0))
        return found

    SerialEvaluator.result = result  # type: ignore[method-assign, assignment]  # for this process alone


def main(arguments: Sequence[str]) -> None:
    """Run a command of fedsim."""
    speed, sigma, *words = arguments
    pace(float(speed), float(sigma))
    sys.argv = ["fedsim", *words]
    fedsim_main()


if __name__ == "__main__":
    main(sys.argv[1:])
