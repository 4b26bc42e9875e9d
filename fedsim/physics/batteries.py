"""Batteries: what clients run on, and the marks that its level crosses. The block is the law.

`fedsim.physics.stores` follows the level in time.
"""

from enum import Enum
from typing import Self

from pydantic import model_validator

from fedsim.blocks.choice import failure
from fedsim.blocks.fields import as_written
from fedsim.blocks.quantities import Fraction, FractionOrNone, Leak, Share, WattHoursOrNone
from fedsim.blocks.spec import Spec
from fedsim.physics.charging import AnyCharging

_MONTH = 30 * 86400.0


class Crossing(Enum):
    """What a battery's level has just done.

    LOW and READY are told of a client that is alive, and that neither dies nor restarts at
    the same instant: `Store.ready` has it all.
    """

    DEPLETED = "depleted"  # it fell to the cut-off: the client is dead
    CHARGED = "charged"  # it rose to the restart level: the client is alive again
    LOW = "low"  # it falls below the threshold to take part
    READY = "ready"  # it rose to the threshold to take part


class Battery(Spec):
    """A battery: a store with losses, a mark below which it is dead, and one to work above.

    Shares are of its capacity. A client whose battery falls to the cut-off is dead until it
    is charged up to `restart`, and so is one that starts at the cut-off or below it; below
    `threshold` it takes no part.
    """

    capacity: WattHoursOrNone = as_written(None, "what it holds; that of the device, where null")
    charge: Fraction = as_written("100 %", "what is in it at the start")
    charge_efficiency: Share = as_written("95 %", "what arrives of what is put in")
    discharge_efficiency: Share = as_written("95 %", "what arrives of what is taken out")
    self_discharge: Leak = as_written("0 %/month", "what it loses by itself, of its capacity")
    cutoff: Fraction = as_written("5 %", "where the client shuts down")
    threshold: Fraction = as_written("20 %", "where the client ceases to take part")
    restart: FractionOrNone = as_written(
        None,
        "where a client that shut down starts again; where null the threshold, if that is above the"
        " cut-off, and else 10 % above that",
    )
    charging: AnyCharging = as_written({"kind": "none"}, "what charges it")

    def holds(self, own: float) -> float:
        """Return what it holds when full, J; `own` is what the device's own battery holds."""
        return self.capacity or own

    def leak(self, capacity: float) -> float:
        """Return what it loses by itself until it is empty, W, where it holds so much, J."""
        return self.self_discharge * capacity / _MONTH

    @property
    def starts_empty(self) -> bool:
        """Whether its client is off until the battery has been charged to the restart level."""
        return self.charge <= self.cutoff

    @property
    def restarts_at(self) -> float:
        """The share at which a client that shut down starts again."""
        if self.restart is not None:
            return self.restart
        return self.threshold if self.threshold > self.cutoff else min(self.cutoff + 0.1, 1.0)

    @model_validator(mode="after")
    def _marks_in_order(self) -> Self:
        wrong: list[tuple[str, str, object]] = []
        if self.threshold < self.cutoff:
            text = f"got {percent(self.threshold)}; give a share of the cut-off or more"
            wrong.append(("threshold", f"{text}, {percent(self.cutoff)}", self.threshold))
        elif self.restarts_at < self.threshold or self.restarts_at <= self.cutoff:
            text = (
                f"got {percent(self.restarts_at)}; give the threshold ({percent(self.threshold)})"
                f" or more, and above the cut-off ({percent(self.cutoff)})"
            )
            wrong.append(("restart", text, self.restart))
        if wrong:
            raise failure(*wrong)
        return self


def percent(share: float) -> str:
    """Return a share as a scenario writes it."""
    return f"{100 * share:g} %"
