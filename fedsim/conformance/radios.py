"""Is a radio one that messages can be sent with: rates, terms, power?

from fedsim.conformance import check_radio
print(check_radio(FreeSpace.in_si(near=1e9, distance=20, latency=1e-3)))
"""

import pickle
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from math import inf, isclose, isfinite

import numpy as np
import pandas as pd

from fedsim.blocks.plugins import dumped
from fedsim.conformance.findings import Promises, table
from fedsim.physics.radios import RadioLaw, RateLaw, Terms
from fedsim.physics.signals import Constant

SIZES = (0, 1, 8, 152, 1_000, 12_000, 12_001, 1_000_000)
"""Bits of messages: none, few, a whole packet, one bit more, many."""

ROUNDS = 20

_TRACE = Constant(1e6)  # bit/s, in place of a radio's traces
_CLOSE = 1e-9


def check_radio(radio: RadioLaw, seed: int = 0) -> pd.DataFrame:
    """Check a radio on messages of several sizes.

    Args:
        radio: of any kind, with its parameters; its traces are taken to be a constant rate.
        seed: of its streams.

    Returns:
        A row a check: check, outcome (kept or broken), and the reason.
    """
    return table(type(radio), _promises(radio, seed))


def _promises(radio: RadioLaw, seed: int) -> Promises:
    yield "a message takes as long as its bits and rate say, and more bits no less", _times(radio)
    yield "a constant rate is that of every message", _constant(radio)
    yield "no message is faster than the peak, and its time on the air is a share", _terms(radio)
    yield "streams of one seed give the same terms", _repeats(radio, seed)
    yield "no energy, power or delay is below 0 or without end", _draws(radio)
    yield "framing only adds, and a packet is sent once at least", _packets(radio)
    yield "it goes to another process and back", _goes(radio)


def _laws(radio: RadioLaw) -> dict[str, RateLaw]:
    return radio.rates(dict.fromkeys(radio.traces, _TRACE))._asdict()


def _framed(radio: RadioLaw, bits: int) -> int:
    return bits + radio.packaging.bits(bits)


def _times(radio: RadioLaw) -> Iterator[str]:
    for way, law in _laws(radio).items():
        sizes = [(bits, _framed(radio, bits)) for bits in SIZES]
        seconds = [law.seconds(*size) for size in sizes]
        for (bits, framed), taken in zip(sizes, seconds, strict=True):
            least = framed / law.peak if law.peak else inf
            if not taken >= least * (1 - _CLOSE):
                yield f"{way}: {bits} bits take {taken:g} s, and {least:g} s at the peak"
        for (one, less), (other, more) in pairwise(zip(SIZES, seconds, strict=True)):
            if more < less * (1 - _CLOSE):
                yield f"{way}: {other} bits take {more:g} s, and {one} bits {less:g} s"


def _constant(radio: RadioLaw) -> Iterator[str]:
    for way, law in _laws(radio).items():
        rate = law.constant
        if rate is None:
            continue
        for bits in SIZES:
            framed = _framed(radio, bits)
            taken, wanted = law.seconds(bits, framed), framed / rate
            if not isclose(taken, wanted, rel_tol=_CLOSE):
                yield f"{way}: {bits} bits take {taken:g} s, and {wanted:g} s at {rate:g} bit/s"
        for terms in _carried(radio, law, 0):
            if terms != Terms(rate):
                yield f"{way}: the rate is {rate:g} bit/s, and the terms are {terms}"


def _terms(radio: RadioLaw) -> Iterator[str]:
    for way, law in _laws(radio).items():
        for terms in _carried(radio, law, 0):
            if not 0 <= terms.cap <= law.peak * (1 + _CLOSE):
                yield f"{way}: the cap is {terms.cap:g} bit/s, and the peak {law.peak:g}"
            if not 0 < terms.share <= 1:
                yield f"{way}: {terms.share:g} of the time is on the air"
            if not 0 <= terms.rest < inf:
                yield f"{way}: the silence after a message is {terms.rest:g} s"
            if law.continuous and (terms.share, terms.rest) != (1, 0):
                yield f"{way}: `continuous` says that it is on the air all the time; got {terms}"


def _repeats(radio: RadioLaw, seed: int) -> Iterator[str]:
    for way, law in _laws(radio).items():
        if _carried(radio, law, seed) != _carried(radio, law, seed):
            yield f"{way}: two carriers differ; draw from the stream alone"


def _carried(radio: RadioLaw, law: RateLaw, seed: int) -> list[Terms]:
    """Return the terms of messages that carry something, round by round."""
    carrier = law.carrier(partial(np.random.default_rng, seed))
    return [
        carrier.terms(bits, _framed(radio, bits), number)
        for number in range(1, ROUNDS + 1)
        for bits in SIZES[1:]
    ]


def _draws(radio: RadioLaw) -> Iterator[str]:
    stages = radio.states.stages
    said = {
        "idle": radio.idle,
        "resting": radio.resting,
        "waiting": radio.waiting,
        "latency": radio.latency,
    }
    said |= {key: getattr(radio.draw, key) for key in _OF_DRAW}
    said |= {key: getattr(radio.connection, key) for key in _OF_CONNECTION}
    for number, stage in enumerate(stages):
        said |= {f"{key} of stage {number}": getattr(stage, key) for key in _OF_STAGE}
    said |= {f"time of stage {number}": stage.time for number, stage in enumerate(stages[:-1])}
    if len(stages) == 1 or stages[0].cycle or stages[-1].power or stages[-1].time < inf:
        yield "of `states`, the first does not hear always, or the last has a power or an end"
    for key, value in said.items():
        if not (isfinite(value) and value >= 0):
            yield f"`{key}` is {value:g}"


_OF_DRAW = ("energy_up", "energy_down", "base", "send", "receive")
_OF_CONNECTION = ("promotion_power", "promotion_time", "tail_power", "tail_time")


_OF_STAGE = ("power", "cycle", "wake_time", "wake_power")


def _packets(radio: RadioLaw) -> Iterator[str]:
    for bits in SIZES:
        if (added := radio.packaging.bits(bits)) < 0:
            yield f"{bits} bits become {bits + added}"
    if not radio.transmissions >= 1:
        yield f"a packet is sent {radio.transmissions:g} times on average"


def _goes(radio: RadioLaw) -> Iterator[str]:
    if pickle.loads(dumped(radio)) != radio:  # noqa: S301 - what has just been written
        yield "another one comes back"
    for way, law in _laws(radio).items():
        other = pickle.loads(dumped(law))  # noqa: S301 - what has just been written
        if _carried(radio, other, 0) != _carried(radio, law, 0):
            yield f"{way}: a law comes back that gives other terms"
