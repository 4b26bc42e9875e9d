"""The speed of a fleet's devices, and the spread of the times of their tasks."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedsim.addons.calibration.constants import CannotTell, FittedConstant
from fedsim.addons.calibration.doubts import CERTAIN, PLAIN, outlier_note, outliers, unlike
from fedsim.addons.calibration.likelihood import FLOOR, fit_speed
from fedsim.addons.calibration.recording import MEAN, WORK
from fedsim.core.ports import Array
from fedsim.physics.devices import Device
from fedsim.scenario import Group


def fit_device(
    number: int,
    group: Group,
    recording: pd.DataFrame,
    clients: NDArray[np.intp],
    members: NDArray[np.intp],
    mean_of: int | None,
) -> tuple[list[FittedConstant], list[str]]:
    """Return the speed or frequency of a group's device, the spread of task times, and notes.

    Args:
        number: the number of the group.
        group: the group; its device is an instance of `Device`.
        recording: all observations.
        clients: their clients, -1 for all.
        members: the clients of the group.
        mean_of: the number of clients in a mean over a round; None if not known.

    Raises:
        CannotTell: there is no work, or fewer than two tasks of known amounts.
    """
    device = group.device
    assert isinstance(device, Device)  # noqa: S101 - as the caller has checked
    field, factor = "speed", 1.0
    column = "operations"
    if device.speed is None:
        field, column, factor = "frequency", "samples", float(device.cycles_per_sample or 0.0)
    key = f"fleet.{number}.device.{field}"
    work = recording["kind"].isin(WORK).to_numpy() & np.isin(clients, [*members, -1])
    rows, who = recording[work], clients[work]
    if not len(rows):
        raise CannotTell({key: "it has no work of these clients"})
    means = (rows["kind"] == MEAN).to_numpy()
    spread = f"fleet.{number}.device.slowdown.sigma"
    if means.any() and (mean_of is None or not means.all()):
        text = "it has means of work over an unknown number of clients, or over unequal clients"
        raise CannotTell({key: text, spread: text})
    amounts = factor * rows[column].to_numpy(float)
    seconds = (rows["end"] - rows["start"]).to_numpy(float)
    kept = (amounts > 0) & (seconds > 0)
    if kept.sum() < 2:
        text = f"it has {kept.sum()} tasks of known {column} that took time; two are needed"
        raise CannotTell({key: text})
    # A mean over n clients has a smaller spread than one task: `fit_speed` converts it.
    size = (mean_of or 1) if means.any() else 1
    fitted, count = fit_speed(amounts[kept], seconds[kept], size), int(kept.sum())
    constants = [
        FittedConstant(key, *fitted.speed, count),
        FittedConstant(spread, *fitted.sigma, count),
    ]
    # Seconds per unit: a slower client has a larger logarithm, as its messages have in
    # `doubts.unlike`.
    logs, places = np.log(seconds[kept] / amounts[kept]), rows["start"].to_numpy(float)[kept]
    names = rows["client"].to_numpy(str)[kept]
    notes = list(_unlike(number, logs, who[kept], names))
    if (far := np.flatnonzero(outliers(logs))).size:
        first = far[0]
        took = f"{seconds[kept][first]:.3g} s"
        where = f"the first of {names[first]} at {places[first]:.6g} s: {took}"
        notes.append(outlier_note(len(far), count, f"tasks of fleet.{number}", where))
    if size > 1:
        notes.append(
            f"fleet.{number}: times of work count as means over the {size} clients of a round;"
            f" the times of single tasks spread about sqrt({size}) times as far"
        )
    return constants, notes


def _unlike(
    number: int, logs: Array, who: NDArray[np.intp], names: NDArray[np.str_]
) -> Iterator[str]:
    """Yield a note on the client whose tasks differ most from those of its group, if any does."""
    most, note = CERTAIN, ""
    for client in np.unique(who):
        logs_of_client, others = logs[who == client], logs[who != client]
        if min(len(logs_of_client), len(others)) < 2:
            continue
        error = np.sqrt(
            logs_of_client.var(ddof=1) / len(logs_of_client) + others.var(ddof=1) / len(others)
        )
        gap = float(logs_of_client.mean() - others.mean())
        certainty = abs(gap) / max(float(error), FLOOR)
        if certainty > most and abs(gap) > PLAIN:
            most, note = certainty, unlike(number, names[who == client][0], gap, "tasks")
    if note:
        yield note
