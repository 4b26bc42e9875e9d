"""PyTorch's learning rate schedules over several rounds, each with a new optimizer.

A schedule of `torch.optim.lr_scheduler` derives its position from its own steps. A client creates
it anew in each round, and advances it by the steps of all earlier rounds. Taking all these steps in
every round would cost a number of steps that grows quadratically with the rounds. So a new schedule
starts from the stored state of an earlier one.
"""

import warnings
from collections.abc import Hashable
from copy import deepcopy
from typing import Any, NamedTuple

STRIDE = 64
"""From this many steps on, storing the state of a schedule is faster than taking the steps
again."""


class SchedulePlace(NamedTuple):
    """A stored state of a schedule.

    Attributes:
        steps: the number of steps taken.
        state: the state of the schedule.
        groups: the settings of the optimizer's parameter groups, which the schedule changes.
    """

    steps: int
    state: dict[str, Any]
    groups: list[dict[str, Any]]


class SchedulePlaces:
    """The last stored states of schedules, by a key that is equal for equal schedules."""

    def __init__(self) -> None:
        self._places: dict[Hashable, SchedulePlace] = {}

    def advance(self, key: Hashable, schedule: Any, count: int) -> None:
        """Advance a new schedule by a number of steps.

        Args:
            key: identifies what creates the optimizer and the schedule, and the steps between two
                calls.
            schedule: a new schedule, with its optimizer.
            count: the number of steps.
        """
        place, own = self._places.get(key), type(schedule).__module__ == _OWN
        taken = 0
        if place is not None and place.steps <= count and own:
            taken = place.steps
            schedule.load_state_dict(deepcopy(place.state))
            for group, settings in zip(schedule.optimizer.param_groups, place.groups, strict=True):
                group.update(deepcopy(settings))
        take_steps(schedule, count - taken)
        if own and count - taken >= STRIDE:
            groups = [
                {name: deepcopy(value) for name, value in group.items() if name != "params"}
                for group in schedule.optimizer.param_groups
            ]
            self._places[key] = SchedulePlace(count, deepcopy(schedule.state_dict()), groups)


_OWN = "torch.optim.lr_scheduler"
"""The module of schedules whose `state_dict` is known to be complete; a user's may not be."""


def take_steps(schedule: Any, count: int) -> None:
    """Take steps of a schedule, whether or not its optimizer has taken any."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(count):
            schedule.step()
