"""What a round costs a client of each group of the fleet."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedsim.building import Job
from fedsim.running.probe import Opening

COSTS = ("bits_down", "bits_up", "receive_s", "compute_s", "send_s", "joules")
"""The columns of costs that are told."""


def members_of(job: Job, group: int) -> NDArray[np.intp]:
    """Return the numbers of the clients of one group."""
    return np.flatnonzero(np.array(job.members) == group)


def group_costs(job: Job, began: Opening) -> pd.DataFrame:
    """Return the means over the clients of each group of what each first round costs one.

    A row a round and group, with the columns variant, round, group, clients, device, radio and
    those of `COSTS`.
    """
    return pd.DataFrame(list(_rows(job, began)))


def _rows(job: Job, began: Opening) -> Iterator[dict[str, object]]:
    for number, cost in enumerate(began.rounds, 1):
        for index, group in enumerate(job.groups):
            mine = members_of(job, index)
            yield {
                "variant": job.variant.name,
                "round": number,
                "group": index,
                "clients": len(mine),
                "device": group.device.kind,
                "radio": group.radio.kind,
                **{name: cost.clients[name].iloc[mine].mean() for name in COSTS},
            }
