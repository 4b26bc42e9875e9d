"""The offset between the clock of a meter and that of a recording."""

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.signal import correlate, correlation_lags, find_peaks

from fedsim.addons.calibration.meters import PowerLog
from fedsim.addons.calibration.timeline import Timeline
from fedsim.core.errors import DataError
from fedsim.core.ports import Array
from fedsim.core.text import format_number

_FINEST = 2**17
"""Steps of time at most in the search for the offset."""

_PEAKS = 6
"""Offsets that are looked at closely."""

_COVERED = 0.8
"""Share of the log, or of the recording if that is shorter, that has to overlap."""

_FOLLOWS = 0.1
"""Least share of the variance of power that the recorded activity explains."""

_NOTHING = 1e-3
"""Offsets below this are not worth telling, s."""

_ALIKE = 1.05
"""An offset fits as well as another if its errors are at most this multiple."""


class Aligned(NamedTuple):
    """A power log by the clock of the recording, within the recorded time.

    Attributes:
        log: its intervals.
        notes: the offset, and whether others fit as well.
    """

    log: PowerLog
    notes: tuple[str, ...]


def align(timeline: Timeline, log: PowerLog, powers: Array, client: str) -> Aligned:
    """Return a log by the clock of the recording.

    The recorded activity predicts the power by the constants of the scenario, and the offset is
    sought where the two correlate most. Close to it, the one with the least squared errors is
    taken, with the states' powers fitted: presets may be wrong by their level.

    Args:
        timeline: the states of the client.
        log: the log by its own clock.
        powers: the power, or the energy per bit, of each state, shape (states,).
        client: the name of the client, for errors and notes.

    Raises:
        DataError: the log does not follow the activity at any offset.
    """
    span = timeline.last - timeline.first
    step = max(float(np.median(log.end - log.begin)), _longest(timeline, log) / _FINEST)
    near = _peaks(timeline, log, powers, step)
    found = sorted(_refined(timeline, log, offset, step) for offset in near)
    if not found or found[0][0] > 1.0 - _FOLLOWS:
        text = f"the power log of {client} does not follow what the recording says it did"
        wanted = "expected the meter of this client, while it was recorded"
        raise DataError("power", f"{text}, at any offset of their clocks; {wanted}")
    (error, offset), *others = found
    begin, end = log.begin + offset, log.end + offset
    kept = PowerLog(begin, end, log.joules).between(timeline.first, timeline.last)
    notes = [f"the clock of {client}'s meter is {_apart(-offset)}"]
    apart = [abs(each - offset) for value, each in others if value <= _ALIKE * error]
    if also := [each for each in apart if each > 4 * step]:
        shown = format_number(also[0], ".3g")
        text = f"an offset of {client}'s clock that differs by {shown} s fits as well"
        notes.append(f"{text}; a recording with a longer pause would tell")
    covered = float((kept.end - kept.begin).sum()) / span
    if covered < 1.0 - _COVERED:
        percent = format_number(100 * covered, ".2g")
        notes.append(f"the power log of {client} covers {percent} % of the recorded time")
    return Aligned(kept, tuple(notes))


def _apart(offset: float) -> str:
    if abs(offset) < _NOTHING:
        return "that of the recording"
    way = "ahead of" if offset >= 0 else "behind"
    return f"{format_number(abs(offset), '.4g')} s {way} that of the recording"


def _longest(timeline: Timeline, log: PowerLog) -> float:
    return float(max(timeline.last - timeline.first, log.end[-1] - log.begin[0]))


def _peaks(timeline: Timeline, log: PowerLog, powers: Array, step: float) -> list[float]:
    """Return the offsets at which predicted and measured power correlate most, s."""
    measured = _even(log.begin, log.end, log.joules, step)
    edges = np.arange(timeline.first, timeline.last + step, step)
    predicted = timeline.amounts(edges[:-1], edges[1:]) @ powers
    predicted, measured = predicted - predicted.mean(), measured - measured.mean()
    product = correlate(predicted, measured, method="fft")
    lags = correlation_lags(len(predicted), len(measured))
    overlap = np.minimum(len(predicted), lags + len(measured)) - np.maximum(0, lags)
    enough = overlap >= _COVERED * min(len(predicted), len(measured))
    score = np.where(enough, product, -np.inf)
    places, _ = find_peaks(np.concatenate([[-np.inf], score, [-np.inf]]))
    best = places[np.argsort(-score[places - 1])][:_PEAKS] - 1
    return [float(timeline.first - log.begin[0] + lags[place] * step) for place in best]


def _even(begin: Array, end: Array, joules: Array, step: float) -> Array:
    """Return energies as those of intervals of one length."""
    # What the meter has left out takes the mean power.
    totals = np.concatenate([[0.0], np.cumsum(joules)])
    edges = np.arange(begin[0], end[-1] + step, step)
    energies: Array = np.diff(np.interp(edges, np.append(begin, end[-1]), totals))
    return energies


def _refined(timeline: Timeline, log: PowerLog, near: float, step: float) -> tuple[float, float]:
    """Return the share of unexplained variance, and the offset near another with the least."""

    def unexplained(offset: float) -> float:
        """Return the share of the variance of power that the states leave at an offset."""
        kept = PowerLog(log.begin + offset, log.end + offset, log.joules)
        kept = kept.between(timeline.first, timeline.last)
        if len(kept.joules) < 2:
            return 1.0
        amounts = timeline.amounts(kept.begin, kept.end)
        amounts = amounts[:, amounts.any(axis=0)]
        sizes = np.sqrt((amounts * amounts).sum(axis=0))
        fitted = np.linalg.lstsq(amounts / sizes, kept.joules, rcond=None)[0]
        errors = kept.joules - (amounts / sizes) @ fitted
        level = kept.joules.sum() / (kept.end - kept.begin).sum() * (kept.end - kept.begin)
        return float(errors @ errors / max((kept.joules - level) @ (kept.joules - level), 1e-300))

    tried = np.linspace(near - 2 * step, near + 2 * step, 9)
    best = min(tried, key=unexplained)
    found = minimize_scalar(
        unexplained, bounds=(best - step / 2, best + step / 2), method="bounded"
    )
    return min((float(found.fun), float(found.x)), (unexplained(best), float(best)))
