"""Checks of a compressor: its contract, and encoding and decoding of its payloads.

from fedsim.addons.conformance import check_compressor
print(check_compressor(EveryOther(stride=3)))
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from fedsim.addons.conformance.findings import Promises, table
from fedsim.core.errors import DecodeError
from fedsim.core.ports import Array
from fedsim.wire import Compressor, Contract, ValueFormat, decode, encode

DRAWS = 2000
"""Draws per vector from which a mean is estimated; deviations above 6 standard errors count."""

_SIGMAS = 6.0
_ROUNDING = 1e-6  # some payloads round a norm to float32, whatever the format of values


def check_compressor(compressor: Compressor, seed: int = 0, draws: int = DRAWS) -> pd.DataFrame:
    """Check a compressor on vectors with one difficulty each.

    Args:
        compressor: the compressor, with its parameters.
        seed: the seed of the check's random numbers.
        draws: the number of draws per vector where means are compared.

    Returns:
        One row per check: check, outcome (kept or broken), and the reason.

    Example:
        >>> from fedsim.wire import TopK
        >>> check_compressor(TopK(count=2))["outcome"].unique().tolist()
        ['kept']
    """
    return table(type(compressor), _promises(compressor, seed, draws))


def _promises(compressor: Compressor, seed: int, draws: int) -> Promises:
    encoded = "the decoded message equals the encoded one, and has the bits that are charged"
    yield encoded, _round_trip(compressor, seed)
    yield "equal random streams give equal messages", _repeats(compressor, seed)
    yield "no message is longer than `longest`", _longest(compressor, seed)
    yield "values that are not finite do not become finite", _finite(compressor, seed)
    yield "damaged bytes are rejected", _hostile(compressor, seed)
    yield "the contract holds", _contract(compressor, seed, draws)


def vectors(seed: int) -> dict[str, Array]:
    """Return test vectors by the name of their difficulty."""
    rng = np.random.default_rng(seed)
    spike = np.zeros(40)
    spike[17] = -3.0
    return {
        "one coordinate": np.array([1.5]),
        "a normal vector": rng.standard_normal(40),
        "equal magnitudes": np.where(rng.random(40) < 0.5, -1.0, 1.0),
        "one coordinate of many": spike,
        "magnitudes of all orders": np.geomspace(1e-6, 1e6, 40) * rng.choice([-1.0, 1.0], 40),
        "zeros": np.zeros(7),
    }


def _send(compressor: Compressor, vector: Array, rng: np.random.Generator) -> Array:
    """Return a compressed and decompressed vector, in the most precise format."""
    sent = compressor.compress(vector.copy(), rng, ValueFormat.FLOAT64)
    return np.asarray(sent.values, dtype=np.float64)


def _round_trip(compressor: Compressor, seed: int) -> Iterator[str]:
    for name, vector in vectors(seed).items():
        for form in ValueFormat:
            before = vector.copy()
            payload = compressor.compress(vector, np.random.default_rng(seed), form)
            data, sent = encode(payload), np.asarray(payload.values)
            arrived = np.asarray(decode(data).values)
            if not np.array_equal(before, vector):
                yield f"{name}: compress has changed the vector that it was given"
            if sent.shape != vector.shape:
                yield f"{name}: {vector.shape} is sent, {sent.shape} arrives"
            if payload.bits != 8 * len(data):
                yield f"{name} as {form.value}: {payload.bits} bits, but {8 * len(data)} encoded"
            if arrived.tobytes() != sent.tobytes():
                yield f"{name} as {form.value}: other values are decoded than those encoded"


def _repeats(compressor: Compressor, seed: int) -> Iterator[str]:
    for name, vector in vectors(seed).items():
        one, other = (_send(compressor, vector, np.random.default_rng(seed)) for _ in range(2))
        if one.tobytes() != other.tobytes():
            yield f"{name}: two draws from streams of one seed differ; draw from rng alone"


def _longest(compressor: Compressor, seed: int) -> Iterator[str]:
    rng = np.random.default_rng(seed)
    for name, vector in vectors(seed).items():
        payloads = [compressor.compress(vector, rng, ValueFormat.FLOAT32) for _ in range(50)]
        longest = max(payload.bits for payload in payloads)
        bound = min(compressor.longest(vector, payload) for payload in payloads)
        if bound < longest:
            yield f"{name}: {longest} bits were drawn, and `longest` says {bound}; override it"


def _finite(compressor: Compressor, seed: int) -> Iterator[str]:
    for bad in (np.nan, np.inf, -np.inf):
        vector = np.full(30, bad)
        with np.errstate(all="ignore"):
            if np.isfinite(_send(compressor, vector, np.random.default_rng(seed))).all():
                yield f"a vector of {bad} arrives as finite numbers"


def _hostile(compressor: Compressor, seed: int) -> Iterator[str]:
    rng = np.random.default_rng(seed)
    for name, vector in vectors(seed).items():
        whole = encode(compressor.compress(vector, rng, ValueFormat.FLOAT32))
        flipped = bytearray(whole)
        for cut in (*(whole[:n] for n in range(1, len(whole))), whole + b"\0"):
            if not _refuse(cut):
                yield f"{name}: {len(cut)} of its {len(whole)} bytes are read as a payload"
        for place in range(len(whole)):
            flipped[place] ^= 1 << int(rng.integers(8))
            _refuse(bytes(flipped))  # may be another payload; anything but DecodeError comes out


def _refuse(data: bytes) -> bool:
    try:
        decode(data)
    except DecodeError:
        return True
    return False


def _contract(compressor: Compressor, seed: int, draws: int) -> Iterator[str]:
    rng = np.random.default_rng(seed)
    for name, vector in vectors(seed).items():
        arrived = np.array([_send(compressor, vector, rng) for _ in range(draws)])
        promises = {compressor.contract(vector.size), compressor.contract_for(vector)}
        for contract in promises:
            for broken in _unkept(contract, vector, arrived):
                yield f"{name}: {broken}"


def _unkept(contract: Contract, vector: Array, arrived: Array) -> Iterator[str]:
    """Yield violations of a contract by decompressed vectors, shape (draws, d)."""
    size = float(vector @ vector)
    errors = ((arrived - vector) ** 2).sum(axis=1)
    slack = _ROUNDING * size + _SIGMAS * float(errors.std()) / len(errors) ** 0.5
    law = f"the contract is {contract.kind}, {contract.constant:g}, and"
    match contract.kind:
        case "exact":
            bound, measured = 0.0, float(errors.max())
        case "absolute":
            bound, measured, slack = contract.constant, float(errors.max()), _ROUNDING * size
        case "contractive":
            bound, measured = (1 - contract.constant) * size, float(errors.mean())
        case "unbiased":
            bound, measured = contract.constant * size, float(errors.mean())
            off = float(((arrived.mean(axis=0) - vector) ** 2).sum())
            chance = _SIGMAS**2 * measured / len(arrived)
            if off > chance + _ROUNDING**2 * size:
                yield f"{law} the mean of what arrives is {off**0.5:.4g} off"
    if measured > bound + slack:
        yield f"{law} the squared error is {measured:.4g}, above {bound:.4g}"
