"""The parts of the energy of clients, and the state of charge of batteries."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from fedsim.results.analysis.log.frames import check_columns

ENERGY_PARTS = {
    "promotion_joules": "promotion",
    "tail_joules": "tail",
    "receive_joules": "receiving",
    "send_joules": "sending",
    "retransmit_joules": "sending again",
    "forward_joules": "forwarding",
    "idle_joules": "idle",
    "compute_joules": "computing",
}
"""Columns of a client table that add up to its joules, with their names in figures; the column of
forwarding exists only if a client has forwarded a message."""

_OF_RELAYS = "forward_joules"


def energy_parts(clients: pd.DataFrame, by: Sequence[str] = ("variant", "seed")) -> pd.DataFrame:
    """Return the energy of groups of clients by part, J.

    Args:
        clients: see `Result.clients`.
        by: columns; clients with equal values in all of them are a group.

    Returns:
        One row per group, in the order of `clients`, and a column for each of `ENERGY_PARTS` in the
        table, under its name in figures.

    Raises:
        DataError: the table lacks a column of `by`, or a part that every table has.

    Example:
        >>> parts = energy_parts(log.clients, by=["variant", "device"])
        >>> print(parts.loc["gd"].round(2).T.to_string())
        device         phone-mid  pi-4  cortex-m7
        promotion           1.26  0.02       0.04
        tail                9.23  0.13       0.31
        receiving           0.01  0.00       0.00
        sending             0.03  0.00       0.01
        sending again       0.01  0.00       0.00
        idle                3.42  7.30       0.00
        computing           0.00  0.00       0.18
    """
    needed = [name for name in ENERGY_PARTS if name != _OF_RELAYS]
    check_columns(clients, "clients", (*by, *needed))
    parts = [name for name in ENERGY_PARTS if name in clients]
    groups = clients.groupby(list(by), sort=False, observed=True)
    return groups[parts].sum().rename(columns=ENERGY_PARTS)


def state_of_charge(events: pd.DataFrame, times: ArrayLike) -> pd.DataFrame:
    """Return the state of charge of batteries at given times, as shares of their capacity.

    The log has the charge in each row of a client; between two rows it is interpolated linearly.

    Args:
        events: see `Result.events`.
        times: s, shape (T,).

    Returns:
        One row per time; one column per battery (variant, seed, node), in the order of the log.
        Values are NaN before the battery's first row and after its last one.
    """
    at = np.asarray(times, dtype=np.float64)
    rows = events[events["state_of_charge"].notna()]
    levels = {
        key: np.interp(at, battery["t"], battery["state_of_charge"], left=np.nan, right=np.nan)
        for key, battery in rows.groupby(["variant", "seed", "node"], sort=False, observed=True)
    }
    names = pd.MultiIndex.from_tuples(levels, names=["variant", "seed", "node"])
    columns = np.array(list(levels.values())).reshape(len(names), len(at)).T
    return pd.DataFrame(columns, index=pd.Index(at, name="t"), columns=names)
