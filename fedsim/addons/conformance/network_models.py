"""Does a network carry every message once, and does it do what its nature says?

from fedsim.addons.conformance import check_network_model
print(check_network_model(Satellite.in_si(period=5400, sight=600, rate=1e6)))
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise, product
from math import inf, isclose, isfinite
from zlib import crc32

import numpy as np
import pandas as pd

from fedsim.addons.conformance.any_block import pickles
from fedsim.addons.conformance.findings import Promises, table
from fedsim.core.ports.bearers import Bearer, Transfer
from fedsim.physics.network_models import Bearers, NetworkModel, Site
from fedsim.physics.radios import ConstantRate
from fedsim.physics.radios.channel import NONE, Framing
from fedsim.physics.topology import star
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.network.models import built_in

RATES = (1e6, 2e6, 5e5)
"""Of the radios of three clients, bit/s, in either direction; no link is shared."""

LATENCY = 1e-3
"""Of the radios, one way, s."""

SIZES = (8.0, 1_000.0, 12_000.0, 200_000.0)
"""Bits of messages: few, some, a packet, many."""

LATENCIES = (0.0, 1e-3, 0.5)

LATER = 1_000.0
"""A moment, s, at which a message is sent again; long after all else has ended."""

PATIENCE = 1e7
"""Seconds of simulated time in which a message has to end."""

_CLOSE = 1e-6


@dataclass(frozen=True)
class _Message:
    """A message: when its bits begin to flow, how many they are, and which way they go."""

    begin: float
    bits: float
    client: int = 0
    up: bool = True

    def __str__(self) -> str:
        way = "from" if self.up else "to"
        return f"{self.bits:g} bits {way} client {self.client} at {self.begin:g} s"

    @property
    def cap(self) -> float:
        """The rate of its radio, bit/s."""
        return RATES[self.client]


@dataclass
class _Played:
    """What becomes of messages on a network of a model.

    Attributes:
        bearers: of uplinks and downlinks.
        calendar: the simulated time.
        ends: of each message, by its number: when its end was told.
        passed: of each message, by its number: the bits that had passed at some moments.
        transfers: by the number of the message.
    """

    bearers: Bearers
    calendar: Calendar
    ends: dict[int, list[float]] = field(default_factory=dict)
    passed: dict[int, list[float]] = field(default_factory=dict)
    transfers: dict[int, Transfer] = field(default_factory=dict)

    @classmethod
    def on(cls, model: NetworkModel, seed: int) -> "_Played":
        """Return an empty network of a model."""
        calendar = Calendar()
        site = Site(
            calendar=calendar,
            topology=star(len(RATES)),
            up=[ConstantRate(rate) for rate in RATES],
            down=[ConstantRate(rate) for rate in RATES],
            latency=[LATENCY] * len(RATES),
            rng=partial(_stream, seed),
            built_in=built_in,
        )
        return cls(model.bearers(site), calendar)

    def bearer(self, message: _Message) -> Bearer:
        """Return what carries a message."""
        return self.bearers[0 if message.up else 1][message.client]

    def send(self, messages: Iterable[_Message], looks: int = 0, stop: float = inf) -> "_Played":
        """Send messages, and wait for their ends.

        Args:
            messages: in any order.
            looks: how often to ask what has passed of each, while it takes the time of its radio.
            stop: when the first of them is cancelled, s.
        """
        for number, message in enumerate(messages):
            self.ends[number], self.passed[number] = [], []
            self.calendar.at(message.begin, self._start, message, number)
            step = message.bits / message.cap / (looks + 1)
            for look in range(1, looks + 1):
                self.calendar.at(message.begin + look * step, self._look, number)
        if stop < inf:
            self.calendar.at(stop, self._cancel)
        self.calendar.run(until=PATIENCE)
        return self

    def _start(self, message: _Message, number: int) -> None:
        bearer = self.bearer(message)
        self.transfers[number] = bearer.start(message.bits, message.cap, self._end, number)

    def _cancel(self) -> None:
        self.transfers[0].stop()

    def _look(self, number: int) -> None:
        if not self.ends[number]:
            self.passed[number].append(self.transfers[number].passed(self.calendar.now))

    def _end(self, number: int) -> None:
        self.ends[number].append(self.calendar.now)


def _stream(seed: int, *entity: object) -> np.random.Generator:
    """Return the random stream of a purpose and an entity."""
    return np.random.default_rng([seed, crc32(repr(entity).encode())])


def check_network_model(model: NetworkModel, seed: int = 0) -> pd.DataFrame:
    """Check a network model by messages of three clients, which share no link.

    Args:
        model: of any kind, with its parameters.
        seed: of its streams.

    Returns:
        One row per check: check, outcome (kept or broken), and the reason.

    Example:
        >>> from fedsim.scenario import FluidFlows
        >>> check_network_model(FluidFlows())["outcome"].unique().tolist()
        ['kept']
    """
    return table(type(model), _promises(model, seed))


def _promises(model: NetworkModel, seed: int) -> Promises:
    yield "framing only adds bits, and delays are finite and at least 0", _delays(model)
    yield "every client has a bearer up and one down", _complete(model, seed)
    yield "every message ends once, and no sooner than its radio allows", _ends(model, seed)
    yield "more bits take no less", _sizes(model, seed)
    yield "what has passed only grows, up to the bits of the message", _passed(model, seed)
    yield "a cancelled message does not end, and the next one does", _stopped(model, seed)
    yield "equal random streams give equal times", _repeats(model, seed)
    yield "times depend on the other messages only if `shares` says so", _alone(model, seed)
    yield "times are the same later unless `nature` says otherwise", _later(model, seed)
    yield "it can be sent to another process and back", pickles(model)


def _delays(model: NetworkModel) -> Iterator[str]:
    for own in (NONE, Framing(60, 1500)):
        framing = model.framing(own)
        for bits in map(int, SIZES):
            if (added := framing.bits(bits)) < 0:
                yield f"{bits} bits become {bits + added}"
    delays = [model.delay(latency) for latency in LATENCIES]
    for latency, delay in zip(LATENCIES, delays, strict=True):
        if not (isfinite(delay) and delay >= 0):
            yield f"after a latency of {latency:g} s the delay is {delay:g} s"
    for (one, less), (other, more) in pairwise(zip(LATENCIES, delays, strict=True)):
        if more < less:
            yield f"a latency of {other:g} s delays by {more:g} s, and one of {one:g} s by {less:g}"


def _complete(model: NetworkModel, seed: int) -> Iterator[str]:
    for way, bearers in zip(("up", "down"), _Played.on(model, seed).bearers, strict=True):
        if len(bearers) != len(RATES):
            yield f"{len(bearers)} bearers {way} for {len(RATES)} clients"


def _several() -> list[_Message]:
    """Return messages of all clients, both ways, some at the same time."""
    return [
        _Message(begin, bits, client, up)
        for number, (client, up) in enumerate(product(range(len(RATES)), (True, False)))
        for begin, bits in [(0.1 * (number // 2), SIZES[number % len(SIZES)])]
    ]


def _ends(model: NetworkModel, seed: int) -> Iterator[str]:
    for messages in ([_Message(0.0, 12_000.0)], _several()):
        played = _Played.on(model, seed).send(messages)
        for number, message in enumerate(messages):
            ends, loses = played.ends[number], model.nature.loses
            if len(ends) != 1 and not (loses and not ends):
                yield f"{message} end {len(ends)} times within {PATIENCE:g} s"
            least, is_open = message.bits / message.cap, played.bearer(message).open
            for taken in (end - message.begin for end in ends):
                if taken < least * (1 - _CLOSE):
                    yield f"{message} take {taken:g} s, and {least:g} s at the rate of the radio"
                if is_open and not isclose(taken, least, rel_tol=_CLOSE):
                    yield f"{message} take {taken:g} s; a bearer that is `open` takes {least:g} s"


def _sizes(model: NetworkModel, seed: int) -> Iterator[str]:
    taken = [_taken(model, seed, [_Message(0.0, bits)]) for bits in SIZES]
    for (one, less), (other, more) in pairwise(zip(SIZES, taken, strict=True)):
        if more < less * (1 - _CLOSE):
            yield f"{other:g} bits take {more:g} s, and {one:g} bits {less:g} s"


def _taken(model: NetworkModel, seed: int, messages: list[_Message]) -> float:
    """Return how long the last of some messages takes, s; infinite if it does not end."""
    ends = _Played.on(model, seed).send(messages).ends[len(messages) - 1]
    return ends[0] - messages[-1].begin if ends else inf


def _passed(model: NetworkModel, seed: int) -> Iterator[str]:
    messages = _several()
    played = _Played.on(model, seed).send(messages, looks=7)
    for number, message in enumerate(messages):
        seen = [0.0, *played.passed[number]]
        for less, more in pairwise(seen):
            if not less * (1 - _CLOSE) <= more <= message.bits * (1 + _CLOSE):
                yield f"of {message}, {less:g} bits have passed, and a moment later {more:g}"


def _stopped(model: NetworkModel, seed: int) -> Iterator[str]:
    cancelled, other = _Message(0.0, 200_000.0), _Message(0.5, 12_000.0)
    played = _Played.on(model, seed).send([cancelled, other], stop=0.01)
    if played.ends[0]:
        yield f"{cancelled} end at {played.ends[0][0]:g} s, though cancelled at 0.01 s"
    if not (played.ends[1] or model.nature.loses):
        yield f"{other}, after a cancelled message, do not end"


def _repeats(model: NetworkModel, seed: int) -> Iterator[str]:
    one, other = (_Played.on(model, seed).send(_several()).ends for _ in range(2))
    if one != other:
        yield "two networks differ; draw from the streams of the site alone"


def _alone(model: NetworkModel, seed: int) -> Iterator[str]:
    if model.nature.shares:
        return
    message = _Message(0.0, 12_000.0)
    others = [_Message(0.0, 200_000.0, client) for client in range(1, len(RATES))]
    alone, beside = (_taken(model, seed, [*before, message]) for before in ([], others))
    if not isclose(alone, beside, rel_tol=_CLOSE):
        yield (
            f"{message} take {alone:g} s alone, and {beside:g} s beside messages of other clients;"
            " say Nature(shares=...)"
        )


def _later(model: NetworkModel, seed: int) -> Iterator[str]:
    nature = model.nature
    if nature.first(("varies", "shares", "draws", "loses", "waits")):
        return
    first, last = (_taken(model, seed, [_Message(at, 12_000.0)]) for at in (0.0, LATER))
    if not isclose(first, last, rel_tol=_CLOSE):
        yield (
            f"12000 bits take {first:g} s at first, and {last:g} s after {LATER:g} s; say"
            " Nature(varies=...) or Nature(waits=...)"
        )
