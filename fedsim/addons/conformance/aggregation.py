"""Checks of a rule of aggregation and of an attack: shapes, draws, and the order of clients.

from fedsim.addons.conformance import check_aggregation
print(check_aggregation(Centre()))
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pandas as pd

from fedsim.addons.conformance.any_block import pickles
from fedsim.addons.conformance.findings import Promises, table
from fedsim.core.ports import Array
from fedsim.protocol.aggregation import Aggregation
from fedsim.protocol.attacks import Attack

Combine = Callable[[Array], Array]
"""Returns the vector that stands for some vectors, shape (n, d)."""

_LENGTH = 6
_MORE = 4
"""How many vectors beyond the smallest number the rule is tried on, too."""

_TOLERANCE = 1e-9


def check_aggregation(rule: Aggregation) -> pd.DataFrame:
    """Check a rule of aggregation on as few vectors as it is defined for, and on some more.

    A rule of peers is checked as a node mixes its neighbours' vectors.

    Args:
        rule: the rule, with its parameters.

    Returns:
        One row per check: check, outcome (kept or broken), and the reason.

    Example:
        >>> from fedsim.scenario import TrimmedMean
        >>> check_aggregation(TrimmedMean(byzantine=2))["outcome"].unique().tolist()
        ['kept']
    """
    return table(type(rule), _of_rule(rule))


def check_attack(attack: Attack) -> pd.DataFrame:
    """Check what a malicious client sends in place of vectors with one difficulty each.

    Args:
        attack: the attack, with its parameters.

    Returns:
        One row per check: check, outcome (kept or broken), and the reason.

    Example:
        >>> from fedsim.scenario import SignFlipAttack
        >>> check_attack(SignFlipAttack(scale=3))["outcome"].unique().tolist()
        ['kept']
    """
    return table(type(attack), _of_attack(attack))


def _of_rule(rule: Aggregation) -> Promises:
    yield "`least` is a whole number, and a policy says what is done with fewer", _least(rule)
    for where, combine in _uses(rule):
        yield f"{where}: a vector of the same length is returned", _shape(rule, combine)
        yield f"{where}: its argument stays as it is", _unchanged(rule, combine)
        yield f"{where}: finite vectors give a finite one", _finite(rule, combine)
        yield f"{where}: equal vectors give that vector", _equal(rule, combine)
        yield f"{where}: equal random streams give equal vectors", _repeats(rule, combine)
        yield f"{where}: the order of clients does not matter", _order(rule, combine)
    yield "`operations` is a number, or None", _operations(rule)
    yield "it can be sent to another process and back", pickles(rule)


def _uses(rule: Aggregation, seed: int = 1) -> Iterator[tuple[str, Callable[..., Array]]]:
    """Yield the ways in which a rule is used, as functions of vectors and of a seed.

    What the rule has returned before, or a peer's own vector, is the mean of the vectors.
    """
    if rule.at_servers:

        def combine(vectors: Array, seed: int = seed) -> Array:
            with np.errstate(all="ignore"):
                return rule.combine(vectors, vectors.mean(axis=0), np.random.default_rng(seed))

        yield "at a server", combine
    if rule.among_peers:

        def mix(vectors: Array, _: int = seed) -> Array:
            shares = np.full(len(vectors), 1 / (len(vectors) + 1))
            with np.errstate(all="ignore"):
                return rule.mix(vectors.mean(axis=0), vectors, shares)

        yield "at a peer", mix


def _vectors(rule: Aggregation) -> dict[str, Array]:
    """Return vectors, one per row, by the name of their difficulty."""
    rng, fewest = np.random.default_rng(0), max(rule.least(), 1)
    many = rng.standard_normal((fewest + _MORE, _LENGTH))
    return {
        f"{fewest} vectors": rng.standard_normal((fewest, _LENGTH)),
        f"{len(many)} vectors": many,
        "one coordinate": many[:, :1],
        "magnitudes of all orders": many * np.geomspace(1e-6, 1e6, len(many))[:, None],
        "a vector far off": np.vstack([many, np.full((1, _LENGTH), 1e9)]),
        "zeros": np.zeros_like(many),
    }


def _least(rule: Aggregation) -> Iterator[str]:
    least: object = rule.least()
    if not isinstance(least, int) or least < 0:
        yield f"it is {least!r}; give the smallest number of vectors"
    if rule.with_fewer not in ("median", "skip", "end"):
        yield f"`with_fewer` is {rule.with_fewer!r}; give median, skip or end"


def _shape(rule: Aggregation, combine: Combine) -> Iterator[str]:
    for name, vectors in _vectors(rule).items():
        one: object = combine(vectors)
        if not isinstance(one, np.ndarray) or one.shape != vectors.shape[1:]:
            seen = getattr(one, "shape", type(one).__name__)
            yield f"{name}: {vectors.shape} gives {seen}; expected {vectors.shape[1:]}"


def _unchanged(rule: Aggregation, combine: Combine) -> Iterator[str]:
    for name, vectors in _vectors(rule).items():
        before = vectors.copy()
        one = combine(vectors)
        if not np.array_equal(before, vectors):
            yield f"{name}: it has changed the vectors that it was given"
        one += 1.0
        if not np.array_equal(before, vectors):
            yield f"{name}: what it returns shares memory with a vector; return a copy"


def _finite(rule: Aggregation, combine: Combine) -> Iterator[str]:
    for name, vectors in _vectors(rule).items():
        if not np.isfinite(combine(vectors)).all():
            yield f"{name}: the result is not finite"


def _equal(rule: Aggregation, combine: Combine) -> Iterator[str]:
    for name, vectors in _vectors(rule).items():
        equal = np.repeat(vectors[:1], len(vectors), axis=0)
        if not _close(combine(equal), vectors[0]):
            yield f"{name}: copies of {vectors[0]} give {combine(equal)}"


def _repeats(rule: Aggregation, combine: Combine) -> Iterator[str]:
    for name, vectors in _vectors(rule).items():
        if not np.array_equal(combine(vectors), combine(vectors), equal_nan=True):
            yield f"{name}: two draws from streams of one seed differ; draw from rng alone"


def _order(rule: Aggregation, combine: Callable[..., Array]) -> Iterator[str]:
    rng = np.random.default_rng(2)
    for name, vectors in _vectors(rule).items():
        one = combine(vectors)
        if not all(_close(one, combine(vectors, seed)) for seed in range(5)):
            continue  # it draws, so that another order has other draws
        for _ in range(5):
            other = combine(vectors[rng.permutation(len(vectors))])
            if one.shape == other.shape and not _close(one, other):
                yield f"{name}: {one}, and in another order {other}"


def _close(one: Array, other: Array) -> bool:
    if not (np.isfinite(one).all() and np.isfinite(other).all()):
        return np.array_equal(one, other, equal_nan=True)
    size = max(float(np.abs(one).max()), float(np.abs(other).max()), 1e-300)
    return float(np.abs(one - other).max()) <= _TOLERANCE * size


def _operations(rule: Aggregation) -> Iterator[str]:
    for vectors in (max(rule.least(), 1), max(rule.least(), 1) + _MORE):
        found: object = rule.operations(vectors, _LENGTH)
        if found is not None and not (isinstance(found, int | float) and 0 <= found < np.inf):
            yield f"of {vectors} vectors it is {found!r}"


def _of_attack(attack: Attack) -> Promises:
    yield "`memory` is a whole number", _memory(attack)
    yield "a vector of the same shape is sent", _sent_shape(attack)
    yield "vectors that it is given stay as they are", _untouched(attack)
    yield "equal random streams give equal vectors", _same_draws(attack)
    if attack.keeps_structure:
        yield "with `keeps_structure`, zeros stay zeros", _keeps_zeros(attack)
    if attack.colludes:
        yield "colluding clients send one vector of the same length", _colludes(attack)
    yield "it can be sent to another process and back", pickles(attack)


def _cases(attack: Attack) -> Iterator[tuple[str, Array, list[Array]]]:
    """Yield a name, a vector, and vectors of earlier rounds: none, and as many as it reads."""
    rng = np.random.default_rng(0)
    for name, vector in {
        "a vector": rng.standard_normal(_LENGTH),
        "a matrix": rng.standard_normal((2, 3)),
        "one number": np.ones(1),
    }.items():
        yield f"{name} in the first round", vector, []
        earlier = [rng.standard_normal(vector.shape) for _ in range(attack.memory)]
        yield f"{name} after some rounds", vector, earlier


def _distort(attack: Attack, vector: Array, earlier: Sequence[Array]) -> Array:
    return attack.distort(vector, earlier, np.random.default_rng(1))


def _memory(attack: Attack) -> Iterator[str]:
    memory: object = attack.memory
    if not isinstance(memory, int) or memory < 0:
        yield f"it is {memory!r}; give the number of earlier vectors that `distort` reads"


def _sent_shape(attack: Attack) -> Iterator[str]:
    for name, vector, earlier in _cases(attack):
        sent: object = _distort(attack, vector, earlier)
        if not isinstance(sent, np.ndarray) or sent.shape != vector.shape:
            seen = getattr(sent, "shape", type(sent).__name__)
            yield f"{name}: {vector.shape} becomes {seen}"


def _untouched(attack: Attack) -> Iterator[str]:
    for name, vector, earlier in _cases(attack):
        before = [each.copy() for each in (vector, *earlier)]
        _distort(attack, vector, earlier)
        if not all(map(np.array_equal, before, (vector, *earlier))):
            yield f"{name}: it has changed a vector that it was given"


def _same_draws(attack: Attack) -> Iterator[str]:
    for name, vector, earlier in _cases(attack):
        one, other = (_distort(attack, vector, earlier) for _ in range(2))
        if not np.array_equal(one, other, equal_nan=True):
            yield f"{name}: two draws from streams of one seed differ; draw from rng alone"


def _keeps_zeros(attack: Attack) -> Iterator[str]:
    zeros = np.arange(_LENGTH) % 2 == 0
    for name, vector, earlier in _cases(attack):
        if vector.shape != zeros.shape:
            continue
        sent = _distort(attack, np.where(zeros, 0.0, vector), [each * ~zeros for each in earlier])
        if sent[zeros].any():
            yield f"{name}: zeros become {sent[zeros]}; leave `keeps_structure` False"


def _colludes(attack: Attack) -> Iterator[str]:
    rng = np.random.default_rng(0)
    for true_ones, false_ones in ((1, 1), (5, 2), (3, 4)):
        true = rng.standard_normal((true_ones, _LENGTH))
        before = true.copy()
        sent: object = attack.collude(true, false_ones)
        if not isinstance(sent, np.ndarray) or sent.shape != (_LENGTH,):
            seen = getattr(sent, "shape", type(sent).__name__)
            yield f"of {true_ones} honest clients it is {seen}; expected {(_LENGTH,)}"
        if not np.array_equal(before, true):
            yield f"of {true_ones} honest clients: it has changed their vectors"
