"""Batteries: what one is, and the marks that its level crosses; `stores` has the law it follows."""

from dataclasses import dataclass
from enum import Enum
from math import inf

from fedsim.physics.signals import Constant, Signal

_NOTHING = Constant(0.0)


class Crossing(Enum):
    """What a battery's level has just done.

    LOW and READY are told of a client that is alive, and that neither dies nor restarts at
    the same instant: `Store.ready` has it all.
    """

    DEPLETED = "depleted"  # it fell to the cut-off: the client is dead
    CHARGED = "charged"  # it rose to the restart level: the client is alive again
    LOW = "low"  # it falls below the threshold to take part
    READY = "ready"  # it rose to the threshold to take part


@dataclass(frozen=True, slots=True)
class BatteryModel:
    """A battery and what charges it.

    Attributes:
        capacity: J.
        initial: the share that it holds at time 0.
        charge_efficiency: what is stored of what is taken from the source.
        discharge_efficiency: what reaches the device of what leaves the store.
        leak: self-discharge until the store is empty, W.
        cutoff: the share at which the client shuts down.
        threshold: the share below which the client takes no part.
        restart: the share at which a dead client starts again.
        source: what a charger or harvester offers, W.

    Raises:
        ValueError: a value is outside its range, or a client would restart at its cut-off.
    """

    capacity: float
    initial: float = 1.0
    charge_efficiency: float = 0.95
    discharge_efficiency: float = 0.95
    leak: float = 0.0
    cutoff: float = 0.05
    threshold: float = 0.20
    restart: float = 0.20
    source: Signal = _NOTHING

    def __post_init__(self) -> None:
        if not 0 < self.capacity < inf:
            raise ValueError(f"capacity is above 0 and finite; seen {self.capacity}")
        if not 0 <= self.leak < inf:
            raise ValueError(f"leak is finite and at least 0; seen {self.leak}")
        for name in ("initial", "cutoff", "threshold", "restart"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is a share, 0 to 1; seen {getattr(self, name)}")
        for name in ("charge_efficiency", "discharge_efficiency"):
            if not 0 < getattr(self, name) <= 1:
                raise ValueError(f"{name} is above 0 and at most 1; seen {getattr(self, name)}")
        if not self.cutoff < self.restart:
            raise ValueError(f"restart is above cutoff; seen {self.restart} and {self.cutoff}")

    @property
    def sustainable(self) -> bool:
        """Whether a battery surely charges to `restart` again while its client is off."""
        return self.charge_efficiency * self.source.average > self.leak
