"""Notes on a recording that the fitted model does not explain.

The model assumes equal clients, one clock and plain noise. Each doubt is tested as an additional
parameter: how far the residuals follow its effect beyond what the fitted constants can explain, in
standard errors. A note states the estimate.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedsim.addons.calibration.constants import (
    LATENCY,
    LINK,
    SAME,
    WAYS,
    ClientGroups,
    UnknownConstant,
)
from fedsim.addons.calibration.recording import MESSAGES, RATES
from fedsim.core.ports import Array
from fedsim.physics.radios.channel import Framing

CERTAIN = 4.0
"""Number of standard errors from which on a doubt is stated; by chance, one recording in thousands
reaches it."""

PLAIN = 0.05
"""Relative effects below this are not worth a note."""

_FAR = 8.0
"""An observation is an outlier beyond this many median deviations from the median."""

_FEW = 10
"""Fewest observations of a kind among which outliers are named."""

_NEARLY = 1.5
"""Ratio of message sizes below which rate and latency are hardly separable."""


@dataclass(frozen=True)
class Residuals:
    """Residuals of a fit; arrays of shape (observations,).

    Attributes:
        kind, client: kind and client of each observation, -1 for all clients.
        names: the names of clients in the recording, by number.
        place: the time of each observation in the recording, s.
        seconds: the observed seconds.
        logs: the logarithm of observed over predicted seconds, in units of `sigmas`.
        sigmas: the sigmas of the noise.
        slopes: derivatives of `logs` by the fitted parameters, shape (observations, p).
    """

    kind: NDArray[np.str_]
    client: NDArray[np.intp]
    names: Mapping[int, str]
    place: Array
    seconds: Array
    logs: Array
    sigmas: Array
    slopes: Array

    @property
    def predicted(self) -> Array:
        """The predicted seconds."""
        return self.seconds * np.exp(-self.logs * self.sigmas)


class _Effect(NamedTuple):
    """The estimate of an additional parameter, and its ratio to its standard error."""

    value: float
    certainty: float


def doubts(fleet: ClientGroups, left: Residuals) -> Iterator[str]:
    """Yield notes on clocks, on clients that differ from their group, and on outliers."""
    basis, values, _ = np.linalg.svd(left.slopes, full_matrices=False)
    # Directions with negligible singular values change no residual: the fit has not used them.
    basis = basis[:, values > 1e-9 * max(values.max(initial=0.0), 1e-300)]

    def effect(slope: Array) -> _Effect:
        """Return the effect of a parameter whose derivatives are those of the logarithms."""
        column = slope / left.sigmas  # in units of the noise, like `left.logs`
        # Residual direction: the part of the effect that the fitted parameters cannot explain.
        free = column - basis @ (basis.T @ column)
        size = float(free @ free)
        # An effect that the parameters explain almost completely is not testable.
        if size < 1e-6 * float(column @ column) or not size:
            return _Effect(0.0, 0.0)
        return _Effect(float(free @ left.logs) / size, float(free @ left.logs) / size**0.5)

    plain = np.ones(len(left.kind), bool)  # what no other note explains
    # A wrong clock lengthens one direction and shortens the other.
    signs = np.select([left.kind == way for way in MESSAGES], [1.0, -1.0], 0.0)
    for number, group in enumerate(fleet.groups):
        members = fleet.clients(number)
        in_group = np.isin(left.client, members)
        several = (
            [int(client) for client in np.unique(left.client[in_group])] if group.count > 1 else []
        )
        # A clock shifts all times of a client by one offset: a relative effect of 1 / time.
        clocks = {f"fleet.{number}": effect(signs * in_group / left.predicted)}
        rows_of = {left.names[n]: left.client == n for n in several}
        clocks |= {name: effect(signs * rows / left.predicted) for name, rows in rows_of.items()}
        speeds = {name: effect(1.0 * rows) for name, rows in rows_of.items()}
        # The client, or the whole group, with the most certain effect of each kind.
        clock, speed = (
            max(tests.items(), key=lambda one: abs(one[1].certainty), default=("", _Effect(0, 0)))
            for tests in (clocks, speeds)
        )
        # The most certain effect only: one cause shows in several of these tests.
        note, name = "", ""
        if abs(clock[1].certainty) > max(CERTAIN, abs(speed[1].certainty)):
            note, name = _clock(*clock, left, in_group), clock[0]
        elif abs(speed[1].certainty) > CERTAIN and abs(speed[1].value) > PLAIN:
            name, (value, _) = speed
            note = unlike(number, name, value, "messages")
        if note:
            yield note
            # Explained by this note, so they are no outliers.
            plain &= ~rows_of.get(name, in_group)
    yield from _outliers(left, plain)


def _clock(name: str, effect: _Effect, left: Residuals, in_group: NDArray[np.bool_]) -> str:
    """Return the note on a clock; empty if its offset is a negligible part of the times."""
    sent = in_group & np.isin(left.kind, MESSAGES)
    # Too small to matter for any of the times.
    if abs(effect.value) < PLAIN * float(left.seconds[sent].min()):
        return ""
    longer, shorter = ("uploads", "downloads") if effect.value > 0 else ("downloads", "uploads")
    off = f"{abs(effect.value) * 1e3:.3g} ms"
    return (
        f"{name}: {longer} take {off} longer, and {shorter} {off} less, than sizes and one latency"
        f" explain, as if the clocks of client and server differed by {off}: record both ends by"
        " one clock, or correct one of them"
    )


def unlike(number: int, name: str, logarithm: float, what: str) -> str:
    """Return the note on a client whose times differ from those of its group."""
    percent = abs(np.expm1(logarithm))  # the residual is a logarithm of a ratio of times
    more = "longer" if logarithm > 0 else "less"
    return (
        f"fleet.{number}: the {what} of {name} take {percent:.0%} {more} than those of its group:"
        " give it a group, or fit each client (--each)"
    )


def _outliers(left: Residuals, plain: NDArray[np.bool_]) -> Iterator[str]:
    for kind in np.unique(left.kind):
        rows = np.flatnonzero((left.kind == kind) & plain)
        far = rows[outliers((left.logs * left.sigmas)[rows])]
        if len(far):
            first = far[0]
            client = left.names[int(left.client[first])]
            times = f"{left.seconds[first]:.3g} s, but {left.predicted[first]:.3g} s by the fit"
            where = f"the first of {client} at {left.place[first]:.6g} s: {times}"
            yield outlier_note(len(far), len(rows), f"{kind} observations", where)


def outlier_note(count: int, total: int, what: str, where: str) -> str:
    """Return the note on observations far from all others."""
    return (
        f"{count} of {total} {what} are far from the others, {where}. They widen the intervals and"
        " move the constants: leave them out if they are faults of the recording"
    )


def outliers(logs: Array) -> NDArray[np.bool_]:
    """Return which logarithms are far from their median, in median deviations."""
    if len(logs) < _FEW:
        return np.zeros(len(logs), bool)
    away = np.abs(logs - np.median(logs))
    # The median deviation times 1.4826 estimates the standard deviation of normal noise.
    scale = 1.4826 * float(np.median(away))
    # The second bound: with very little noise, differences that matter to nobody would be far.
    far: NDArray[np.bool_] = away > max(_FAR * scale, PLAIN)
    return far


def before_fit(
    fleet: ClientGroups,
    unknowns: Sequence[UnknownConstant],
    recording: pd.DataFrame,
    clients: NDArray[np.intp],
    packets: Sequence[Framing],
) -> Iterator[str]:
    """Yield notes that need no fit: on sizes, headers, bounds and single segments."""
    kinds = recording["kind"].to_numpy(str)
    sent = np.isin(kinds, MESSAGES)
    hidden = recording["unseen"].to_numpy(float) >= recording["bytes"].to_numpy(float)
    if count := int((hidden & sent).sum()):
        yield (
            f"{count} of {int(sent.sum())} messages of a capture have one segment, whose duration"
            " it does not show: they are left out"
        )
    bounded = np.isfinite(recording["least"].to_numpy(float))
    if count := int(bounded.sum()):
        text = f"{count} of {int((kinds == 'ping').sum())} pings only have an upper bound, such as"
        yield f"{text} <1ms: intervals contain the constants of all times down to 0"
    if np.isin(kinds, RATES).any():
        yield _headers(fleet, packets)
    fitted = {(unknown.field, *unknown.clients) for unknown in unknowns}
    for unknown in unknowns:
        concerned = np.isin(clients, [*unknown.clients, -1]) & ~hidden
        if (
            unknown.key in LINK
            or unknown.field != LATENCY
            or (concerned & ~sent & (kinds != "compute")).any()
        ):
            continue
        ways = [kinds == kind for way, kind in WAYS.items() if (way, *unknown.clients) in fitted]
        sizes = [recording["bytes"].to_numpy(float)[concerned & way] for way in ways]
        ratio = max((float(s.max() / s.min()) for s in sizes if len(s)), default=_NEARLY)
        # Sizes differ, but too little to separate rate and latency.
        if 1.0 + SAME < ratio < _NEARLY:
            low, high = min(s.min() for s in sizes if len(s)), max(s.max() for s in sizes if len(s))
            yield (
                f"{unknown.key}: messages have {low:,.0f} to {high:,.0f} bytes, so nearly one size:"
                " rate and latency are hardly separable; add pings, or messages of other sizes"
            )


def _headers(fleet: ClientGroups, packets: Sequence[Framing]) -> str:
    framings = dict.fromkeys(packets[int(fleet.clients(n)[0])] for n in range(len(fleet.groups)))
    shown = ", ".join(f"{one.overhead} B of {one.packet} B" for one in framings)
    return (
        "iperf3 counts bytes of the application; the packet headers of radio and network model"
        f" were added ({shown} in each packet)"
    )
