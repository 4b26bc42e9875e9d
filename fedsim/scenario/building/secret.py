"""Secure aggregation around a job's method."""

from functools import partial
from typing import TypeVar

import numpy as np

from fedsim.algorithms import Algorithm
from fedsim.algorithms.messages import annotated_replies, returns_silence
from fedsim.core.blocks.spec import Spec
from fedsim.core.ports import Array, Meaning
from fedsim.core.streams import Streams
from fedsim.protocol.participation import Participation, Sample
from fedsim.protocol.secrecy import Agreement, SecretMethod
from fedsim.protocol.wrapping import Wrapped
from fedsim.scenario import Compression, Scenario
from fedsim.wire import Compressor, Identity
from fedsim.wire.compressors.base import Sized

_Policy = TypeVar("_Policy", bound=Spec)


def kept_in_secret(
    scenario: Scenario,
    method: Wrapped,
    algorithm: Algorithm,
    *,
    policy: Participation,
    weights: Array | None,
    sent_values: int,
    seed: int,
) -> Wrapped:
    """Return a method under the scenario's secure aggregation; the same one without it.

    Args:
        scenario: the scenario.
        method: the method, or a wrapper of it. It may have a number `headroom`, the bits that the
            noise of its clients needs beyond the sum of their vectors.
        algorithm: the method itself, configured.
        policy: the participation.
        weights: p_m, shape (M,).
        sent_values: the number of values of the model that are sent.
        seed: the seed of the run.
    """
    block = scenario.secrecy
    if block is None:
        return method
    factors = client_factors(algorithm, policy, weights)
    vectors = [len(one.__dataclass_fields__) for one in annotated_replies(type(algorithm))]
    sampled = partial(sampled_coordinates, scenario.wire.up.compressor, algorithm)
    sent, _ = sampled("", sent_values)
    known = Agreement(
        block=block,
        method=algorithm.kind,
        coordinates=sent * max(vectors, default=1) + (factors is not None),
        rng=Streams(seed),
        factors=factors,
        sampled=sampled,
        may_be_silent=returns_silence(type(algorithm)),
        headroom=int(getattr(method, "headroom", 0)),
    )
    return SecretMethod(method, known)


def client_factors(method: Algorithm, policy: Spec, weights: Array | None) -> Array | None:
    """Return the factors by which clients multiply their vectors, shape (M,); None for all 1.

    They are p_m over the largest p_m, where the method's server weighs replies by p_m. A client has
    to know its factor before it sends, so it cannot depend on who else replies.

    Args:
        method: the method.
        policy: the participation.
        weights: p_m, shape (M,); None if all are equal.
    """
    if weights is None or method.weighs_losses or np.all(weights == weights[0]):
        return None
    if isinstance(policy, Sample) and method.combines in ("mean", "sum"):
        # p_m/pi_m is the same for all if clients are drawn by size.
        if policy.estimate == "plain" and method.combines == "mean":
            return None
        if policy.estimate == "unbiased" and policy.chances == "by-size":
            return None
    factors: Array = weights / weights.max()
    return factors


def sampled_coordinates(
    compressor: Compressor, method: Algorithm, field: str, dimension: int
) -> tuple[int, float]:
    """Return how many coordinates of a field all clients send, and the factor that they get.

    Under rand-k it is d/k, which makes the vector unbiased; it is 1 if the method itself stores the
    difference, and so needs a contraction (see `packer`).
    """
    meaning = method.up.get(field)
    if not isinstance(compressor, Sized) or not compressor.common_support:
        return dimension, 1.0
    if meaning is Meaning.EXACT:
        return dimension, 1.0
    count = compressor.size(dimension)
    kept = meaning is Meaning.DIFFERENCE and "up" not in method.unbiased
    return count, 1.0 if kept else dimension / count


def uplink(scenario: Scenario) -> Compression:
    """Return the compression of clients' vectors before they are rounded to integers.

    Under secrecy rand-k has no part in it: its coordinates are drawn for all clients.
    """
    up = scenario.wire.up
    if scenario.secrecy is None or not up.compressor.common_support:
        return up
    return up.model_copy(update={"compressor": Identity()})


def without_late(scenario: Scenario, policy: _Policy) -> _Policy:
    """Return a policy that drops late replies, under secrecy: nothing unmasks them."""
    if scenario.secrecy is None or "late" not in type(policy).model_fields:
        return policy
    return policy.model_copy(update={"late": "drop"})
