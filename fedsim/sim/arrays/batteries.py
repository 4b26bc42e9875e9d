"""Batteries that only drain, as columns: they have the accounts of `Supply`."""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from fedsim.core.ports import Array
from fedsim.physics.state_of_charge import outflow, outtake
from fedsim.sim.arrays.classes import ClassTable, Ids
from fedsim.sim.arrays.order import Numbers, ReactionError
from fedsim.sim.power.supply import Accounts, Part

_SINGLE = ("level", "drained", "now", "since", "load", "delivered", "settled", "resolution")
_BY_PART = ("watts", "drawn", "metered")
_CONSTANTS = ("capacity", "efficiency", "leak", "mark")

_NEAR, _TICKS = 1e-9, 16
"""Tolerances of a mark: this share of the capacity, and this multiple of the clock's resolution
error. Both exceed the rounding that could decide on which side of the mark a battery is."""


class Batteries(Accounts):
    """Some batteries.

    Args:
        state: their figures, shape (rows, n).
        constants: figures that stay, each of shape (n,), or () if all batteries have the same.

    Attributes:
        level: the stored energies, J.
        drained: the energies taken out so far, with losses, J.
        now: the times of `level` and `drained`, s.
        mark: the levels at which something happens next, J.
    """

    level: Array
    drained: Array
    now: Array
    mark: Array
    _state: Array
    _constants: Mapping[str, Array]

    def __init__(self, state: Array, constants: Mapping[str, Array]) -> None:
        # The attributes are views of `state`, so that one operation copies all of them.
        ends = len(_SINGLE) + len(Part) * np.arange(len(_BY_PART) + 1)
        parts = [state[begin:end] for begin, end in pairwise(ends)]
        self.__dict__ |= dict(zip(_SINGLE, state[: ends[0]], strict=True))
        self.__dict__ |= dict(zip(_BY_PART, parts, strict=True))
        self.__dict__ |= {"_state": state, "_constants": constants, "mark": constants["mark"]}
        self.__dict__["store"] = self  # which has the levels, too

    def __setattr__(self, name: str, figures: Any) -> None:
        column = getattr(self, name)
        if figures is not column:  # operations in place have written it already
            column[...] = figures

    @classmethod
    def at_start(cls, table: ClassTable, clients: Ids) -> "Batteries":
        """Return the batteries of some clients at time 0."""
        rows = len(_SINGLE) + len(_BY_PART) * len(Part)
        constants = {name: table.of(name, clients) for name in _CONSTANTS}
        made = cls(np.zeros((rows, len(clients))), constants)
        made.level = table.of("level", clients)
        made.load = made.watts[Part.REST] = table.of("rest", clients)
        return made

    def advance(self, now: Any) -> None:
        """Bring levels up to a time, s, as a query of them does."""
        # Linear in time, since power is constant between two changes.
        gone = self.gone(self.load, now - self.now)
        self.level -= gone
        self.drained += gone
        self.now = now

    def draw(self, now: Array, watts: Array) -> None:
        """Do nothing: `load` is the power that `advance` reads."""

    def take(self, joules: Array) -> None:
        """Take energy out of the batteries at once, J."""
        constants = self._constants
        out = outtake(joules, constants["efficiency"], self.level, constants["capacity"])
        self.drained += out
        self.level -= out

    @property
    def shares(self) -> Array:
        """The states of charge, in [0, 1]."""
        charges: Array = self.level / self._constants["capacity"]
        return charges

    def gone(self, watts: Array, seconds: Array | float) -> Array:
        """Return the energies that leave the batteries at powers at the device in times, J."""
        out: Array = outflow(watts, self._constants["efficiency"], self._constants["leak"])
        return out * seconds

    def book(self, part: Part, joules: Array, edge: Array, tick: Array) -> None:
        """Settle a part with its meter, which has grown by some energy; see `Supply.book`."""
        missing = self.close(part, self.metered[part] + joules)
        self.settle(missing, np.where(missing != 0.0, edge, 0.0), tick)

    def check(self, gone: Array | float = 0.0) -> None:
        """Check that levels are clearly above their marks, after more energy is gone, J.

        Raises:
            ReactionError: a level is not.
        """
        margin = _NEAR * self._constants["capacity"] + _TICKS * self.resolution
        if not (self.level - gone - self.mark > margin).all():
            raise ReactionError("a battery reaches a mark")

    def pick(self, places: Numbers) -> "Batteries":
        """Return a copy of some of the batteries."""
        constants = {
            name: figures[places] if figures.ndim else figures
            for name, figures in self._constants.items()
        }
        return Batteries(self._state[:, places], constants)

    def among(self, places: Numbers) -> Iterator["Batteries"]:
        """Yield some of the batteries once, and keep what the caller changes; nothing of none.

        Args:
            places: which ones, ascending.
        """
        if len(places) == self._state.shape[1]:
            yield self
        elif len(places):
            some = self.pick(places)
            yield some
            self._state[:, places] = some._state  # noqa: SLF001 - of this class
