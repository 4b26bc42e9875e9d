"""The powers of a group's device and radio, fitted to what meters have measured.

The energy of an interval is a sum over the client's states: each state's power times the time in it
(or the energy per bit times the bits), by the recording. The powers are the least squares of that
sum. Errors of one stretch of time may depend on each other, as the power of a processor drifts with
its temperature, so intervals are those of a jackknife over stretches, with t quantiles (Cameron and
Miller, "A Practitioner's Guide to Cluster-Robust Inference", J. Human Resources 2015, section VI).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import lsq_linear
from scipy.stats import t as student

from fedsim.addons.calibration.alignment import align
from fedsim.addons.calibration.constants import FittedConstant
from fedsim.addons.calibration.likelihood import LEVEL
from fedsim.addons.calibration.meters import PowerLog
from fedsim.addons.calibration.timeline import (
    DOWN,
    HELD,
    PROMOTION,
    REST,
    TAIL,
    UP,
    WORKING,
    Timeline,
    is_by_state,
    scenario_powers,
)
from fedsim.core.errors import DataError
from fedsim.core.ports import Array
from fedsim.core.text import format_number
from fedsim.physics.devices import Device
from fedsim.physics.radios import Radio, powers_of
from fedsim.scenario import Group

_STRETCHES = 24
"""Stretches of time of one log whose errors are taken for independent."""

_LEAST = 50
"""Intervals of a log that are needed: two for each stretch."""

_WINDOWS = 20
"""Windows of the second half of a log, whose energy the first half predicts."""


class Metered(NamedTuple):
    """One client's power log beside what it did.

    Attributes:
        client: the name of the client.
        timeline: its states, by the clock of the recording.
        log: its energies, by the clock of the meter.
    """

    client: str
    timeline: Timeline
    log: PowerLog


@dataclass(frozen=True)
class _Rows:
    """Intervals of one or more logs.

    Attributes:
        amounts: the states in each interval, shape (intervals, states).
        joules: the measured energies, J, shape (intervals,).
        stretches: the number of each interval's stretch, shape (intervals,).
    """

    amounts: Array
    joules: Array
    stretches: NDArray[np.intp]

    def take(self, kept: slice) -> "_Rows":
        """Return some of the intervals."""
        return _Rows(self.amounts[kept], self.joules[kept], self.stretches[kept])

    @classmethod
    def join(cls, parts: Sequence["_Rows"]) -> "_Rows":
        """Return the intervals of several logs."""
        return cls(
            np.concatenate([part.amounts for part in parts]),
            np.concatenate([part.joules for part in parts]),
            np.concatenate([part.stretches for part in parts]),
        )


@dataclass(frozen=True)
class _Fit:
    """The powers by least squares.

    Attributes:
        powers: the power, or the energy per bit, of each state, shape (states,).
        covariance: of the errors, shape (states, states); 0 for those of the scenario.
        free: the states whose powers were fitted.
        quantile: half the width of the 90 % interval in standard errors.
    """

    powers: Array
    covariance: Array
    free: Sequence[int]
    quantile: float

    def interval(self, states: Sequence[int], beyond: float = 0.0) -> tuple[float, float, float]:
        """Return a sum of powers plus a constant, with its 90 % interval; none is negative."""
        pick = np.zeros(len(self.powers))
        pick[list(states)] = 1.0
        value = float(pick @ self.powers) + beyond
        half = self.quantile * float(np.sqrt(pick @ self.covariance @ pick))
        return max(value, 0.0), max(value - half, 0.0), max(value + half, 0.0)


def fit_powers(
    number: int, group: Group, meters: Sequence[Metered]
) -> tuple[list[FittedConstant], list[str]]:
    """Return the powers of a group's device and radio, and notes.

    A power that the logs do not show stays as in the scenario, and a note says so.

    Args:
        number: the number of the group.
        group: the group; its device is a `Device`, and its radio a `Radio`.
        meters: the power logs of its clients, at least one.

    Raises:
        DataError: a log does not follow what its client did, or measures less at rest than the
            radio alone draws by the scenario.
    """
    device, radio = group.device, group.radio
    assert isinstance(device, Device)  # noqa: S101 - as the caller has checked
    assert isinstance(radio, Radio)  # noqa: S101 - as the caller has checked
    stated = _stated(device, radio)
    parts, notes = _aligned(meters, stated)
    rows, wanted = _Rows.join(parts), [*_fitted_states(device, radio)]
    fit = _identified(rows, stated, wanted)
    if fit.powers[REST] < radio.resting:
        idle, least = (format_number(each, ".3g") for each in (fit.powers[REST], radio.resting))
        text = f"the clients of fleet.{number} draw {idle} W at rest, their radio alone {least} W"
        accepted = "expected the meter of a whole client, or a scenario whose radio draws less"
        raise DataError("power", f"{text} by the scenario; {accepted}")
    constants = list(_constants(number, group, fit, len(rows.joules)))
    seen = [state for state in wanted if rows.amounts[:, state].any()]
    notes += _kept(number, seen, fit, radio)
    if len(errors := np.abs(_halves(parts, stated, wanted))):
        median, worst = (
            format_number(100 * each, ".2g") for each in (np.median(errors), errors.max())
        )
        notes.append(
            f"fleet.{number}: the first half of the power log predicts the energy of the second:"
            f" off by {median} % in the median of {len(errors)} windows, {worst} % at worst"
        )
    return constants, notes


def second_half_errors(group: Group, meters: Sequence[Metered]) -> Array:
    """Return how far powers fitted to the first half of each log are off in the second.

    Args:
        group: see `fit_powers`.
        meters: see `fit_powers`.

    Returns:
        Predicted / measured energy - 1 of each window of a second half, shape (windows,).
    """
    device, radio = group.device, group.radio
    assert isinstance(device, Device)  # noqa: S101 - see `fit_powers`
    assert isinstance(radio, Radio)  # noqa: S101 - see `fit_powers`
    stated = _stated(device, radio)
    parts, _ = _aligned(meters, stated)
    return _halves(parts, stated, [*_fitted_states(device, radio)])


def _stated(device: Device, radio: Radio) -> Array:
    """Return the powers of the states by the scenario; see `scenario_powers`."""
    return scenario_powers(radio, device.idle + radio.resting, device.working() - device.idle)


def _aligned(meters: Sequence[Metered], stated: Array) -> tuple[list[_Rows], list[str]]:
    """Return the intervals of each log by the clock of the recording, and notes on the clocks."""
    parts, notes = list[_Rows](), list[str]()
    for meter in meters:
        aligned = align(meter.timeline, meter.log, stated, meter.client)
        notes += aligned.notes
        amounts = meter.timeline.amounts(aligned.log.begin, aligned.log.end)
        if len(amounts) < _LEAST:
            text = (
                f"the power log of {meter.client} has {len(amounts)} intervals within the recording"
            )
            raise DataError("power", f"{text}; expected {_LEAST} or more")
        stretches = _stretches(aligned.log) + _STRETCHES * len(parts)
        parts.append(_Rows(amounts, aligned.log.joules, stretches))
    return parts, notes


def _fitted_states(device: Device, radio: Radio) -> Iterator[int]:
    """Yield the states whose powers are constants of the scenario that a meter can show."""
    yield REST
    if device.active is not None:
        yield WORKING
    if not is_by_state(radio):
        yield HELD
    yield from (UP, DOWN)
    if radio.tail_time > 0:
        yield TAIL


def _stretches(log: PowerLog) -> NDArray[np.intp]:
    """Return the number of each interval's stretch: equal times, without those of no interval."""
    span = log.end[-1] - log.begin[0]
    place = (log.begin - log.begin[0]) / span * _STRETCHES
    numbers: NDArray[np.intp] = np.minimum(place.astype(np.intp), _STRETCHES - 1)
    return numbers


def _least_squares(rows: _Rows, stated: Array, free: Sequence[int]) -> _Fit:
    """Return the powers of some states by least squares; the others are those of the scenario."""
    chosen = list(free)
    powers = stated.copy()
    powers[chosen] = 0.0
    # An interval's error grows with its length, as its energy does.
    weights = 1.0 / np.sqrt(rows.amounts[:, REST])
    columns = rows.amounts[:, chosen] * weights[:, None]
    wanted = (rows.joules - rows.amounts @ powers) * weights
    sizes = np.sqrt((columns * columns).sum(axis=0))
    columns = columns / sizes
    powers[chosen] = lsq_linear(columns, wanted, bounds=(0.0, np.inf), method="bvls").x / sizes
    # The jackknife: the spread of the powers where one stretch at a time is left out.
    groups, which = np.unique(rows.stretches, return_inverse=True)
    count, unknown = len(groups), len(chosen)
    squares, products = np.zeros((count, unknown, unknown)), np.zeros((count, unknown))
    for group in range(count):
        of = columns[which == group]
        squares[group], products[group] = of.T @ of, of.T @ wanted[which == group]
    left = np.linalg.pinv(squares.sum(axis=0) - squares, hermitian=True)
    without = np.einsum("gij,gj->gi", left, products.sum(axis=0) - products) / sizes
    apart = without - without.mean(axis=0)
    covariance = np.zeros((len(powers), len(powers)))
    covariance[np.ix_(chosen, chosen)] = (count - 1) / count * apart.T @ apart
    quantile = float(student.ppf((1 + LEVEL) / 2, max(count - 1, 1)))
    return _Fit(powers, covariance, tuple(free), quantile)


def _identified(rows: _Rows, stated: Array, wanted: Sequence[int]) -> _Fit:
    """Return the fit of all powers that the rows determine.

    The power with the largest relative error is taken from the scenario, one after another, until
    the error of each is at most the power itself, or that of the scenario.
    """
    free = [state for state in wanted if rows.amounts[:, state].any()]
    while alike := [state for state in free if state != REST and _alike(rows.amounts, free, state)]:
        free.remove(max(alike, key=_ORDER.index))
    while True:
        fit = _least_squares(rows, stated, free)
        halves = fit.quantile * np.sqrt(np.diag(fit.covariance))
        sizes = np.maximum(np.maximum(fit.powers, stated), np.finfo(float).tiny)
        unsure = {state: float(halves[state] / sizes[state]) for state in free if state != REST}
        if not unsure or max(unsure.values()) <= 1.0:
            return fit
        free.remove(max(unsure, key=lambda state: (unsure[state], _ORDER.index(state))))


_ORDER = (WORKING, TAIL, UP, DOWN, HELD)
"""Of states that always occur together, the last one here is taken from the scenario first."""

_SAME = 1e-6


def _alike(amounts: Array, free: Sequence[int], state: int) -> bool:
    """Return whether a state's amounts are a combination of those of the other free states."""
    others = [each for each in free if each != state]
    column, rest = amounts[:, state], amounts[:, others]
    sizes = np.sqrt((rest * rest).sum(axis=0))
    left = column - (rest / sizes) @ np.linalg.lstsq(rest / sizes, column, rcond=None)[0]
    return bool(np.linalg.norm(left) <= _SAME * np.linalg.norm(column))


def _constants(number: int, group: Group, fit: _Fit, observations: int) -> Iterator[FittedConstant]:
    """Yield the constants of the scenario that have the fitted powers."""
    device, radio = group.device, group.radio
    assert isinstance(radio, Radio)  # noqa: S101 - see `fit_powers`
    resting = radio.resting
    waiting, held = radio.waiting, powers_of(radio).held
    found = {"device.idle": fit.interval([REST], -resting)}
    if isinstance(device, Device) and device.active is not None:
        found["device.active"] = fit.interval([REST, WORKING], -resting)
    # What `powers_of` and `Connection` subtract from the figures of the block is added here.
    by_state = is_by_state(radio)
    names: Mapping[int, tuple[str, float]] = {
        HELD: ("base", waiting),
        DOWN: ("receive", held + waiting - radio.base) if by_state else ("energy_down", 0.0),
        UP: ("send", held + waiting - radio.base) if by_state else ("energy_up", 0.0),
        TAIL: ("tail_power", waiting),
    }
    for state in (HELD, DOWN, UP, TAIL):
        if state in fit.free:
            name, beyond = names[state]
            found[f"radio.{name}"] = fit.interval([state], beyond)
    for key, values in found.items():
        yield FittedConstant(f"fleet.{number}.{key}", *values, observations)


_NAMES = {
    WORKING: "what work adds to device.idle",
    HELD: "radio.base",
    UP: "the energy of sending",
    DOWN: "the energy of receiving",
    TAIL: "radio.tail_power",
    PROMOTION: "radio.promotion_power",
}


def _kept(number: int, wanted: Sequence[int], fit: _Fit, radio: Radio) -> Iterator[str]:
    """Yield a note on powers that stay as in the scenario."""
    states = [s for s in dict.fromkeys((WORKING, *wanted)) if s not in fit.free]
    if radio.promotion_time > 0:
        states.append(PROMOTION)
    if states:
        names = ", ".join(_NAMES[state] for state in states)
        yield f"fleet.{number}: the power log does not show {names}, kept from the scenario"


def _halves(parts: Sequence[_Rows], stated: Array, wanted: Sequence[int]) -> Array:
    """Return the errors of windows of the second half of each log; see `second_half_errors`."""
    first = [part.take(slice(len(part.joules) // 2)) for part in parts]
    powers, errors = _identified(_Rows.join(first), stated, wanted).powers, list[float]()
    for part in parts:
        later = np.arange(len(part.joules) // 2, len(part.joules))
        for window in np.array_split(later, min(_WINDOWS, len(later))):
            measured = float(part.joules[window].sum())
            if measured > 0:
                errors.append(float((part.amounts[window] @ powers).sum()) / measured - 1.0)
    return np.array(errors)
