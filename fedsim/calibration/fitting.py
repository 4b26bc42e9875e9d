"""The constants of radios and of a server's link, fitted to recorded messages."""

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

from fedsim.blocks.wording import join_names
from fedsim.calibration.constants import (
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
from fedsim.calibration.doubts import Residuals, doubts
from fedsim.calibration.likelihood import Maximum, maximise
from fedsim.calibration.prediction import Messages, Prediction, Radios
from fedsim.calibration.recording import CAPACITIES, MESSAGES, RATES
from fedsim.physics.network_models import TcpFlows
from fedsim.physics.networks import StarNetwork
from fedsim.ports import Array
from fedsim.sim.network.routing import LATENCY_FACTOR

_STEPS = {"fluid": 1e-6, "lv08": 1e-6, "tcp": 2e-2}
"""The step of numeric derivatives by the model of flows: windows and segments are steps."""

_TOLERANCES = {"fluid": 1e-10, "lv08": 1e-10, "tcp": 1e-4}
"""Of the search: between steps a finer one finds nothing."""

_FURTHEST = 100.0
"""Rates are sought within this factor of those of plain radios.

At absurd ones the timers of TCP take hours.
"""

_WIDEST = 10.0
"""An interval of a rate that is wider than this factor either way says nothing."""

_SHARES = {"fluid": 1.0, "lv08": 1 / LATENCY_FACTOR, "tcp": 1.0}
"""Of the latency of plain radios, to start from."""

PACKET = 1500.0
"""The bytes of a packet, where a radio states none."""

_LOOKS = 500

_LOOKS_BEYOND = 20

_SHARE = 0.05
"""The part of an observed time below which a predicted one is continued as a straight line."""

_NEAR = 0.25
"""Of a bound, a time below it where other pings were timed, at least."""

_INSTANT = 1e-9
"""The shortest time, s."""

_FREE = 0.5
"""With fewer degrees of freedom the noise is not known, and no interval is given."""

_CHI_SQUARE = 6.63
"""Of one degree of freedom, exceeded with a probability of 1 %."""


class NetworkFit:
    """Fits the radios of a fleet, and the server's link if asked.

    Args:
        fleet: the groups.
        prediction: of the recorded messages.
        recording: all observations.
        clients: their clients, -1 for all.
        unknowns: what to fit, one or more.
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
        self._hidden = kinds[~shown], clients[~shown]
        whole = [
            *(np.flatnonzero(sent & shown)),
            *(np.flatnonzero(kinds == "ping")),
            *(np.flatnonzero(np.isin(kinds, RATES + CAPACITIES))),
        ]
        self._kind, self._client = kinds[whole], clients[whole]
        self._bits = 8.0 * recording["bytes"].to_numpy(float)[whole]
        for number in np.flatnonzero(np.isin(self._kind, RATES)):
            framing = prediction.packets[max(int(self._client[number]), 0)]
            self._bits[number] += framing.bits(round(self._bits[number]))
        self._seconds = seconds[whole]
        self._place = recording["start"].to_numpy(float)[whole]
        self._names = dict(zip(clients.tolist(), recording["client"].astype(str), strict=True))
        # The time of a handshake within a message's is known, and has none of its noise.
        self._known = recording["handshake"].fillna(0.0).to_numpy(float)[whole]
        self._least = recording["least"].to_numpy(float)[whole]
        self._sent = int((sent & shown).sum())
        self.names, self._kinds = np.unique(self._kind, return_inverse=True)

    def check(self) -> None:
        """Check what can be known before a fit.

        Raises:
            CannotTell: there is nothing to tell a constant by.
        """
        reasons = dict(reason for each in self._unknowns if (reason := self._lacking(each)))
        reasons |= dict(self._all_alike(reasons))
        if reasons:
            raise CannotTell(reasons)

    def _of(self, each: UnknownConstant, *kinds: str) -> NDArray[np.bool_]:
        """Return which observations of some kinds are about a constant's clients."""
        return np.isin(self._kind, kinds) & np.isin(self._client, [*each.clients, -1])

    def _lacking(self, each: UnknownConstant) -> tuple[str, str] | None:
        kinds = _kinds_of(each)
        if self._of(each, *kinds).any():
            return None
        hidden, clients = self._hidden
        if (np.isin(hidden, kinds) & np.isin(clients, [*each.clients, -1])).any():
            text = f"each {kinds[0]} of these clients is one segment, and a capture shows when a"
            return each.key, f"{text} segment has passed, not how long that took"
        return each.key, f"it has no {join_names(kinds[:2], 'or')} of these clients"

    def _all_alike(self, lacking: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """Yield the rates and latencies that only their sum is known of."""
        for each in self._unknowns:
            if each.field != LATENCY or each.key in lacking or self._of(each, "ping").any():
                continue
            own = [
                rate
                for rate in self._unknowns
                if rate.field in WAYS and set(rate.clients) == set(each.clients)
            ]
            fitted = {rate.field for rate in own}
            known = [way for way in WAYS if way not in fitted and self._of(each, WAYS[way]).any()]
            by_rate = [rate for rate in own if self._of(rate, *_kinds_of(rate)[1:]).any()]
            if own and not (known or by_rate or any(map(self._has_sizes, own))):
                shown = join_names([self._sizes(rate) for rate in own if self._sizes(rate)], "and")
                for one in (*own, each):
                    yield one.key, f"{ONE_SIZE}, {shown}"

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
        self._seconds = (shortest + longest) / 2.0
        found = self._maximum()
        constants = list(self._constants(found))
        reasons = dict(self._vague(found, constants))
        if reasons:
            raise CannotTell(reasons)
        notes = list(doubts(self._fleet, self._left(found)))
        for self._seconds in (shortest, longest) if bounded.any() else ():
            others = self._constants(self._maximum())
            constants = [
                replace(one, low=min(one.low, other.low), high=max(one.high, other.high))
                for one, other in zip(constants, others, strict=True)
            ]
        noise = {str(name): float(s) for name, s in zip(self.names, found.sigmas, strict=True)}
        return constants, noise, notes

    def _left(self, found: Maximum) -> Residuals:
        sigmas = found.sigmas[self._kinds]
        logs, slopes = self._residuals(found.x) / sigmas, self._jacobian(found.x) / sigmas[:, None]
        seconds, who = self._seconds - self._known, (self._kind, self._client, self._names)
        return Residuals(*who, self._place, seconds, logs, sigmas, slopes)

    def _shortest(self, bounded: NDArray[np.bool_]) -> Array:
        """Return the shortest time that the recording allows for each observation, s.

        Where some pings were timed and others have a bound only, these are taken as near to it.
        """
        pings = self._kind == "ping"
        route = np.where(self._client < 0, 0.0, self._prediction.route_latency[self._client])
        share = _NEAR if (pings & ~bounded).any() else 0.0
        least = np.maximum(np.nan_to_num(self._least), share * self._seconds)
        least = np.clip(np.maximum(least, 2.0 * route), _INSTANT, self._seconds)
        return np.where(bounded, least, self._seconds)

    def _maximum(self) -> Maximum:
        starts = self._starts()
        law = self._residuals, self._jacobian
        tolerance = _TOLERANCES.get(self._prediction.network.model.kind, _TOLERANCES["tcp"])
        return maximise(*law, starts, self._bounds(starts), self._kinds, tolerance)

    def _bounds(self, starts: Sequence[Array]) -> tuple[Array, Array]:
        """Return the smallest and the largest parameters that are searched."""
        least = np.where(self._rates, np.min(starts, axis=0) - log(_FURTHEST), 0.0)
        start = np.max(starts, axis=0)
        longest = np.maximum(start, float(self._seconds.max()))
        return least, np.where(self._rates, start + log(_FURTHEST), longest)

    def _constants(self, found: Maximum) -> Iterator[FittedConstant]:
        halves = found.quantiles * found.errors
        for each, x, half in zip(self._unknowns, found.x, halves, strict=True):
            count = int(self._of(each, *_kinds_of(each)).sum())
            if each.rate:
                low, value, high = np.exp(np.clip([x - half, x, x + half], -600, 600)).tolist()
            else:
                low, value, high = max(float(x) - half, 0.0), float(x), float(x) + half
            yield FittedConstant(each.key, value, low, high, count)

    def _vague(
        self, found: Maximum, constants: Sequence[FittedConstant]
    ) -> Iterator[tuple[str, str]]:
        typical, shared = float(np.median(self._seconds)), bool(self._prediction.topology.links)
        for number, (each, known) in enumerate(zip(self._unknowns, constants, strict=True)):
            if each.rate and shared and self._unbounded(found, number):
                what = "link" if each.key in LINK else "radio"
                text = f"a faster {what} explains what was recorded as well"
                yield each.key, f"{text}, so that its rate is not identifiable"
            elif number in found.unknown:
                yield each.key, "it has no effect of its own on what was recorded"
            elif found.free[number] < _FREE:
                yield each.key, "too few observations show the noise"
            elif known.high > (_WIDEST * known.value if each.rate else known.value + typical):
                yield each.key, "its effect is lost in the noise"

    def _unbounded(self, found: Maximum, number: int) -> bool:
        """Return whether a rate has no upper end: at any higher one the others fit as well.

        Where flows share a link, the slower of radio and link decides, so that the likelihood has
        a kink where both are equal, and is level beyond. Standard errors do not show that.
        """
        others = np.arange(len(found.x)) != number
        x = found.x + ~others * log(_FURTHEST)
        weights = 1.0 / found.sigmas[self._kinds]
        least, most = self._bounds([found.x])

        def misfits(some: Array) -> Array:
            x[others] = some
            return weights * self._residuals(x)

        def slopes(some: Array) -> Array:
            x[others] = some
            return (weights[:, None] * self._jacobian(x))[:, others]

        if others.any():
            limits = least[others], most[others]
            search = partial(least_squares, bounds=limits, x_scale="jac", max_nfev=_LOOKS_BEYOND)
            x[others] = search(misfits, found.x[others], jac=slopes).x
        best = float(((weights * self._residuals(found.x)) ** 2).sum())
        return float((misfits(x[others]) ** 2).sum()) < best + _CHI_SQUARE

    # The model: durations by parameters, and derivatives.

    def _values(self, x: Array) -> tuple[Radios, dict[str, float]]:
        """Return the radios, and the fields of the server's link, of some parameters."""
        own = {name: getattr(self._fixed, name).copy() for name in RADIO}
        link = dict[str, float]()
        for each, value in zip(self._unknowns, x, strict=True):
            number = float(np.exp(np.clip(value, -50, 50))) if each.rate else float(value)
            if each.field in RADIO:
                own[each.field][each.clients] = number
            else:
                link[each.field] = number
        return Radios(**own), link

    def _predict(self, x: Array) -> Array:
        radios, link = self._values(x)
        prediction = self._prediction if not link else self._with_link(link)
        found = np.empty(len(self._kind))
        found[: self._sent] = prediction.durations(radios)
        for number in range(self._sent, len(self._kind)):
            client, kind = int(self._client[number]), self._kind[number]
            which = slice(None) if client < 0 else client
            if kind == "ping":
                trips = 2.0 * (radios.latency + prediction.route_latency)[which]
                found[number] = float(np.mean(trips))
            else:
                rates = (radios.up if kind.startswith("upload") else radios.down)[which]
                found[number] = self._bits[number] / float(np.mean(rates))
        return np.maximum(found, 1e-12)

    def _with_link(self, link: Mapping[str, float]) -> Prediction:
        network = self._fleet.scenario.network
        assert isinstance(network, StarNetwork)  # noqa: S101 - as the caller has checked
        changed = network.model_copy(update={"server": network.server.model_copy(update=link)})
        topology = changed.links(self._fleet.count, _no_file)
        return replace(self._prediction, network=changed, topology=topology)

    def _residuals(self, x: Array) -> Array:
        seconds: Array = self._seconds - self._known
        return np.log(seconds) - _log_above(self._predict(x) - self._known, _SHARE * seconds)

    def _jacobian(self, x: Array) -> Array:
        """Return derivatives by central differences; those of separate clients all at once."""
        step = _STEPS.get(self._prediction.network.model.kind, _STEPS["tcp"])
        found = np.zeros((len(self._kind), len(x)))
        for together in self._independent():
            change = np.zeros(len(x))
            for number in together:
                each = self._unknowns[number]
                change[number] = step if each.rate else step * max(x[number], self._instant)
            lower = np.where((x - change < 0) & ~self._rates, x, x - change)
            slope = self._residuals(x + change) - self._residuals(lower)
            for number in together:
                width = x[number] + change[number] - lower[number]
                own = self._of(self._unknowns[number], *self.names) if len(together) > 1 else ...
                found[own, number] = slope[own] / width
        return found

    @property
    def _instant(self) -> float:
        return float(np.median(self._seconds)) * 1e-2

    @property
    def _rates(self) -> NDArray[np.bool_]:
        return np.array([each.rate for each in self._unknowns])

    def _independent(self) -> list[list[int]]:
        """Return groups of parameters that have no observation in common."""
        shared = self._prediction.topology.links or (self._client < 0).any()
        if shared:
            return [[number] for number in range(len(self._unknowns))]
        fields = dict.fromkeys(each.field for each in self._unknowns)
        return [[n for n, u in enumerate(self._unknowns) if u.field == field] for field in fields]

    def _starts(self) -> list[Array]:
        """Return parameters to start from: those of plain radios, or nearly so.

        TCP charges a latency several times for each message, by the windows of its slow start. At a
        link that is too slow no radio has an effect, and at one that is too fast it has none
        itself; plain radios are as slow as their shares of the link were.
        """
        tcp = isinstance(self._prediction.network.model, TcpFlows)
        plain, rates = self._as_plain(self._legs() if tcp else 1.0), self._rates
        fields = [each.field for each in self._unknowns]
        links = np.array([each not in RADIO for each in fields])
        start = np.where(
            rates, plain, plain * _SHARES.get(self._prediction.network.model.kind, 1.0)
        )
        behind = {way for each, way in (("uplink", "up"), ("downlink", "down")) if each in fields}
        radios = np.array([each in behind for each in fields])
        if not links.any():
            return [start]
        return [start, start + log(2.0) * links, start + log(2.0) * (1.0 * radios - links)]

    def _legs(self) -> Array:
        """Return how often a message under slow start waits for the latency, one way."""
        law, bits = self._prediction.network.connections, np.maximum(self._bits, 1.0)
        packet = 8.0 * min(each.packet or PACKET for each in self._prediction.framings)
        windows = np.ceil(np.log2(bits / packet / law.initial_window + 1.0))
        legs = 2.0 * np.maximum(windows, 1.0) - 1.0 + 2.0 * (law.connections == "new")
        return np.where(np.isin(self._kind, [*WAYS.values()]), legs, 1.0)

    def _as_plain(self, legs: Array | float = 1.0) -> Array:
        """Return the parameters of plain radios, by relative least squares.

        Args:
            legs: how many latencies each observation contains, one way; of pings twice as many.
        """
        found = np.zeros(len(self._unknowns))
        for number, each in enumerate(self._unknowns):
            if each.field not in RADIO:
                found[number] = np.log(self._busiest(each.field))
                continue
            rates = self._plain(each.clients, legs)
            value = rates[RADIO.index(each.field)]
            found[number] = -np.log(value) if each.rate else value
        return found

    def _busiest(self, field: str) -> float:
        """Return the most bits a second that messages of one direction had together.

        That is where a link's rate has an effect; looked for at some of the messages.
        """
        sent, own = self._prediction.messages, self._prediction.messages.up == (field == "uplink")
        took = self._seconds[: self._sent][own]
        begin, rates, run = sent.start[own], sent.bits[own] / took, sent.run[own]
        some = range(0, len(took), max(len(took) // _LOOKS, 1))
        middles = [(begin[n] + took[n] / 2, run[n]) for n in some]
        flows = [(begin <= t) & (t < begin + took) & (run == which) for t, which in middles]
        return max(float(rates[each].sum()) for each in flows)

    def _plain(self, clients: NDArray[np.intp], legs: Array | float) -> tuple[float, float, float]:
        """Return seconds per bit up and down, and the latency, of clients without shared links."""
        own = np.isin(self._client, [*clients, -1])
        route = float(self._prediction.route_latency[clients].mean())
        columns = [
            np.array([each.startswith(kind) for each in self._kind]) * self._bits
            for kind in WAYS.values()
        ]
        trips = np.where(self._kind == "ping", 2.0, np.isin(self._kind, [*WAYS.values()]) * legs)
        known = np.minimum(trips * route, 0.9 * self._seconds)
        rows = np.column_stack([*columns, trips])[own] / (self._seconds - known)[own, None]
        scale = np.maximum(rows.max(axis=0), 1e-300)
        x, _ = nnls(rows / scale, np.ones(len(rows)))
        up, down, latency = (x / scale).tolist()
        quickest = [0.25 / max(float(size), 1e-300) for size in scale[:2]]
        return max(up, quickest[0]), max(down, quickest[1]), max(latency, 1e-6)


def _no_file(_: Path) -> NoReturn:
    raise AssertionError("a star has no file")


def _kinds_of(each: UnknownConstant) -> tuple[str, ...]:
    """Return the kinds of observations that can tell a constant."""
    if each.field in WAYS:
        kind = WAYS[each.field]
        return kind, f"{kind}-rate", f"{kind}-capacity"
    if each.field == LATENCY:
        return "ping", *WAYS.values()
    return (WAYS["up" if each.field == "uplink" else "down"],)


def messages_of(recording: pd.DataFrame, clients: NDArray[np.intp]) -> Messages:
    """Return the messages of a recording that show a time, in its order, without what is unseen."""
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
    """Return which observations have a time of their own: not messages of one captured segment."""
    shown: NDArray[np.bool_] = ~(recording["unseen"] >= recording["bytes"]).to_numpy(bool)
    return shown


def _log_above(value: Array, least: Array) -> Array:
    """Return the logarithm, continued as a straight line below some values."""
    above = np.maximum(value, least)
    return np.log(above) + (value - above) / least
