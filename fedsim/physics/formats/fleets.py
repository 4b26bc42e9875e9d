"""Fleets of files of others: groups of clients, as a scenario in Python has them."""

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedsim.physics.formats.fedscale import read_capacities
from fedsim.physics.formats.lorawan import read_log

_BACKWARD = 3.0  # forward and backward pass in times of a forward pass, as FedScale has it
_CLOCK = 2e9  # Hz; a task's time is cycles / frequency, so that any clock would do


def fedscale_fleet(
    path: Path | str,
    clients: int,
    device: Mapping[str, Any] | None = None,
    radio: Mapping[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """Return a group for each client, as fast as FedScale's file of capacities says.

    As in FedScale, a task takes three times the forward pass of its samples, whatever the model,
    and the rate is that of both directions. Client k is the k-th of the file, and again from the
    first.

    Args:
        path: client_device_capacity, a pickle; nothing in it is run.
        clients: how many.
        device: further keys of each device, such as {"idle": "0.3 W"}; powers are not in the file.
        radio: further keys of each radio, {"kind": "lte"} where nothing is said.

    Returns:
        Groups, to be the fleet of a scenario.

    Raises:
        DataError: the file cannot be read, or is not of that form.
    """
    capacities = read_capacities(Path(path))
    power = {"kappa": 1e-28, "idle": "0 W", **(device or {})}
    groups = []
    for client in range(clients):
        each = capacities[client]
        work = {"cycles_per_sample": _BACKWARD * each.seconds * _CLOCK, "frequency": "2 GHz"}
        rates = {"up": f"{each.rate:.17g} bit/s", "down": f"{each.rate:.17g} bit/s"}
        groups.append(
            {
                "count": 1,
                "device": {"kind": "custom", **power, **work},
                "radio": {"kind": "lte", **(radio or {}), **rates},
            }
        )
    return groups


def lorawan_fleet(
    path: Path | str, least: int = 10, radio: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    """Return groups of the devices of a gateways' log, by spreading factor and loss.

    Devices of one spreading factor whose share of lost frames is the same in whole percent are a
    group, in which packets are lost independently.

    Args:
        path: the log, as LoED has one a day.
        least: how many frames of a device have to be heard for it to be a client.
        radio: further keys of each radio, such as {"tries": 8}.

    Returns:
        Groups, to be the fleet of a scenario.

    Raises:
        DataError: the file cannot be read, or is not of that form.
    """
    counts: dict[tuple[int, int], int] = defaultdict(int)
    for each in read_log(Path(path)):
        if each.received >= least:
            counts[each.spreading, round(100 * each.loss)] += 1
    return [
        {"count": count, "radio": {"kind": f"lora-sf{spreading}", **_lost(loss), **(radio or {})}}
        for (spreading, loss), count in sorted(counts.items())
    ]


def _lost(percent: int) -> dict[str, Any]:
    if not percent:
        return {}
    return {"loss": {"kind": "independent", "rate": f"{percent} %"}}
