"""What a client did over time, by a recording: how long it was in each state up to any time.

The states are those that draw power: work, a message in progress, bits on the air in each
direction, the tail and the promotion of its radio.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from fedsim.addons.calibration.recording import MESSAGES, WORK
from fedsim.core.ports import Array
from fedsim.physics.radios import Radio, powers_of

REST, WORKING, HELD, UP, DOWN, TAIL, PROMOTION = range(7)
"""The columns of `Timeline.amounts`: seconds, except for `UP` and `DOWN` of a radio with energies
per bit, which are bits."""

STATES = 7


class _Curve(NamedTuple):
    """A quantity that has accumulated up to each time, linear in between."""

    times: Array
    totals: Array

    def between(self, begin: Array, end: Array) -> Array:
        amounts: Array = np.interp(end, *self) - np.interp(begin, *self)
        return amounts


def _curve(begin: Array, end: Array, amounts: Array) -> _Curve:
    """Return the sum of amounts that accumulate evenly, each from its begin to its end."""
    long = end > begin
    begin, end, amounts = begin[long], end[long], amounts[long]
    rates = amounts / (end - begin)
    times = np.concatenate([begin, end])
    order = np.argsort(times, kind="stable")
    times = times[order]
    slopes = np.cumsum(np.concatenate([rates, -rates])[order])
    totals = np.concatenate([[0.0], np.cumsum(slopes[:-1] * np.diff(times))])
    return _Curve(times, totals) if len(times) else _Curve(np.zeros(1), np.zeros(1))


class Timeline(NamedTuple):
    """One client's states over the time of a recording.

    Attributes:
        first, last: the begin of its first activity and the end of its last one, s.
        curves: what has accumulated in each state, by its number.
    """

    first: float
    last: float
    curves: Mapping[int, _Curve]

    def amounts(self, begin: Array, end: Array) -> Array:
        """Return how much of each state lies in intervals, shape (intervals, states)."""
        columns = np.zeros((len(begin), STATES))
        columns[:, REST] = end - begin
        for state, curve in self.curves.items():
            columns[:, state] = curve.between(begin, end)
        return columns


def is_by_state(radio: Radio) -> bool:
    """Return whether bits on the air take power for their time, and not energy per bit."""
    return any(powers_of(radio).on_air)


def timeline(rows: pd.DataFrame, radio: Radio) -> Timeline:
    """Return the states of a client.

    Args:
        rows: the client's observations, at least one; see `fedsim.addons.calibration.recording`.
        radio: its radio, whose latency is no time on the air.
    """
    kind, starts = rows["kind"].to_numpy(str), rows["start"].to_numpy(float)
    ends, sizes = rows["end"].to_numpy(float), rows["bytes"].to_numpy(float)
    by_state = is_by_state(radio)
    rates = {DOWN: radio.down, UP: radio.up}
    curves, spans = dict[int, _Curve](), list[tuple[Array, Array]]()
    for state, name in ((DOWN, "download"), (UP, "upload")):
        of = kind == name
        # As in a simulated run, the latency passes first, then the bits.
        begin = np.minimum(starts[of] + radio.latency, ends[of])
        amounts = _bits(sizes[of], radio)
        if by_state:  # bits on the air take no more than the message
            amounts = np.minimum(amounts / rates[state], ends[of] - begin)
        curves[state] = _curve(begin, ends[of], amounts)
        spans.append((begin, ends[of]))
    work = np.isin(kind, WORK)
    curves[WORKING] = _curve(starts[work], ends[work], (ends - starts)[work])
    begin, end = _union(*map(np.concatenate, zip(*spans, strict=True)))
    curves[HELD] = _curve(begin, end, end - begin)
    # The radio is connected from the begin of a message, and for a tail after its end. While no
    # bits flow it draws the power of the tail. It is promoted before each connection.
    sent = np.isin(kind, MESSAGES)
    first, rest = radio.states.stages[0], radio.states.stages[-1]
    on, off = _union(starts[sent], ends[sent] + first.time)
    curves[TAIL] = _curve(
        np.concatenate([on, begin]),
        np.concatenate([off, end]),
        np.concatenate([off - on, begin - end]),
    )
    waking = on - rest.wake_time
    curves[PROMOTION] = _curve(waking, on, on - waking)
    return Timeline(float(starts.min()), float(ends.max()), curves)


def _bits(sizes: Array, radio: Radio) -> Array:
    """Return the bits of messages of some bytes, with the headers of their packets."""
    message = np.rint(8 * sizes).astype(int)
    packaging = radio.packaging
    return np.array([each + packaging.bits(each) for each in message.tolist()], float)


def _union(begin: Array, end: Array) -> tuple[Array, Array]:
    """Return the union of spans as disjoint spans in order."""
    order = np.argsort(begin, kind="stable")
    begin, end = begin[order], np.maximum.accumulate(end[order]) if len(end) else end
    new = np.append(True, begin[1:] > end[:-1])[: len(begin)]
    last = np.append(new[1:], True)[: len(begin)]
    return begin[new], end[last]


def scenario_powers(radio: Radio, rest: float, working: float) -> Array:
    """Return the power, or the energy per bit, of each state by the scenario, shape (states,).

    Args:
        radio: the radio.
        rest: the idle power of the client, its radio included, W.
        working: what work adds to it, W.
    """
    powers = powers_of(radio)
    stages: Sequence[float] = (radio.states.stages[0].power, radio.states.stages[-1].wake_power)
    down, up = powers.on_air if is_by_state(radio) else powers.per_bit
    return np.array([rest, working, powers.held, up, down, *stages])
