"""Rules of aggregation and attacks once more, as plain loops: every call of a run is held to them.

A log has no vectors. So what servers and peers combine is recomputed as it happens; a result that
differs ends the world with a finding.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from itertools import combinations
from math import ceil, comb, fsum, isfinite, sqrt
from typing import Any
from unittest.mock import patch
from weakref import WeakKeyDictionary

import numpy as np

from fedsim.core.ports import Array, Reply
from fedsim.protocol.aggregation import Aggregation, Aggregator
from fedsim.protocol.attacks import FalsePacker
from fedsim.wire import field_payloads

Vector = list[float]

MOST = 30
"""The calls of one aggregator, or of one malicious client, that are recomputed."""

LARGEST = 2e5
"""The largest n^2 d of a call that is recomputed."""


class Otherwise(AssertionError):
    """A result differs from that of the loop."""


class TiedError(Exception):
    """Two choices are as good as each other, so that rounding decides."""


def _distance(one: Vector, other: Vector) -> float:
    return fsum((a - b) ** 2 for a, b in zip(one, other, strict=True))


def _mean(vectors: Sequence[Vector], weights: Sequence[float] | None = None) -> Vector:
    shares = [1.0] * len(vectors) if weights is None else weights
    total = fsum(shares)
    columns = zip(*vectors, strict=True)
    return [fsum(s * x for s, x in zip(shares, each, strict=True)) / total for each in columns]


def _median(vectors: Sequence[Vector]) -> Vector:
    n = len(vectors)
    columns = (sorted(column) for column in zip(*vectors, strict=True))
    return [0.5 * (each[(n - 1) // 2] + each[n // 2]) for each in columns]


def _trimmed(vectors: Sequence[Vector], f: int) -> Vector:
    columns = (sorted(column)[f : len(vectors) - f] for column in zip(*vectors, strict=True))
    return [fsum(each) / len(each) for each in columns]


def _smallest(scores: Mapping[int, float], count: int) -> list[int]:
    """Return the places of the smallest scores.

    Raises:
        TiedError: the last of them and the next one are as good as each other.
    """
    order = sorted(scores, key=lambda place: scores[place])
    if count < len(order):
        last, after = scores[order[count - 1]], scores[order[count]]
        if after - last <= 1e-9 * max(after, 1e-300):
            raise TiedError
    return order[:count]


def _scores(vectors: Sequence[Vector], among: Sequence[int], f: int) -> dict[int, float]:
    """Return Krum's scores: the squared distances to the n - f - 1 nearest others."""
    scores = {}
    for one in among:
        apart = sorted(_distance(vectors[one], vectors[each]) for each in among if each != one)
        scores[one] = fsum(apart[: max(len(among) - f - 1, 0)])
    return scores


def _krum(vectors: Sequence[Vector], f: int) -> Vector:
    (best,) = _smallest(_scores(vectors, range(len(vectors)), f), 1)
    return vectors[best]


def _multi_krum(vectors: Sequence[Vector], f: int) -> Vector:
    best = _smallest(_scores(vectors, range(len(vectors)), f), len(vectors) - f)
    return _mean([vectors[each] for each in best])


def _bulyan(vectors: Sequence[Vector], f: int) -> Vector:
    left, chosen = list(range(len(vectors))), []
    for _ in range(len(vectors) - 2 * f):
        (best,) = _smallest(_scores(vectors, left, f), 1)
        left.remove(best)
        chosen.append(vectors[best])
    result = []
    for column, middle in zip(zip(*chosen, strict=True), _median(chosen), strict=True):
        apart = {place: abs(x - middle) for place, x in enumerate(column)}
        near = _smallest(apart, len(chosen) - 2 * f)
        result.append(fsum(column[place] for place in near) / len(near))
    return result


def _mda(vectors: Sequence[Vector], f: int) -> Vector:
    def width(places: Sequence[int]) -> float:
        pairs = combinations(places, 2)
        return max((_distance(vectors[i], vectors[j]) for i, j in pairs), default=0.0)

    subsets = list(combinations(range(len(vectors)), len(vectors) - f))
    (best,) = _smallest({k: width(places) for k, places in enumerate(subsets)}, 1)
    return _mean([vectors[place] for place in subsets[best]])


def _geometric(vectors: Sequence[Vector], rule: Any) -> Vector:
    point = [0.0] * len(vectors[0])
    for _ in range(rule.steps):
        apart = [sqrt(_distance(each, point)) for each in vectors]
        point = _mean(vectors, [1 / max(rule.smoothing, length) for length in apart])
    return point


def _clip(difference: Vector, radius: float) -> Vector:
    length = sqrt(fsum(x * x for x in difference))
    return difference if length <= radius else [radius / length * x for x in difference]


def _minus(one: Vector, other: Vector) -> Vector:
    return [a - b for a, b in zip(one, other, strict=True)]


def _plus(one: Vector, other: Vector, factor: float = 1.0) -> Vector:
    return [a + factor * b for a, b in zip(one, other, strict=True)]


def _clipping(vectors: Sequence[Vector], rule: Any, last: Vector | None) -> Vector:
    point = [0.0] * len(vectors[0]) if last is None else last
    for _ in range(rule.steps):
        moves = [_clip(_minus(each, point), rule.radius) for each in vectors]
        point = _plus(point, _mean(moves))
    return point


CHOICES: dict[str, Callable[[Sequence[Vector], Any, Vector | None], Vector]] = {
    "median": lambda vectors, rule, last: _median(vectors),
    "trimmed-mean": lambda vectors, rule, last: _trimmed(vectors, rule.byzantine),
    "geometric-median": lambda vectors, rule, last: _geometric(vectors, rule),
    "krum": lambda vectors, rule, last: _krum(vectors, rule.byzantine),
    "multi-krum": lambda vectors, rule, last: _multi_krum(vectors, rule.byzantine),
    "bulyan": lambda vectors, rule, last: _bulyan(vectors, rule.byzantine),
    "mda": lambda vectors, rule, last: _mda(vectors, rule.byzantine),
    "centred-clipping": _clipping,
}
FEWEST = {"krum": (2, 3), "multi-krum": (2, 3), "bulyan": (4, 3), "trimmed-mean": (2, 1)}
FEWEST["mda"] = FEWEST["trimmed-mean"]


def fewest(rule: Any) -> int:
    """Return the number of vectors that a rule needs."""
    times, more = FEWEST.get(rule.kind, (0, 1))
    least = times * (rule.byzantine or 0) + more
    for step in rule.before:
        if step == "bucketing":
            least = rule.bucket * (least - 1) + 1
    return least


def _before(vectors: Sequence[Vector], rule: Any, rng: np.random.Generator) -> Sequence[Vector]:
    for step in rule.before:
        if step == "bucketing":
            order = rng.permutation(len(vectors)).tolist()
            mixed = [vectors[place] for place in order]
            count = ceil(len(mixed) / rule.bucket)
            vectors = [_mean(mixed[rule.bucket * k : rule.bucket * (k + 1)]) for k in range(count)]
            continue
        kept = max(len(vectors) - (rule.byzantine or 0), 1)
        apart = [{k: _distance(one, other) for k, other in enumerate(vectors)} for one in vectors]
        near = [_smallest(each, kept) for each in apart]
        vectors = [_mean([vectors[place] for place in places]) for places in near]
    return vectors


class _Again:
    """One aggregator once more, with its own memory."""

    def __init__(self, aggregator: Any) -> None:
        self.rule: Aggregation = aggregator._rule
        self.attacks = dict(aggregator._attacks)
        self.rng = aggregator._make_rng() if getattr(self.rule, "before", ()) else None
        self.calls = 0
        self.sums: dict[str, dict[int, tuple[float, Vector]]] = {}
        self.values: dict[str, Vector] = {}
        self.last: dict[str, Vector] = {}

    def sum(self, replies: Sequence[Reply], field: str, weights: Any, *, changes: bool) -> Vector:
        clients = [int(reply.client) for reply in replies]
        vectors = [p.values.ravel().tolist() for p in field_payloads(replies, field)]
        vectors = self._together(clients, vectors)
        factors = [1.0] * len(clients) if weights is None else [float(w) for w in weights]
        if self.rule.kind == "mean":
            columns = zip(*vectors, strict=True)
            return [sum(w * x for w, x in zip(factors, each, strict=True)) for each in columns]
        if not changes:
            one = self._combine(field, vectors)
            return [fsum(factors) * x for x in one]
        held = self.sums.setdefault(field, {})
        for client, weight, vector in zip(clients, factors, vectors, strict=True):
            so_far = held[client][1] if client in held else [0.0] * len(vector)
            held[client] = weight, _plus(so_far, vector)
        one = self._combine(field, [held[client][1] for client in sorted(held)])
        total = fsum(weight for weight, _ in held.values())
        value, before = [total * x for x in one], self.values.get(field, [0.0] * len(one))
        self.values[field] = value
        return _minus(value, before)

    def _together(self, clients: list[int], vectors: list[Vector]) -> list[Vector]:
        true = [v for m, v in zip(clients, vectors, strict=True) if m not in self.attacks]
        if not true:
            return vectors
        sent = []
        for client, own in zip(clients, vectors, strict=True):
            attack: Any = self.attacks.get(client)
            mean = _mean(true)
            match getattr(attack, "kind", ""):
                case "ipm":
                    sent.append([-attack.scale * x for x in mean])
                case "mimic":
                    sent.append(true[min(attack.which, len(true) - 1)])
                case "alie":
                    shift = self._shift(attack, clients, true)
                    sent.append(_plus(mean, _deviation(true, mean), shift))
                case _:
                    sent.append(own)
        return sent

    def _shift(self, attack: Any, clients: list[int], true: list[Vector]) -> float:
        if attack.z is not None:
            return float(attack.z)
        n, f = len(clients), len(clients) - len(true)
        share = (n - f - (n // 2 + 1 - f)) / (n - f)
        if share <= 0:
            return 0.0
        return 1e3 if share >= 1 else _quantile(share)

    def _combine(self, field: str, vectors: list[Vector]) -> Vector:
        finite = [each for each in vectors if all(map(isfinite, each))]
        d = len(vectors[0])
        rule: Any = self.rule
        if len(finite) ** 2 * d > LARGEST or (
            rule.kind == "mda" and comb(len(finite), rule.byzantine) > 500
        ):
            raise TiedError  # too large to be recomputed
        if len(finite) < fewest(rule):
            one = _median(finite) if finite else [0.0] * d
        else:
            some = _before(finite, rule, self.rng)  # type: ignore[arg-type]
            one = CHOICES[rule.kind](some, rule, self.last.get(field))
        self.last[field] = one
        return one


def _deviation(vectors: list[Vector], mean: Vector) -> Vector:
    if len(vectors) == 1:
        return [0.0] * len(mean)
    columns = zip(zip(*vectors, strict=True), mean, strict=True)
    return [sqrt(fsum((x - m) ** 2 for x in each) / (len(vectors) - 1)) for each, m in columns]


def _quantile(share: float) -> float:
    """Return the quantile of the standard normal law, by bisection of its integral."""
    from scipy.special import ndtr

    low, high = -40.0, 40.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if ndtr(middle) < share else (low, middle)
    return low


def _compare(what: str, seen: Array, expected: Vector) -> None:
    wanted = np.array(expected).reshape(seen.shape)
    scale = float(np.abs(wanted[np.isfinite(wanted)]).max(initial=0.0))
    if not np.allclose(seen, wanted, rtol=1e-7, atol=1e-9 * scale, equal_nan=True):
        raise Otherwise(f"{what}: {seen.ravel()[:4]} and by the loop {wanted.ravel()[:4]}")


def _mixed(
    rule: Any, own: Vector, received: list[tuple[int, Vector]], weights: Mapping[int, float]
) -> Vector:
    """Return what a peer goes on with."""
    finite = [(sender, each) for sender, each in received if all(map(isfinite, each))]
    if rule.kind == "clipped-gossip":
        moved = own
        for sender, vector in finite:
            moved = _plus(moved, _clip(_minus(vector, own), rule.radius), weights[sender])
        return moved
    vectors = [vector for _, vector in finite]
    if len(vectors) < fewest(rule):
        return own if rule.otherwise == "skip" else _median([own, *vectors])
    f, n = rule.byzantine, len(vectors)
    columns = [sorted(column)[f : n - f] for column in zip(*vectors, strict=True)]
    return [fsum([x, *kept]) / (1 + len(kept)) for x, kept in zip(own, columns, strict=True)]


class _Recorder:
    """Stands in for the packer of a malicious client, and keeps what that packs."""

    def __init__(self, packer: Any) -> None:
        self.packer, self.sent = packer, np.zeros(0)

    def pack(self, vector: Array, *structure: Any) -> Any:
        self.sent = vector
        return self.packer.pack(vector, *structure)


class _FalseAgain:
    """One field of a malicious client once more."""

    def __init__(self, packer: Any) -> None:
        self.attack, self.rng = packer._attack, deepcopy(packer._rng)
        self.before: list[Array] = []
        self.calls = 0

    def expected(self, vector: Array) -> Array:
        attack, sent = self.attack, vector
        match attack.kind:
            case "sign-flip":
                sent = vector * -attack.scale
            case "scaled":
                sent = vector * attack.factor
            case "nan":
                sent = vector * np.nan
            case "gaussian":
                sent = self.rng.normal(attack.mean, attack.deviation, vector.shape)
            case "replay":
                self.before.append(vector.copy())
                sent = self.before[max(len(self.before) - 1 - attack.rounds, 0)]
        return sent


class _Witness:
    """Stands beside the aggregators and the malicious clients of a run."""

    def __init__(self) -> None:
        self.sums: WeakKeyDictionary[Any, _Again] = WeakKeyDictionary()
        self.lies: WeakKeyDictionary[Any, _FalseAgain] = WeakKeyDictionary()

    def sum(self, one: Any, replies: Any, field: str, weights: Any, changes: bool) -> Array:
        """Combine replies, and compare."""
        again = self.sums.get(one)
        if again is None:
            again = self.sums[one] = _Again(one)
        again.calls += 1
        expected = None
        if again.calls <= MOST and not (again.rule.kind == "mean" and not one._colluding):
            try:
                expected = again.sum(replies, field, weights, changes=changes)
            except (TiedError, OverflowError):
                again.calls = MOST  # its memory is no longer that of the run
        seen = SUM(one, replies, field, weights, changes=changes)
        if expected is not None:
            _compare(again.rule.kind, seen, expected)
        return seen

    def mix(self, one: Any, own: Array, received: Any, weights: Mapping[int, float]) -> Array:
        """Mix the vectors of neighbours, and compare."""
        seen = MIX(one, own, received, weights)
        others = [(int(sender), vector.tolist()) for sender, vector in received]
        if len(others) * own.size < LARGEST and np.isfinite(own).all():
            _compare(one._rule.kind, seen, _mixed(one._rule, own.tolist(), others, weights))
        return seen

    def reset(self, one: Any) -> None:
        """Forget an aggregator, which begins anew; but not its random stream."""
        if one in self.sums:
            before = self.sums.pop(one)
            self.sums[one] = _Again(one)
            self.sums[one].rng, self.sums[one].calls = before.rng, before.calls
        RESET(one)

    def pack(self, one: Any, vector: Array, *structure: Any) -> Any:
        """Pack what a malicious client sends, and compare."""
        again = self.lies.get(one)
        if again is None:
            again = self.lies[one] = _FalseAgain(one)
        again.calls += 1
        recorder, own = _Recorder(one._packer), vector.copy()
        with patch.object(one, "_packer", recorder):
            payload = PACK(one, vector, *structure)
        if again.calls <= MOST:
            expected = again.expected(own)
            if not np.array_equal(recorder.sent, expected, equal_nan=True):
                raise Otherwise(f"{again.attack.kind}: {recorder.sent} in place of {expected}")
        return payload


SUM, MIX, RESET, PACK = Aggregator.sum, Aggregator.mix, Aggregator.reset, FalsePacker.pack


@contextmanager
def recomputed() -> Iterator[None]:
    """Hold what servers, peers and malicious clients compute to the loops of this module."""
    witness = _Witness()

    def sum_again(
        self: Any, replies: Any, field: str, weights: Any = None, *, changes: bool = False
    ) -> Array:
        return witness.sum(self, replies, field, weights, changes)

    def mix_again(self: Any, own: Array, received: Any, weights: Any) -> Array:
        return witness.mix(self, own, received, weights)

    def reset_again(self: Any) -> None:
        witness.reset(self)

    def pack_again(self: Any, vector: Array, *structure: Any) -> Any:
        return witness.pack(self, vector, *structure)

    with (
        patch.object(Aggregator, "sum", sum_again),
        patch.object(Aggregator, "mix", mix_again),
        patch.object(Aggregator, "reset", reset_again),
        patch.object(FalsePacker, "pack", pack_again),
    ):
        yield
