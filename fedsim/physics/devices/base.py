"""What every device is: a block of a scenario, and the law that a client's processor follows."""

from abc import abstractmethod
from collections.abc import Iterator
from typing import Self

import numpy as np
from pydantic import model_validator

from fedsim.blocks.choice import failure
from fedsim.blocks.fields import as_written
from fedsim.blocks.listed import KindFirst
from fedsim.blocks.quantities import MAINS, Stored, Watts
from fedsim.physics.slowdowns import AnySlowdown


class DeviceLaw(KindFirst):
    """A client's processor. One of one's own is a subclass with its `kind` and the two laws.

    It draws `idle` for all the time that it is on, and `working` while it is busy.
    """

    kind: str
    idle: Watts = as_written("0 W", "power while it does not compute")
    battery: Stored = as_written(MAINS, 'what a full battery holds; "mains" for none')
    slowdown: AnySlowdown = as_written(
        {"kind": "none"}, "a factor on the time of every task, drawn task by task"
    )

    @abstractmethod
    def seconds(self, operations: float, samples: float) -> float:
        """Return how long a task takes without its slowdown, s.

        Args:
            operations: floating-point operations of the task.
            samples: how many samples it passes over.
        """

    @abstractmethod
    def working(self) -> float:
        """Return the power that it draws while it computes, W, its idle power included."""

    @property
    def constant(self) -> float | None:
        """The speed by which the operations of every task are divided, flop/s; else None."""
        return None

    @property
    def varies(self) -> bool:
        """Whether each client has a device of its own; see `one`."""
        return False

    @property
    def fastest(self) -> Self:
        """The fastest of the devices that clients may have."""
        return self

    def one(self, rng: np.random.Generator) -> Self:  # noqa: ARG002 - all are alike
        """Return the device of one client, drawn where they vary."""
        return self

    @model_validator(mode="after")
    def _sound(self) -> Self:
        wrong = list(self._faults())
        if wrong:
            raise failure(*wrong)
        return self

    def _faults(self) -> Iterator[tuple[str, str, object]]:
        """Yield what is wrong with the block: key, message, value seen."""
        working = self.working()
        if not working >= self.idle:  # NaN is refused as well
            text = (
                f'got "{working:g} W", which is less than idle, "{self.idle:g} W": it is all'
                " that the device draws while it computes; give active as much as idle or more"
            )
            yield "active" if "active" in type(self).model_fields else "", text, working
