"""Schedules of PyTorch that go on over rounds in which optimizers are made anew.

A schedule of `torch.optim.lr_scheduler` knows its place by the steps that it has taken. A client
makes it anew in each of its rounds, and lets it take those of the rounds before. All of them in
every round would be a number of steps that grows with the square of the rounds, so it goes on from
where an earlier one has stood.
"""

import warnings
from collections.abc import Hashable
from copy import deepcopy
from typing import Any, NamedTuple

STRIDE = 64
"""The steps of a schedule from which remembering its place is faster than taking them again."""


class SchedulePlace(NamedTuple):
    """Where a schedule has stood.

    Attributes:
        steps: that it had taken.
        state: the state of the schedule.
        groups: the settings of the optimizer's groups of parameters, which it changes.
    """

    steps: int
    state: dict[str, Any]
    groups: list[dict[str, Any]]


class SchedulePlaces:
    """The last places of schedules, each under a key that is equal for schedules alike."""

    def __init__(self) -> None:
        self._places: dict[Hashable, SchedulePlace] = {}

    def advance(self, key: Hashable, schedule: Any, count: int) -> None:
        """Let a schedule that has taken no step take some.

        Args:
            key: of what makes the optimizer and the schedule, and of the steps between two calls.
            schedule: as it was made, with its optimizer.
            count: the number of its steps.
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
"""The module of schedules whose state is known to be whole; a user's may have more of it."""


def take_steps(schedule: Any, count: int) -> None:
    """Let a schedule take steps, before its optimizer has taken any or after it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(count):
            schedule.step()
