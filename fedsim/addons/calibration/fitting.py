"""Constants of radios and of a server's link, fitted to recorded messages."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import log
from pathlib import Path
from typing import NoReturn

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import least_squares, nnls

from fedsim.addons.calibration.constants import (
    LATENCY,
    LINK,
    ONE_SIZE,
    RADIO,
    SAME,
    WAYS,
    CannotTell,
    ClientGroups,
    FittedConstant,
    UnknownConstant,
)
from fedsim.addons.calibration.doubts import Residuals, doubts
from fedsim.addons.calibration.likelihood import Maximum, maximise
from fedsim.addons.calibration.prediction import Messages, Prediction, Radios
from fedsim.addons.calibration.recording import CAPACITIES, MESSAGES, RATES
from fedsim.core.blocks.wording import join_names
from fedsim.core.ports import Array
from fedsim.physics.network_models import TcpFlows
from fedsim.physics.networks import StarNetwork
from fedsim.sim.network.routing import LATENCY_FACTOR

_STEPS = {"fluid": 1e-6, "lv08": 1e-6, "tcp": 2e-2}
"""Step of numeric derivatives, by network model: under TCP windows and segments are discrete."""

_TOLERANCES = {"fluid": 1e-10, "lv08": 1e-10, "tcp": 1e-4}
"""Tolerance of the search: under TCP a finer one only resolves the discrete steps."""

_FURTHEST = 100.0
"""Rates are searched within this factor of those of plain radios. At absurd rates, simulated TCP
timers take hours."""

_WIDEST = 10.0
"""An interval of a rate that is wider than this factor, in either direction, is useless."""

_SHARES = {"fluid": 1.0, "lv08": 1 / LATENCY_FACTOR, "tcp": 1.0}
"""Initial latency as a share of that of plain radios."""

PACKET = 1500.0
"""Bytes of a packet if a radio states none."""

_LOOKS = 500
"""Number of messages at which the total rate of simultaneous messages is evaluated."""

_LOOKS_BEYOND = 20
"""Most evaluations when the other parameters are fitted again with a much higher rate."""

_SHARE = 0.05
"""Share of an observed time below which the logarithm of a prediction is continued linearly."""

_NEAR = 0.25
"""Least time of a ping with an upper bound, as a share of that bound, if other pings were timed."""

_INSTANT = 1e-9
"""The shortest time, s."""

_FREE = 0.5
"""With fewer degrees of freedom the noise is not known, and no interval is given."""

_CHI_SQUARE = 6.63
"""99 % quantile with one degree of freedom."""


class NetworkFit:
    """Fits the radios of a fleet, and the server's link if required.

    Args:
        fleet: the groups of clients.
        prediction: predicts the recorded messages.
        recording: all observations.
        clients: the client of each observation, -1 for all.
        unknowns: the constants to fit, at least one.
    """

    def __init__(
        self,
        fleet: ClientGroups,
        prediction: Prediction,
        recording: pd.DataFrame,
        clients: NDArray[np.intp],
        unknowns: Sequence[UnknownConstant],
    ) -> None:
        self._fleet = fleet
        self._prediction = prediction
        self._unknowns = unknowns
        self._fixed = fleet.radios()
        kinds = recording["kind"].to_numpy(str)
        seconds = (recording["end"] - recording["start"]).to_numpy(float)
        sent, shown = np.isin(kinds, MESSAGES), shown_messages(recording)
        # Kept only to name them as the reason, if nothing else determines a constant.
        self._hidden = kinds[~shown], clients[~shown]
        # Messages first: `_predict` relies on this order.
        whole = [
            *(np.flatnonzero(sent & shown)),
            *(np.flatnonzero(kinds == "ping")),
            *(np.flatnonzero(np.isin(kinds, RATES + CAPACITIES))),
        ]
        self._kind, self._client = kinds[whole], clients[whole]
        self._bits = 8.0 * recording["bytes"].to_numpy(float)[whole]
        for number in np.flatnonzero(np.isin(self._kind, RATES)):
            # iperf3 reports payload: headers are added, so that its rates compare with messages.
            client, bits = int(self._client[number]), float(self._bits[number])
            self._bits[number] += prediction.headers(client, bits)
        self._seconds = seconds[whole]
        self._place = recording["start"].to_numpy(float)[whole]
        self._names = dict(zip(clients.tolist(), recording["client"].astype(str), strict=True))
        # The time of a handshake within a message is known, and has none of the noise.
        self._known = recording["handshake"].fillna(0.0).to_numpy(float)[whole]
        self._least = recording["least"].to_numpy(float)[whole]
        self._sent = int((sent & shown).sum())
        self.names, self._kinds = np.unique(self._kind, return_inverse=True)

    def check(self) -> None:
        """Check, before a fit, that the recording has observations for every constant.

        Raises:
            CannotTell: it lacks some, or only determines the sum of a rate and a latency.
        """
        # All reasons are collected before one error is raised: a user who mends one recording at a
        # time would meet them one after the other.
        reasons = dict(reason for unknown in self._unknowns if (reason := self._lacking(unknown)))
        reasons |= dict(self._not_separable(reasons))
        if reasons:
            raise CannotTell(reasons)

    def _of(self, unknown: UnknownConstant, *kinds: str) -> NDArray[np.bool_]:
        """Return which observations of some kinds concern the clients of a constant."""
        return np.isin(self._kind, kinds) & np.isin(self._client, [*unknown.clients, -1])

    def _lacking(self, unknown: UnknownConstant) -> tuple[str, str] | None:
        kinds = _kinds_of(unknown)
        if self._of(unknown, *kinds).any():
            return None
        # Observations without a time: named in the reason.
        hidden, clients = self._hidden
        if (np.isin(hidden, kinds) & np.isin(clients, [*unknown.clients, -1])).any():
            text = f"each {kinds[0]} of these clients is one segment, and a capture shows when a"
            return unknown.key, f"{text} segment has passed, not how long that took"
        return unknown.key, f"it has no {join_names(kinds[:2], 'or')} of these clients"

    def _not_separable(self, lacking: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """Yield rates and latencies if the recording only determines their sum."""
        for unknown in self._unknowns:
            if (
                unknown.field != LATENCY
                or unknown.key in lacking
                or self._of(unknown, "ping").any()
            ):
                continue
            rates = [
                rate
                for rate in self._unknowns
                if rate.field in WAYS and set(rate.clients) == set(unknown.clients)
            ]
            fitted = {rate.field for rate in rates}
            known = [
                way for way in WAYS if way not in fitted and self._of(unknown, WAYS[way]).any()
            ]
            by_rate = [rate for rate in rates if self._of(rate, *_kinds_of(rate)[1:]).any()]
            # With one size of messages, rate and latency only occur as a sum.
            if rates and not (known or by_rate or any(map(self._has_sizes, rates))):
                shown = join_names(
                    [self._sizes(rate) for rate in rates if self._sizes(rate)], "and"
                )
                for constant in (*rates, unknown):
                    yield constant.key, f"{ONE_SIZE}, {shown}"

    def _has_sizes(self, rate: UnknownConstant) -> bool:
        sizes = self._bits[self._of(rate, WAYS[rate.field])]
        return len(sizes) > 0 and bool(sizes.max() > (1 + SAME) * sizes.min())

    def _sizes(self, rate: UnknownConstant) -> str:
        sizes = self._bits[self._of(rate, WAYS[rate.field])]
        return f"{sizes[0] / 8:,.0f} bytes {rate.field}" if len(sizes) else ""

    def fit(self) -> tuple[list[FittedConstant], dict[str, float], list[str]]:
        """Return the constants, the noise by kind of observation, and notes on the recording.

        Raises:
            CannotTell: the observations do not determine a constant.
        """
        bounded, longest = np.isfinite(self._least), self._seconds.copy()
        shortest = self._shortest(bounded)
        # Observations with an upper bound only are fitted at mid-range, and again at both ends: the
        # interval then covers all times that the recording allows.
        self._seconds = (shortest + longest) / 2.0
        maximum = self._maximum()
        constants = list(self._constants(maximum))
        reasons = dict(self._not_identifiable(maximum, constants))
        if reasons:
            raise CannotTell(reasons)
        # Before the loop below, which replaces the observed times.
        notes = list(doubts(self._fleet, self._left(maximum)))
        # Each pass of this loop sets the attribute that `_maximum` and `_constants` read.
        for self._seconds in (shortest, longest) if bounded.any() else ():
            others = self._constants(self._maximum())
            constants = [
                replace(one, low=min(one.low, other.low), high=max(one.high, other.high))
                for one, other in zip(constants, others, strict=True)
            ]
        noise = {str(name): float(s) for name, s in zip(self.names, maximum.sigmas, strict=True)}
        return constants, noise, notes

    def _left(self, maximum: Maximum) -> Residuals:
        """Return the residuals of a fit."""
        sigmas = maximum.sigmas[self._kinds]
        # In units of sigma, as `doubts` tests standardised residuals.
        logs, slopes = (
            self._residuals(maximum.x) / sigmas,
            self._jacobian(maximum.x) / sigmas[:, None],
        )
        seconds, who = self._seconds - self._known, (self._kind, self._client, self._names)
        return Residuals(*who, self._place, seconds, logs, sigmas, slopes)

    def _shortest(self, bounded: NDArray[np.bool_]) -> Array:
        """Return the shortest time that the recording allows for each observation, s.

        If some pings were timed and others only have an upper bound, the latter are assumed to be
        near it.
        """
        pings = self._kind == "ping"
        route = self._prediction.least_route_latency(self._client)
        share = _NEAR if (pings & ~bounded).any() else 0.0
        least = np.maximum(np.nan_to_num(self._least), share * self._seconds)
        # Not below the known latency of the route, and not above the observed time.
        least = np.clip(np.maximum(least, 2.0 * route), _INSTANT, self._seconds)
        return np.where(bounded, least, self._seconds)

    def _maximum(self) -> Maximum:
        starts = self._starts()
        law = self._residuals, self._jacobian
        tolerance = _TOLERANCES.get(self._prediction.network.model.kind, _TOLERANCES["tcp"])
        return maximise(*law, starts, self._bounds(starts), self._kinds, tolerance)

    def _bounds(self, starts: Sequence[Array]) -> tuple[Array, Array]:
        """Return the smallest and the largest parameters of the search."""
        # Rates are searched as logarithms, latencies as they are.
        least = np.where(self._rates, np.min(starts, axis=0) - log(_FURTHEST), 0.0)
        start = np.max(starts, axis=0)
        # No one-way latency is longer than the longest observation.
        longest = np.maximum(start, float(self._seconds.max()))
        return least, np.where(self._rates, start + log(_FURTHEST), longest)

    def _constants(self, maximum: Maximum) -> Iterator[FittedConstant]:
        halves = maximum.quantiles * maximum.errors
        for unknown, x, half in zip(self._unknowns, maximum.x, halves, strict=True):
            count = int(self._of(unknown, *_kinds_of(unknown)).sum())
            # Rates are fitted as logarithms, so that their intervals are ratios.
            # Clipped, since float64 overflows at exp(709.8).
            if unknown.rate:
                low, value, high = np.exp(np.clip([x - half, x, x + half], -600, 600)).tolist()
            else:
                low, value, high = max(float(x) - half, 0.0), float(x), float(x) + half
            yield FittedConstant(unknown.key, value, low, high, count)

    def _not_identifiable(
        self, maximum: Maximum, constants: Sequence[FittedConstant]
    ) -> Iterator[tuple[str, str]]:
        typical, shared = float(np.median(self._seconds)), bool(self._prediction.topology.links)
        for number, (unknown, fitted) in enumerate(zip(self._unknowns, constants, strict=True)):
            # The first test that applies names the cause: the later ones also hold for constants
            # that an earlier one describes better.
            if unknown.rate and shared and self._unbounded(maximum, number):
                part = "link" if unknown.key in LINK else "radio"
                text = f"a faster {part} explains the recording equally well"
                yield unknown.key, f"{text}, so that its rate is not identifiable"
            elif number in maximum.unknown:
                yield unknown.key, "its effect cannot be separated from that of other constants"
            elif maximum.free[number] < _FREE:
                yield unknown.key, "too few observations show the noise"
            elif fitted.high > (_WIDEST * fitted.value if unknown.rate else fitted.value + typical):
                yield unknown.key, "its effect is lost in the noise"

    def _unbounded(self, maximum: Maximum, number: int) -> bool:
        """Return whether a rate has no upper limit: the data fit as well at any higher one.

        If flows share a link, the slower of radio and link decides. The likelihood then has a kink
        where both are equal, and is level beyond it. Standard errors do not show that.
        """
        others = np.arange(len(maximum.x)) != number
        # Test a rate that is a hundred times higher, with all other parameters fitted again. If the
        # likelihood ratio does not reject it, the rate has no upper limit. `x` holds the logarithm
        # of the rate; the closures below overwrite its other entries.
        # `~others` is true only for the rate, so only its logarithm grows.
        x = maximum.x + ~others * log(_FURTHEST)
        weights = 1.0 / maximum.sigmas[self._kinds]
        least, most = self._bounds([maximum.x])

        def misfits(values: Array) -> Array:
            x[others] = values
            return weights * self._residuals(x)

        def slopes(values: Array) -> Array:
            x[others] = values
            return (weights[:, None] * self._jacobian(x))[:, others]

        # The other parameters are fitted again, from the optimum.
        if others.any():
            limits = least[others], most[others]
            search = partial(least_squares, bounds=limits, x_scale="jac", max_nfev=_LOOKS_BEYOND)
            x[others] = search(misfits, maximum.x[others], jac=slopes).x
        best = float(((weights * self._residuals(maximum.x)) ** 2).sum())
        return float((misfits(x[others]) ** 2).sum()) < best + _CHI_SQUARE

    # The model: durations by parameters, and derivatives.

    def _values(self, x: Array) -> tuple[Radios, dict[str, float]]:
        """Return the radios, and the fields of the server's link, for some parameters."""
        radios = {name: getattr(self._fixed, name).copy() for name in RADIO}
        link = dict[str, float]()
        for unknown, value in zip(self._unknowns, x, strict=True):
            # Clipped, as trial steps of the search may overflow.
            number = float(np.exp(np.clip(value, -50, 50))) if unknown.rate else float(value)
            if unknown.field in RADIO:
                radios[unknown.field][unknown.clients] = number
            else:
                link[unknown.field] = number
        return Radios(**radios), link

    def _predict(self, x: Array) -> Array:
        radios, link = self._values(x)
        prediction = self._prediction if not link else self._with_link(link)
        durations = np.empty(len(self._kind))
        durations[: self._sent] = prediction.durations(radios)  # messages come first
        # Pings and rates are closed forms; with several clients (-1), each is a mean over them.
        for number in range(self._sent, len(self._kind)):
            client, kind = int(self._client[number]), self._kind[number]
            which = slice(None) if client < 0 else client
            if kind == "ping":
                trips = 2.0 * (radios.latency + prediction.route_latency)[which]
                durations[number] = float(np.mean(trips))
            else:
                rates = (radios.up if kind.startswith("upload") else radios.down)[which]
                durations[number] = self._bits[number] / float(np.mean(rates))
        return np.maximum(durations, 1e-12)  # above 0, for logarithms

    def _with_link(self, link: Mapping[str, float]) -> Prediction:
        network = self._fleet.scenario.network
        assert isinstance(network, StarNetwork)  # noqa: S101 - as the caller has checked
        # The capacities of the link are a part of the topology.
        changed = network.model_copy(update={"server": network.server.model_copy(update=link)})
        topology = changed.links(self._fleet.count, _no_file)
        return replace(self._prediction, network=changed, topology=topology)

    def _residuals(self, x: Array) -> Array:
        # The handshake is known and has no noise: subtracted on both sides.
        seconds: Array = self._seconds - self._known
        # A trial step may predict less than the handshake: the logarithm is continued below.
        return np.log(seconds) - _log_above(self._predict(x) - self._known, _SHARE * seconds)

    def _jacobian(self, x: Array) -> Array:
        """Return derivatives by central differences; those of separate clients all at once."""
        step = _STEPS.get(self._prediction.network.model.kind, _STEPS["tcp"])
        derivatives = np.zeros((len(self._kind), len(x)))
        for together in self._independent():
            # Parameters of one group affect different observations, so that one evaluation of the
            # model serves all of them.
            change = np.zeros(len(x))
            for number in together:
                unknown = self._unknowns[number]
                # A step relative to the latency, except near 0, where it would vanish.
                change[number] = step if unknown.rate else step * max(x[number], self._instant)
            # A latency cannot be negative: at 0 the difference is one-sided.
            lower = np.where((x - change < 0) & ~self._rates, x, x - change)
            slope = self._residuals(x + change) - self._residuals(lower)
            for number in together:
                width = x[number] + change[number] - lower[number]
                # Of several parameters varied at once, each affects the rows of its clients only.
                rows = self._of(self._unknowns[number], *self.names) if len(together) > 1 else ...
                derivatives[rows, number] = slope[rows] / width
        return derivatives

    @property
    def _instant(self) -> float:
        """Return the smallest scale of a latency for numeric derivatives, s."""
        return float(np.median(self._seconds)) * 1e-2

    @property
    def _rates(self) -> NDArray[np.bool_]:
        return np.array([unknown.rate for unknown in self._unknowns])

    def _independent(self) -> list[list[int]]:
        """Return groups of parameters that share no observation."""
        # Flows on a shared link, and observations of all clients, depend on several constants.
        shared = self._prediction.topology.links or (self._client < 0).any()
        if shared:
            return [[number] for number in range(len(self._unknowns))]
        # Without shared links, the same field of different clients can be varied at once.
        fields = dict.fromkeys(unknown.field for unknown in self._unknowns)
        return [[n for n, u in enumerate(self._unknowns) if u.field == field] for field in fields]

    def _starts(self) -> list[Array]:
        """Return initial parameters: those of plain radios, or close to them.

        Under TCP a message waits for the latency several times, once per window of its slow start.
        If a link is too slow in the initial point, radios have no effect, and if it is too fast,
        the link has none. Plain radios are as slow as their shares of the link were.
        """
        tcp = isinstance(self._prediction.network.model, TcpFlows)
        plain, rates = self._as_plain(self._legs() if tcp else 1.0), self._rates
        fields = [unknown.field for unknown in self._unknowns]
        links = np.array([field not in RADIO for field in fields])
        start = np.where(
            rates, plain, plain * _SHARES.get(self._prediction.network.model.kind, 1.0)
        )
        behind = {way for link, way in (("uplink", "up"), ("downlink", "down")) if link in fields}
        radios = np.array([field in behind for field in fields])
        if not links.any():
            return [start]
        # Several starts, as the likelihood has a kink where link and radio are equally fast.
        return [start, start + log(2.0) * links, start + log(2.0) * (1.0 * radios - links)]

    def _legs(self) -> Array:
        """Return the number of one-way latencies in a slow-start transfer, by observation."""
        # Slow start (RFC 5681) doubles the window every round trip. After n windows, initial_window
        # (2^n - 1) packets have been sent; solved for n.
        law, bits = self._prediction.network.connections, np.maximum(self._bits, 1.0)
        packet = 8.0 * min(framing.packet or PACKET for framing in self._prediction.framings)
        windows = np.ceil(np.log2(bits / packet / law.initial_window + 1.0))
        # One way for the last window, a round trip for each earlier one, and one more round trip
        # for the handshake of a new connection.
        legs = 2.0 * np.maximum(windows, 1.0) - 1.0 + 2.0 * (law.connections == "new")
        return np.where(np.isin(self._kind, [*WAYS.values()]), legs, 1.0)

    def _as_plain(self, legs: Array | float = 1.0) -> Array:
        """Return the parameters of plain radios, by relative least squares.

        Args:
            legs: the number of one-way latencies in each observation; pings have twice as many.
        """
        parameters = np.zeros(len(self._unknowns))
        for number, unknown in enumerate(self._unknowns):
            if unknown.field not in RADIO:
                parameters[number] = np.log(self._busiest(unknown.field))
                continue
            rates = self._plain(unknown.clients, legs)
            value = rates[RADIO.index(unknown.field)]
            # `_plain` returns seconds per bit, the inverse of a rate.
            parameters[number] = -np.log(value) if unknown.rate else value
        return parameters

    def _busiest(self, field: str) -> float:
        """Return the largest total rate of simultaneous messages in one direction, bit/s.

        At that rate, the capacity of a link has an effect. A sample of the messages is searched.
        """
        sent, selected = (
            self._prediction.messages,
            self._prediction.messages.up == (field == "uplink"),
        )
        # Observed durations, as nothing is fitted yet.
        durations = self._seconds[: self._sent][selected]
        begin, rates, run = (
            sent.start[selected],
            sent.bits[selected] / durations,
            sent.run[selected],
        )
        sample = range(0, len(durations), max(len(durations) // _LOOKS, 1))
        # Rates are summed at the middle of a message, when it surely flows.
        middles = [(begin[n] + durations[n] / 2, run[n]) for n in sample]
        flows = [(begin <= t) & (t < begin + durations) & (run == which) for t, which in middles]
        return max(float(rates[flow].sum()) for flow in flows)

    def _plain(self, clients: NDArray[np.intp], legs: Array | float) -> tuple[float, float, float]:
        """Return seconds per bit up and down, and the latency, of clients without shared links."""
        rows_of_clients = np.isin(self._client, [*clients, -1])
        route = float(self._prediction.route_latency[clients].mean())
        columns = [
            np.array([name.startswith(kind) for name in self._kind]) * self._bits
            for kind in WAYS.values()
        ]
        trips = np.where(self._kind == "ping", 2.0, np.isin(self._kind, [*WAYS.values()]) * legs)
        # The latency of the route is known. It is subtracted, but never the whole observed time.
        known = np.minimum(trips * route, 0.9 * self._seconds)
        rows = (
            np.column_stack([*columns, trips])[rows_of_clients]
            / (self._seconds - known)[rows_of_clients, None]
        )
        # Each row is divided by its time: relative errors. Columns are scaled to similar sizes.
        scale = np.maximum(rows.max(axis=0), 1e-300)
        # Non-negative: a plain least-squares fit of noisy times may give a negative latency, from
        # which no search can start.
        x, _ = nnls(rows / scale, np.ones(len(rows)))
        up, down, latency = (x / scale).tolist()
        # Without messages in one direction, or with negligible ones, the fit gives 0 seconds per
        # bit, which has no logarithm: bounded.
        quickest = [0.25 / max(float(size), 1e-300) for size in scale[:2]]
        return max(up, quickest[0]), max(down, quickest[1]), max(latency, 1e-6)


def _no_file(_: Path) -> NoReturn:
    raise AssertionError("a star has no file")


def _kinds_of(unknown: UnknownConstant) -> tuple[str, ...]:
    """Return the kinds of observations that determine a constant."""
    if unknown.field in WAYS:
        kind = WAYS[unknown.field]
        return kind, f"{kind}-rate", f"{kind}-capacity"
    if unknown.field == LATENCY:
        return "ping", *WAYS.values()
    return (WAYS["up" if unknown.field == "uplink" else "down"],)


def messages_of(recording: pd.DataFrame, clients: NDArray[np.intp]) -> Messages:
    """Return the messages of a recording that have a time, in order.

    Bits that passed outside the captured time are left out.
    """
    sent = recording["kind"].isin(MESSAGES).to_numpy() & shown_messages(recording)
    rows = recording[sent]
    return Messages(
        rows["run"].to_numpy(np.intp),
        clients[sent],
        (rows["kind"] == "upload").to_numpy(),
        rows["start"].to_numpy(float),
        8.0 * (rows["bytes"] - rows["unseen"].fillna(0.0)).to_numpy(float),
    )


def shown_messages(recording: pd.DataFrame) -> NDArray[np.bool_]:
    """Return which observations have a time: not messages of a single captured segment."""
    shown: NDArray[np.bool_] = ~(recording["unseen"] >= recording["bytes"]).to_numpy(bool)
    return shown


def _log_above(value: Array, least: Array) -> Array:
    """Return the logarithm, continued as a straight line below some values."""
    # Below `least` the line has the value and the slope of the logarithm there, so that the search
    # sees a smooth function.
    above = np.maximum(value, least)
    return np.log(above) + (value - above) / least
