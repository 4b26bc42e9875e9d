"""The waits of many messages for radios that can be reached periodically."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsim.core.ports import Array
from fedsim.physics.radios import stages
from fedsim.sim.kernels import register_laws, stored_by


def _reception_times(
    figures: NDArray[np.void],
    labels: NDArray[np.intp],
    number: NDArray[np.integer],
    since: Array,
    now: Array,
) -> Array:
    """Return the time at which each message reaches its radio, s, shape (n,).

    Args:
        figures: the stages of each class, records of shape (classes, stages).
        labels: the class of each radio.
        number: the index of its stage.
        since: the start of this stage, s.
        now: the time at which its message is ready, s.
    """
    reached = np.empty(len(now))
    for n in range(len(now)):
        own: Any = figures[labels[n]]
        reached[n] = stages.reception_time(own, number[n], since[n], now[n])
    return reached


register_laws()
reception_times = stored_by([Path(__file__), Path(stages.__file__)])(_reception_times)
