"""Checks of a device: duration and power of tasks.

from fedsim.addons.conformance import check_device
print(check_device(Device.model_validate("pi-4")))
"""

import pickle
from collections.abc import Iterator
from functools import partial
from itertools import pairwise, product
from math import inf, isclose, isfinite

import numpy as np
import pandas as pd

from fedsim.addons.conformance.any_block import pickles
from fedsim.addons.conformance.findings import Promises, table
from fedsim.addons.robustness.blocks_in_worlds import differing_worlds
from fedsim.core.blocks.plugins import dump
from fedsim.physics.devices import DeviceLaw
from fedsim.physics.radios import RadioLaw, RateLaw, Terms
from fedsim.physics.radios.stages import FIGURES
from fedsim.physics.signals import Constant

OPERATIONS = (0.0, 1.0, 1e3, 1e6, 1e12)
"""Floating-point operations of tasks: none, one, many."""

SAMPLES = (0.0, 1.0, 20.0, 1e5)
"""Numbers of samples that tasks process."""

_CLOSE = 1e-9

_IN_WORLDS = "with arrays over worlds in place of constants, its figures are those of each world"

_FACTORS = np.array([1.0, 0.9, 1.1, 0.95, 1.05, 0.97, 1.0])
"""Factors of a constant in sampled worlds."""


def _unlike_in_worlds(block: DeviceLaw | RadioLaw) -> Iterator[str]:
    """Yield constants that give other figures as arrays over worlds, as in `fedsim robust`."""
    for name, value in block:
        if isinstance(value, float) and 0 < value < inf:
            column = value * _FACTORS
            differing = differing_worlds(block, {name: column}, len(column))
            if differing:
                few = ", ".join(f"{each:g}" for each in column[differing])
                yield f"an array for `{name}` gives other figures at {few} than that number alone"


def check_device(device: DeviceLaw) -> pd.DataFrame:
    """Check a device on tasks of several sizes.

    Args:
        device: the device, with its parameters.

    Returns:
        One row per check: check, outcome (kept or broken), and the reason.

    Example:
        >>> from fedsim.scenario import Device
        >>> check_device(Device(kind="pi-4"))["outcome"].unique().tolist()
        ['kept']
    """
    return table(type(device), _device_promises(device))


def _device_promises(device: DeviceLaw) -> Promises:
    yield "times of tasks are finite, and a larger task takes no less", _device_times(device)
    yield "the same task takes the same time again", _device_repeats(device)
    yield "a constant speed holds for every task", _device_constant(device)
    yield "powers are finite and at least 0, and work draws no less than idling", _powers(device)
    yield _IN_WORLDS, _unlike_in_worlds(device)
    yield "it can be sent to another process and back", pickles(device)


def _device_times(device: DeviceLaw) -> Iterator[str]:
    for operations, samples in product(OPERATIONS, SAMPLES):
        seconds = device.seconds(operations, samples)
        if not (isfinite(seconds) and seconds >= 0):
            yield f"{_task_text(operations, samples)} take {seconds:g} s"
    for samples in SAMPLES:
        yield from _falling(device, [(each, samples) for each in OPERATIONS])
    for operations in OPERATIONS:
        yield from _falling(device, [(operations, each) for each in SAMPLES])


def _falling(device: DeviceLaw, tasks: list[tuple[float, float]]) -> Iterator[str]:
    """Yield pairs of tasks of which the larger one takes less time."""
    for one, other in pairwise(tasks):
        less, more = device.seconds(*one), device.seconds(*other)
        if more < less * (1 - _CLOSE):
            yield f"{_task_text(*other)} take {more:g} s, and {_task_text(*one)} {less:g} s"


def _device_repeats(device: DeviceLaw) -> Iterator[str]:
    for task in product(OPERATIONS, SAMPLES):
        one, other = device.seconds(*task), device.seconds(*task)
        if one != other:
            yield (
                f"{_task_text(*task)} take {one:g} s, and then {other:g} s; what differs from task"
                " to task is a slowdown"
            )


def _device_constant(device: DeviceLaw) -> Iterator[str]:
    speed = device.constant
    if speed is None:
        return
    for operations, samples in product(OPERATIONS, SAMPLES):
        seconds, expected = device.seconds(operations, samples), operations / speed
        if not isclose(seconds, expected, rel_tol=_CLOSE):
            yield (
                f"{_task_text(operations, samples)} take {seconds:g} s, and {expected:g} s at"
                f" {speed:g} flop/s"
            )


def _powers(device: DeviceLaw) -> Iterator[str]:
    for name, watts in (("idle", device.idle), ("working()", device.working())):
        if not (isfinite(watts) and watts >= 0):
            yield f"`{name}` is {watts:g} W"
    if device.working() < device.idle:
        yield f"`working()` is {device.working():g} W, and `idle` {device.idle:g} W"


def _task_text(operations: float, samples: float) -> str:
    return f"{operations:g} operations on {samples:g} samples"


# Checks of a radio: rates, transfer terms and powers.
#
# from fedsim.addons.conformance import check_radio
# print(check_radio(FreeSpace.in_si(near=1e9, distance=20, latency=1e-3)))

SIZES = (0, 1, 8, 152, 1_000, 12_000, 12_001, 1_000_000)
"""Bits of messages: none, few, exactly one packet, one bit more, many."""

ROUNDS = 20

_TRACE = Constant(1e6)  # bit/s; replaces a radio's traces


def check_radio(radio: RadioLaw, seed: int = 0) -> pd.DataFrame:
    """Check a radio on messages of several sizes.

    Args:
        radio: the radio, with its parameters; traces are replaced by a constant rate.
        seed: the seed of its random streams.

    Returns:
        One row per check: check, outcome (kept or broken), and the reason.

    Example:
        >>> from fedsim.scenario import Radio
        >>> check_radio(Radio(kind="wifi"))["outcome"].unique().tolist()
        ['kept']
    """
    return table(type(radio), _radio_promises(radio, seed))


def _radio_promises(radio: RadioLaw, seed: int) -> Promises:
    yield (
        "the time of a message follows from its bits and rate; more bits take no less",
        _radio_times(radio),
    )
    yield "a constant rate holds for every message", _radio_constant(radio)
    yield (
        "no message is faster than the peak, and its airtime is a share of its time",
        _terms(radio),
    )
    yield "equal random streams give equal terms", _radio_repeats(radio, seed)
    yield "energies, powers and delays are finite and at least 0", _draws(radio)
    yield "framing only adds bits, and a packet is sent at least once", _packets(radio)
    if all(law.constant is not None for law in _laws(radio).values()):
        yield _IN_WORLDS, _unlike_in_worlds(radio)
    yield "it can be sent to another process and back", _radio_pickles(radio)


def _laws(radio: RadioLaw) -> dict[str, RateLaw]:
    return radio.rates(dict.fromkeys(radio.traces, _TRACE))._asdict()


def _frame(radio: RadioLaw, bits: int) -> int:
    return bits + radio.packaging.bits(bits)


def _radio_times(radio: RadioLaw) -> Iterator[str]:
    for way, law in _laws(radio).items():
        sizes = [(bits, _frame(radio, bits)) for bits in SIZES]
        seconds = [law.seconds(*size) for size in sizes]
        for (bits, framed), taken in zip(sizes, seconds, strict=True):
            least = framed / law.peak if law.peak else inf
            if not taken >= least * (1 - _CLOSE):
                yield f"{way}: {bits} bits take {taken:g} s, and {least:g} s at the peak"
        for (one, less), (other, more) in pairwise(zip(SIZES, seconds, strict=True)):
            if more < less * (1 - _CLOSE):
                yield f"{way}: {other} bits take {more:g} s, and {one} bits {less:g} s"


def _radio_constant(radio: RadioLaw) -> Iterator[str]:
    for way, law in _laws(radio).items():
        rate = law.constant
        if rate is None:
            continue
        for bits in SIZES:
            framed = _frame(radio, bits)
            seconds, expected = law.seconds(bits, framed), framed / rate
            if not isclose(seconds, expected, rel_tol=_CLOSE):
                yield f"{way}: {bits} bits take {seconds:g} s, and {expected:g} s at {rate:g} bit/s"
        for terms in _carry(radio, law, 0):
            if terms != Terms(rate):
                yield f"{way}: the rate is {rate:g} bit/s, and the terms are {terms}"


def _terms(radio: RadioLaw) -> Iterator[str]:
    for way, law in _laws(radio).items():
        for terms in _carry(radio, law, 0):
            if not 0 <= terms.cap <= law.peak * (1 + _CLOSE):
                yield f"{way}: the cap is {terms.cap:g} bit/s, and the peak {law.peak:g}"
            if not 0 < terms.share <= 1:
                yield f"{way}: {terms.share:g} of the time is on the air"
            if not 0 <= terms.rest < inf:
                yield f"{way}: the silence after a message is {terms.rest:g} s"
            if law.continuous and (terms.share, terms.rest) != (1, 0):
                yield f"{way}: `continuous` says that it is on the air all the time; got {terms}"


def _radio_repeats(radio: RadioLaw, seed: int) -> Iterator[str]:
    for way, law in _laws(radio).items():
        if _carry(radio, law, seed) != _carry(radio, law, seed):
            yield f"{way}: two carriers differ; draw from the stream alone"


def _carry(radio: RadioLaw, law: RateLaw, seed: int) -> list[Terms]:
    """Return the transfer terms of messages with a payload, round by round."""
    carrier = law.carrier(partial(np.random.default_rng, seed))
    return [
        carrier.terms(bits, _frame(radio, bits), number)
        for number in range(1, ROUNDS + 1)
        for bits in SIZES[1:]
    ]


def _draws(radio: RadioLaw) -> Iterator[str]:
    stages = radio.states.stages
    figures = {
        "idle": radio.idle,
        "resting": radio.resting,
        "waiting": radio.waiting,
        "latency": radio.latency,
    }
    figures |= {key: getattr(radio.draw, key) for key in _OF_DRAW}
    figures |= {key: getattr(radio.connection, key) for key in _OF_CONNECTION}
    for number, stage in enumerate(stages):
        figures |= {f"{key} of stage {number}": getattr(stage, key) for key in FIGURES}
    del figures[f"time of stage {len(stages) - 1}"]
    if len(stages) == 1 or stages[0].cycle or stages[-1].power or stages[-1].time < inf:
        yield "of `states`, the first does not hear always, or the last has a power or an end"
    for key, value in figures.items():
        if not (isfinite(value) and value >= 0):
            yield f"`{key}` is {value:g}"


_OF_DRAW = ("energy_up", "energy_down", "base", "send", "receive")
_OF_CONNECTION = ("promotion_power", "promotion_time", "tail_power", "tail_time")


def _packets(radio: RadioLaw) -> Iterator[str]:
    for bits in SIZES:
        if (added := radio.packaging.bits(bits)) < 0:
            yield f"{bits} bits become {bits + added}"
    if not radio.transmissions >= 1:
        yield f"a packet is sent {radio.transmissions:g} times on average"


def _radio_pickles(radio: RadioLaw) -> Iterator[str]:
    yield from pickles(radio)
    for way, law in _laws(radio).items():
        other = pickle.loads(dump(law))
        if _carry(radio, other, 0) != _carry(radio, law, 0):
            yield f"{way}: a law comes back that gives other terms"
