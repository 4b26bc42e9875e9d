"""Rules that withstand Byzantine replies: one vector for all, if at most f are Byzantine.

n is the number of vectors, f the largest number of Byzantine ones. The rules are deterministic,
except for the buckets of `bucketing`.
"""

from abc import abstractmethod
from itertools import combinations
from math import ceil, comb, log2
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from fedsim.core.errors import ParameterError
from fedsim.core.ports import Array
from fedsim.protocol.aggregation.base import Aggregation


def squared_distances(vectors: Array) -> Array:
    """Return |x_i - x_j|^2 of all pairs of rows, shape (n, n); 0 on the diagonal.

    Differences are squared, not expanded: near vectors would lose all digits.

    Args:
        vectors: shape (n, d).
    """
    squares = np.empty((len(vectors), len(vectors)))
    for row, vector in enumerate(vectors):
        differences = vectors - vector
        squares[row] = np.einsum("nd,nd->n", differences, differences)
    return squares


def distance_operations(vectors: int, dimension: int) -> float:
    """Return 3 d n (n - 1)/2: a difference, a square and an addition for each pair."""
    return 1.5 * dimension * vectors * (vectors - 1)


def sort_operations(values: int) -> float:
    """Return the comparisons of a sort, n log2 n."""
    return values * log2(values) if values else 0.0


def nearest(squares: Array, count: int) -> NDArray[np.intp]:
    """Return the `count` nearest rows of each row, itself included, shape (n, count).

    Args:
        squares: the squared distances of all pairs, shape (n, n).
        count: at most n.
    """
    order: NDArray[np.intp] = np.argsort(squares, axis=1, kind="stable")[:, :count]
    return order


Before = Literal["nnm", "bucketing"]
"""A step before a rule."""


class RobustRule(Aggregation):
    """Base class of rules that withstand some Byzantine replies."""

    before: tuple[Before, ...] = Field(
        default=(),
        description="steps before the rule, in order. nnm: each vector is replaced by the mean of"
        " its n - f nearest ones; bucketing: means of `bucket` vectors each, in random order",
    )
    bucket: PositiveInt = Field(
        default=2, description="with bucketing: the number of vectors in a mean"
    )

    otherwise: Literal["median", "skip", "end"] = Field(
        default="median",
        description="fallback in a round with fewer vectors than the rule needs. median: the median"
        " of each coordinate; skip: the round is abandoned, and the model stays; end: the run ends",
    )

    byzantine: NonNegativeInt | None = Field(
        default=None, description="f, the largest number of Byzantine replies, for nnm"
    )

    @model_validator(mode="after")
    def _enough_known(self) -> Self:
        if "nnm" in self.before and self.byzantine is None:
            raise ValueError(
                "byzantine: missing, and nnm needs it: the number of Byzantine replies"
            )
        return self

    def least(self) -> int:
        """Return the smallest n for which enough vectors are left after the steps."""
        fewest = self.least_chosen()
        for _ in range(self.before.count("bucketing")):
            fewest = self.bucket * (fewest - 1) + 1
        return fewest

    def least_chosen(self) -> int:
        """Return the smallest number of vectors after the steps; by default 1."""
        return 1

    @property
    def least_in_words(self) -> str:
        """`least`, with its formula if no buckets change it."""
        return str(self.least()) if "bucketing" in self.before else super().least_in_words

    @property
    def with_fewer(self) -> Literal["median", "skip", "end"]:
        """`otherwise`."""
        return self.otherwise

    @property
    def false_ones(self) -> int:
        """f, the largest number of Byzantine replies that the rule is set for."""
        return self.byzantine or 0

    def operations(self, vectors: int, dimension: int) -> float | None:
        """Return the operations of the steps before the rule, and of the rule.

        Comparisons count as operations. A bucketing step leaves fewer vectors for what follows.
        """
        n, total = vectors, 0.0
        for step in self.before:
            if step == "nnm":
                total += distance_operations(n, dimension) + n * (n - self.false_ones) * dimension
            else:
                total += n * dimension
                n = ceil(n / self.bucket)
        own = self.choice_operations(n, dimension)
        return None if own is None else total + own

    def choice_operations(self, vectors: int, dimension: int) -> float | None:
        """Return those of `choose`, by default unknown; arguments as for `operations`."""
        return None

    def combine(self, vectors: Array, last: Array | None, rng: np.random.Generator) -> Array:
        """Return the vector that stands for all, after the steps before the rule."""
        for step in self.before:
            if step == "nnm":
                vectors = nearest_neighbour_means(vectors, self.false_ones)
            else:
                vectors = bucket_means(vectors, self.bucket, rng)
        return self.choose(vectors, last)

    @abstractmethod
    def choose(self, vectors: Array, last: Array | None) -> Array:
        """Return the vector that stands for all, shape (d,).

        Args:
            vectors: shape (n, d), n at least `least_chosen()`.
            last: what it has returned before; None at first.
        """


def nearest_neighbour_means(vectors: Array, false_ones: int) -> Array:
    """Return the mean of the n - f nearest vectors of each vector, shape (n, d).

    Allouah et al., "Fixing by Mixing", AISTATS 2023 (NNM).
    """
    near = nearest(squared_distances(vectors), max(len(vectors) - false_ones, 1))
    return np.array([vectors[rows].mean(axis=0) for rows in near])


def bucket_means(vectors: Array, size: int, rng: np.random.Generator) -> Array:
    """Return the means of buckets of vectors in random order, shape (ceil(n/size), d).

    Karimireddy, He, Jaggi, "Byzantine-Robust Learning on Heterogeneous Datasets via Bucketing",
    ICLR 2022.
    """
    mixed = vectors[rng.permutation(len(vectors))]
    return np.array([mixed[at : at + size].mean(axis=0) for at in range(0, len(mixed), size)])


class CoordinateMedian(RobustRule):
    """The median of each coordinate."""

    kind: Literal["median"] = "median"
    also_called: ClassVar[tuple[str, ...]] = ("coordinate-median", "coordinate-wise-median")

    def choice_operations(self, vectors: int, dimension: int) -> float:
        """Return n log2 n comparisons for each coordinate, to sort its values."""
        return dimension * sort_operations(vectors)

    def choose(self, vectors: Array, last: Array | None) -> Array:
        """Return the median of each coordinate; the mean of the middle two if n is even."""
        median: Array = np.median(vectors, axis=0)
        return median


class GeometricMedian(RobustRule):
    """The point with the least sum of distances, by the smoothed Weiszfeld algorithm.

    Pillutla, Kakade, Harchaoui, "Robust Aggregation for Federated Learning", 2022 (RFA).
    """

    kind: Literal["geometric-median"] = "geometric-median"
    also_called: ClassVar[tuple[str, ...]] = ("rfa", "weiszfeld")

    smoothing: PositiveFloat = Field(
        default=0.1, description="nu, the distance below which a vector's weight no longer grows"
    )
    steps: PositiveInt = Field(default=3, description="the number of steps")

    def choice_operations(self, vectors: int, dimension: int) -> float:
        """Return 5 n d for each step: 3 n d for distances, and 2 n d for the weighted mean."""
        return 5.0 * self.steps * vectors * dimension

    def choose(self, vectors: Array, last: Array | None) -> Array:
        """Return the point after some steps from zero, each to a weighted mean."""
        point = np.zeros(vectors.shape[1])
        for _ in range(self.steps):
            distances = np.linalg.norm(vectors - point, axis=1)
            weights = 1 / np.maximum(self.smoothing, distances)
            point = weights @ vectors / weights.sum()
        return point


class CentredClipping(RobustRule):
    """The result of the last round, moved by the mean of clipped differences.

    Karimireddy, He, Jaggi, "Learning from History for Byzantine Robust Optimization", ICML 2021.
    """

    kind: Literal["centred-clipping"] = "centred-clipping"
    also_called: ClassVar[tuple[str, ...]] = ("centered-clipping",)

    radius: PositiveFloat = Field(description="tau, the largest length of a difference")
    steps: PositiveInt = Field(default=1, description="the number of steps")

    def choice_operations(self, vectors: int, dimension: int) -> float:
        """Return 5 n d for each step: 3 n d for lengths, and 2 n d for the weighted sum."""
        return 5.0 * self.steps * vectors * dimension

    def clipped(self, vectors: Array, last: Array | None) -> tuple[float, Array] | None:
        """Return the radius, and the lengths of the first step; None after steps before the rule.

        Such a step replaces several replies by their mean, so the lengths are not those of clients.
        """
        if self.before:
            return None
        return self.radius, np.linalg.norm(vectors if last is None else vectors - last, axis=1)

    def choose(self, vectors: Array, last: Array | None) -> Array:
        """Return the point after some steps; those of the first round begin from zero."""
        point = np.zeros(vectors.shape[1]) if last is None else last
        for _ in range(self.steps):
            differences = vectors - point
            factors = _clip_factors(differences, self.radius)
            point = point + factors @ differences / len(vectors)
        return point


class Counted(RobustRule):
    """Base class of rules that are set for a number of Byzantine replies."""

    condition: ClassVar[str] = "2f + 1"

    byzantine: NonNegativeInt = Field(description="f, the largest number of Byzantine replies")

    def least_chosen(self) -> int:
        """Return 2f + 1: the honest ones are in the majority."""
        return 2 * self.byzantine + 1


class TrimmedMean(Counted):
    """The mean of each coordinate without its f smallest and f largest values.

    Yin et al., "Byzantine-Robust Distributed Learning", ICML 2018. A peer takes the mean of its
    own value and its neighbours' values without the f smallest and f largest of these (Fang, Yang,
    Bajwa, "BRIDGE: Byzantine-Resilient Decentralized Gradient Descent", IEEE Trans. Signal Inf.
    Process. Netw. 2022, BRIDGE-T). The weights of the mixing matrix do not count then.
    """

    kind: Literal["trimmed-mean"] = "trimmed-mean"
    among_peers: ClassVar[bool] = True

    def mix(self, own: Array, received: Array, weights: Array) -> Array:
        """Return the mean of each coordinate's own value and the neighbours' middle values."""
        f, n = self.byzantine, len(received)
        kept = np.sort(received, axis=0)[f : n - f]
        mean: Array = np.vstack([own, kept]).mean(axis=0)
        return mean

    def choice_operations(self, vectors: int, dimension: int) -> float:
        """Return n log2 n comparisons and n additions for each coordinate."""
        return dimension * (sort_operations(vectors) + vectors)

    def choose(self, vectors: Array, last: Array | None) -> Array:
        """Return the mean of each coordinate's middle values."""
        f, n = self.byzantine, len(vectors)
        ordered = np.sort(vectors, axis=0)
        mean: Array = ordered[f : n - f].mean(axis=0)
        return mean


class Krum(Counted):
    """The vector with the least sum of squared distances to its nearest ones.

    Blanchard et al., "Machine Learning with Adversaries", NeurIPS 2017.
    """

    kind: Literal["krum"] = "krum"
    condition: ClassVar[str] = "2f + 3"

    def least_chosen(self) -> int:
        """Return 2f + 3, the paper's condition."""
        return 2 * self.byzantine + 3

    def choice_operations(self, vectors: int, dimension: int) -> float:
        """Return those of the distances, and of a sort per vector: O(n^2 d), the paper's lemma."""
        return distance_operations(vectors, dimension) + vectors * sort_operations(vectors)

    def choose(self, vectors: Array, last: Array | None) -> Array:
        """Return the vector of the least score."""
        scores = krum_scores(squared_distances(vectors), self.byzantine)
        chosen: Array = vectors[int(np.argmin(scores))].copy()
        return chosen


def krum_scores(squares: Array, false_ones: int) -> Array:
    """Return the sum of squared distances of each vector to its n - f - 1 nearest others.

    That is the count of Allouah et al. 2023 and of the library ByzFL; the paper takes one fewer.

    Args:
        squares: the squared distances of all pairs, shape (n, n).
        false_ones: f.
    """
    count = len(squares) - false_ones  # itself included, at distance 0
    scores: Array = np.sort(squares, axis=1)[:, :count].sum(axis=1)
    return scores


class MultiKrum(Krum):
    """The mean of the n - f vectors with the least scores of Krum."""

    kind: Literal["multi-krum"] = "multi-krum"  # type: ignore[assignment]  # each has its own name

    def choice_operations(self, vectors: int, dimension: int) -> float:
        """Return those of Krum, and (n - f) d for the mean."""
        kept = vectors - self.byzantine
        return super().choice_operations(vectors, dimension) + kept * dimension

    def choose(self, vectors: Array, last: Array | None) -> Array:
        """Return the mean of the vectors with the least scores."""
        scores = krum_scores(squared_distances(vectors), self.byzantine)
        best = np.argsort(scores, kind="stable")[: len(vectors) - self.byzantine]
        mean: Array = vectors[best].mean(axis=0)
        return mean


class Bulyan(Counted):
    """Repeated Krum, and then a trimmed mean around the median of the chosen vectors.

    El Mhamdi, Guerraoui, Rouault, "The Hidden Vulnerability of Distributed Learning in Byzantium",
    ICML 2018.
    """

    kind: Literal["bulyan"] = "bulyan"
    condition: ClassVar[str] = "4f + 3"

    def least_chosen(self) -> int:
        """Return 4f + 3, the paper's condition."""
        return 4 * self.byzantine + 3

    def choice_operations(self, vectors: int, dimension: int) -> float:
        """Return those of the distances, of n - 2f scorings, and of two sorts per coordinate."""
        chosen = vectors - 2 * self.byzantine
        scored = sum(left * sort_operations(left) for left in range(vectors, vectors - chosen, -1))
        around = dimension * (2 * sort_operations(chosen) + 2 * chosen)
        return distance_operations(vectors, dimension) + scored + around

    def choose(self, vectors: Array, last: Array | None) -> Array:
        """Return the mean of each coordinate's n - 4f values next to the median.

        The vectors are n - 2f of all, chosen by Krum one at a time.
        """
        f = self.byzantine
        squares, left = squared_distances(vectors), list(range(len(vectors)))
        chosen: list[int] = []
        for _ in range(len(vectors) - 2 * f):
            scores = krum_scores(squares[np.ix_(left, left)], f)
            # Among few vectors, two that are nearest to each other have one score. Their values
            # decide between them, so that the order of clients does not.
            tied = np.flatnonzero(scores == scores.min()).tolist()
            chosen.append(left.pop(min(tied, key=lambda place: vectors[left[place]].tolist())))
        some = vectors[sorted(chosen)]
        around = np.abs(some - np.median(some, axis=0))
        near = np.argsort(around, axis=0, kind="stable")[: len(some) - 2 * f]
        mean: Array = np.take_along_axis(some, near, axis=0).mean(axis=0)
        return mean


_MOST_SUBSETS = 10**6


class MinimumDiameter(Counted):
    """The mean of the n - f vectors closest to each other, by a search of all subsets.

    El Mhamdi et al., "Distributed Momentum for Byzantine-resilient Stochastic Gradient Descent",
    ICLR 2021 (MDA).
    """

    kind: Literal["mda"] = "mda"
    also_called: ClassVar[tuple[str, ...]] = ("minimum-diameter-averaging",)

    def choice_operations(self, vectors: int, dimension: int) -> float:
        """Return those of the distances, and (n - f)^2 comparisons for each subset."""
        kept = vectors - self.byzantine
        return distance_operations(vectors, dimension) + comb(vectors, kept) * kept**2

    def choose(self, vectors: Array, last: Array | None) -> Array:
        """Return the mean of the vectors of the first subset with the least diameter.

        Raises:
            ParameterError: there are more than a million subsets.
        """
        n, kept = len(vectors), len(vectors) - self.byzantine
        if comb(n, kept) > _MOST_SUBSETS:
            text = f"{comb(n, kept):,} subsets of {n} vectors; take multi-krum or trimmed-mean"
            raise ParameterError("aggregation.kind", f"got mda, which would search {text}")
        squares = squared_distances(vectors)
        best: tuple[int, ...] = min(
            combinations(range(n), kept), key=lambda rows: squares[np.ix_(rows, rows)].max()
        )
        mean: Array = vectors[list(best)].mean(axis=0)
        return mean


class ClippedGossip(Aggregation):
    """Peers add up the differences to their neighbours' vectors, each clipped to a length.

    x_i <- x_i + sum_j w_ij clip(x_j - x_i, tau). He, Karimireddy, Jaggi, "Byzantine-Robust
    Decentralized Learning via ClippedGossip", 2022, algorithm 1 with one tau for all nodes.
    """

    kind: Literal["clipped-gossip"] = "clipped-gossip"
    also_called: ClassVar[tuple[str, ...]] = ("clippedgossip", "self-centered-clipping")
    at_servers: ClassVar[bool] = False
    among_peers: ClassVar[bool] = True

    radius: PositiveFloat = Field(description="tau, the largest length of a difference")

    def least(self) -> int:
        """Return 0: a node without neighbours keeps its vector."""
        return 0

    def combine(self, vectors: Array, last: Array | None, rng: np.random.Generator) -> Array:
        """Not available: there is no server."""
        raise TypeError(f"{self.kind} is a rule of peers")

    def mix(self, own: Array, received: Array, weights: Array) -> Array:
        """Return the vector, moved by the weighted sum of clipped differences."""
        differences = received - own
        moved: Array = own + (weights * _clip_factors(differences, self.radius)) @ differences
        return moved


def _clip_factors(differences: Array, radius: float) -> Array:
    """Return the factors that clip rows to a length, shape (n,)."""
    lengths = np.linalg.norm(differences, axis=1)
    return np.asarray(np.minimum(1.0, radius / np.maximum(lengths, np.finfo(float).tiny)))
