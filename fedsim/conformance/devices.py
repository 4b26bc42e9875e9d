"""Is a device one that work can be done on: time, power?

from fedsim.conformance import check_device
print(check_device(Device.model_validate("pi-4")))
"""

import pickle
from collections.abc import Iterator
from itertools import pairwise, product
from math import isclose, isfinite

import pandas as pd

from fedsim.blocks.plugins import dumped
from fedsim.conformance.findings import Promises, table
from fedsim.physics.devices import DeviceLaw

OPERATIONS = (0.0, 1.0, 1e3, 1e6, 1e12)
"""Of tasks: none, one, many."""

SAMPLES = (0.0, 1.0, 20.0, 1e5)
"""That tasks pass over."""

_CLOSE = 1e-9


def check_device(device: DeviceLaw) -> pd.DataFrame:
    """Check a device on tasks of several sizes.

    Args:
        device: of any kind, with its parameters.

    Returns:
        A row a check: check, outcome (kept or broken), and the reason.
    """
    return table(type(device), _promises(device))


def _promises(device: DeviceLaw) -> Promises:
    yield "a task takes a time that ends, and one of more no less", _times(device)
    yield "the same task takes the same time again", _repeats(device)
    yield "a constant speed is that of every task", _constant(device)
    yield "no power is below 0 or without end, and work draws no less than rest", _powers(device)
    yield "it goes to another process and back", _goes(device)


def _times(device: DeviceLaw) -> Iterator[str]:
    for operations, samples in product(OPERATIONS, SAMPLES):
        taken = device.seconds(operations, samples)
        if not (isfinite(taken) and taken >= 0):
            yield f"{_said(operations, samples)} take {taken:g} s"
    for samples in SAMPLES:
        yield from _falling(device, [(each, samples) for each in OPERATIONS])
    for operations in OPERATIONS:
        yield from _falling(device, [(operations, each) for each in SAMPLES])


def _falling(device: DeviceLaw, tasks: list[tuple[float, float]]) -> Iterator[str]:
    """Yield where a task takes less than a smaller one."""
    for one, other in pairwise(tasks):
        less, more = device.seconds(*one), device.seconds(*other)
        if more < less * (1 - _CLOSE):
            yield f"{_said(*other)} take {more:g} s, and {_said(*one)} {less:g} s"


def _repeats(device: DeviceLaw) -> Iterator[str]:
    for task in product(OPERATIONS, SAMPLES):
        one, other = device.seconds(*task), device.seconds(*task)
        if one != other:
            yield (
                f"{_said(*task)} take {one:g} s, and then {other:g} s; what differs from task to"
                " task is a slowdown"
            )


def _constant(device: DeviceLaw) -> Iterator[str]:
    speed = device.constant
    if speed is None:
        return
    for operations, samples in product(OPERATIONS, SAMPLES):
        taken, wanted = device.seconds(operations, samples), operations / speed
        if not isclose(taken, wanted, rel_tol=_CLOSE):
            yield (
                f"{_said(operations, samples)} take {taken:g} s, and {wanted:g} s at {speed:g}"
                " flop/s"
            )


def _powers(device: DeviceLaw) -> Iterator[str]:
    for name, watts in (("idle", device.idle), ("working()", device.working())):
        if not (isfinite(watts) and watts >= 0):
            yield f"`{name}` is {watts:g} W"
    if device.working() < device.idle:
        yield f"`working()` is {device.working():g} W, and `idle` {device.idle:g} W"


def _goes(device: DeviceLaw) -> Iterator[str]:
    if pickle.loads(dumped(device)) != device:  # noqa: S301 - what has just been written
        yield "another one comes back"


def _said(operations: float, samples: float) -> str:
    return f"{operations:g} operations on {samples:g} samples"
