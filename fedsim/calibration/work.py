"""The speed of a fleet's devices, and the spread of the times of their tasks."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedsim.calibration.constants import CannotTell, FittedConstant
from fedsim.calibration.likelihood import fit_speed
from fedsim.physics.devices import Device
from fedsim.scenario import Group


def fit_device(
    number: int,
    group: Group,
    recording: pd.DataFrame,
    clients: NDArray[np.intp],
    own: NDArray[np.intp],
) -> list[FittedConstant]:
    """Return the speed, or the frequency, of a group's device, and the spread of its tasks' times.

    Args:
        number: of the group.
        group: whose device is an instance of `Device`.
        recording: all observations.
        clients: their clients, -1 for all.
        own: the clients of the group.

    Raises:
        CannotTell: there is no work, or less than two tasks of known amounts.
    """
    device = group.device
    assert isinstance(device, Device)  # noqa: S101 - as the caller has checked
    field, factor = "speed", 1.0
    column = "operations"
    if device.speed is None:
        field, column, factor = "frequency", "samples", float(device.cycles_per_sample or 0.0)
    key = f"fleet.{number}.device.{field}"
    rows = recording[(recording["kind"] == "compute").to_numpy() & np.isin(clients, [*own, -1])]
    if not len(rows):
        raise CannotTell({key: "it has no work of these clients"})
    amounts = factor * rows[column].to_numpy(float)
    seconds = (rows["end"] - rows["start"]).to_numpy(float)
    kept = (amounts > 0) & (seconds > 0)
    if kept.sum() < 2:
        text = f"it has {kept.sum()} tasks of known {column} that took time; two are accepted"
        raise CannotTell({key: text})
    found, count = fit_speed(amounts[kept], seconds[kept]), int(kept.sum())
    spread = f"fleet.{number}.device.slowdown.sigma"
    return [
        FittedConstant(key, *found.speed, count),
        FittedConstant(spread, *found.sigma, count),
    ]
