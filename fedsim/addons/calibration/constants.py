"""The constants of a fleet that are fitted, and the error for those that are not determined."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsim.addons.calibration.prediction import Radios
from fedsim.core.blocks.wording import join_names
from fedsim.core.errors import DataError
from fedsim.core.ports import Array
from fedsim.scenario import Group, Scenario

WAYS = {"up": "upload", "down": "download"}
LATENCY = "latency"
RADIO = (*WAYS, LATENCY)
DEVICE_POWERS = ("idle", "active")
RADIO_POWERS = ("base", "energy_up", "energy_down", "send", "receive", "tail_power")
LINK = {"network.server.uplink": "uplink", "network.server.downlink": "downlink"}

SAME = 0.01
"""Relative difference below which sizes of messages are equal."""

ONE_SIZE = "all messages have one size"
"""Why a rate and a latency are not separable."""


@dataclass(frozen=True)
class FittedConstant:
    """A constant with its 90 % interval.

    Attributes:
        key: the key in the scenario, such as "fleet.0.radio.up".
        value, low, high: in SI units.
        observations: the number of observations that determine it.
    """

    key: str
    value: float
    low: float
    high: float
    observations: int


@dataclass(frozen=True)
class UnknownConstant:
    """A constant of the network to fit.

    Attributes:
        key: the key in the scenario.
        field: up, down or latency of a radio; uplink or downlink of the server.
        clients: the clients that have it.
    """

    key: str
    field: str
    clients: NDArray[np.intp]

    @property
    def rate(self) -> bool:
        """Whether it is a rate, whose logarithm is fitted."""
        return self.field != LATENCY


@dataclass(frozen=True)
class ClientGroups:
    """The groups of a scenario, and their clients.

    Attributes:
        scenario: see `fedsim.scenario`.
        groups: the groups with their numbers of clients.
        written: the groups as written in the scenario file.
    """

    scenario: Scenario
    groups: Sequence[Group]
    written: Sequence[Mapping[str, Any]]

    def clients(self, number: int) -> NDArray[np.intp]:
        """Return the clients of a group."""
        # Clients are numbered group by group, as everywhere in a fleet.
        first = sum(group.count for group in self.groups[:number])
        return np.arange(first, first + self.groups[number].count)

    @property
    def count(self) -> int:
        """The number of all clients."""
        return sum(group.count for group in self.groups)

    def radios(self) -> Radios:
        """Return the constants that the scenario states."""
        counts = [group.count for group in self.groups]

        def by_client(field: str) -> Array:
            values = [float(getattr(group.radio, field, inf)) for group in self.groups]
            return np.repeat(values, counts)

        return Radios(by_client("up"), by_client("down"), by_client(LATENCY))


class CannotTell(DataError):
    """The recording does not determine a constant.

    Args:
        reasons: the reasons by key.
    """

    def __init__(self, reasons: Mapping[str, str]) -> None:
        self.reasons = dict(reasons)
        by_reason = dict[str, list[str]]()
        for key, reason in reasons.items():
            by_reason.setdefault(reason, []).append(key)
        listed = "; ".join(f"{join_names(k, 'and')}, as {why}" for why, k in by_reason.items())
        # Of an inseparable rate and latency, keeping the latency is enough.
        kept = [
            key
            for key, reason in reasons.items()
            if ONE_SIZE not in reason or key.endswith(LATENCY)
        ]
        hints = " ".join(f"--keep {key}" for key in kept)
        text = f"the recording does not identify {listed}. Give a recording that does, or take"
        super().__init__("log", f"{text} the scenario's values: {hints}")
