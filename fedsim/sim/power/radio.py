"""Radios: what their two directions spend, metered."""

from math import inf

from fedsim.physics.radios import RadioModel


class Radio:
    """Meters the energy of a radio that may send and receive at once.

    The base power is on while anything is transferred, and is paid once: each transfer pays,
    when it ends, for all the time that is not paid yet. The sum is the exact integral of the
    power however the two directions overlap.

    Attributes:
        began: since when bits flow down, and up; may be to come; infinite while none do.
        joules: spent so far.
    """

    __slots__ = ("_paid_until", "began", "joules", "model")

    def __init__(self, model: RadioModel) -> None:
        self.model = model
        self.began = [inf, inf]
        self._paid_until = 0.0
        self.joules = 0.0

    def end(self, now: float, bits: float, up: bool) -> float:  # noqa: FBT001 - once a message
        """Note that bits have ceased to flow; meter them and return the joules."""
        # Comparisons, not min and max: this runs twice for every client in every round.
        on, other = began = self.began  # both directions' bits, if any, flow until now
        if other < on:  # noqa: PLR1730
            on = other
        if on < self._paid_until:  # noqa: PLR1730
            on = self._paid_until
        model = self.model
        joules = (model.energy_up if up else model.energy_down) * bits
        if on < now:
            joules += model.base * (now - on)
        self._paid_until = now
        began[up] = inf
        self.joules += joules
        return joules
