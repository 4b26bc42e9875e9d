"""The terms of a private run: which bound on epsilon its rounds have, and the notes on it."""

from collections.abc import Iterator
from itertools import chain
from math import inf, isfinite
from typing import Any

import numpy as np

from fedsim.algorithms import Algorithm
from fedsim.core.ports import Array
from fedsim.protocol.participation import (
    Informed,
    Participation,
    PoissonParticipation,
    Sample,
    UniformParticipation,
    WeightedParticipation,
)
from fedsim.protocol.privacy import AdaptiveClip, Privacy
from fedsim.protocol.privacy.accounting import CONVERSION, Bound, planned_epsilon
from fedsim.protocol.privacy.noise import Tree
from fedsim.protocol.privacy.wrapper import Terms
from fedsim.scenario import Scenario

_ROUNDING = 1e-9
"""Relative tolerance up to which weights are equal."""


def terms_of(
    scenario: Scenario,
    method: Algorithm,
    policy: Participation,
    weights: Array,
    sizes: Array,
    memory: Any,
    seed: int,
    dimension: int,
) -> Terms | None:
    """Return the terms of a scenario's private run; None without privacy.

    Args:
        scenario: the scenario.
        method: its method, configured.
        policy: its client sampling, with counts in place of shares.
        weights: p_m, shape (M,).
        sizes: the number of samples of each client, shape (M,).
        memory: the memory of a client; None for none.
        seed: the seed of the run.
        dimension: the number of values of a vector that is sent.
    """
    spec = scenario.privacy
    if spec is None:
        return None
    counted = weights
    if isinstance(policy, Sample) and policy.estimate == "plain":
        counted = np.ones(len(weights))
    elif isinstance(policy, WeightedParticipation) and policy.estimate == "unbiased":
        counted = weights / (len(weights) * policy.expected_shares(sizes))
    budget, fields = scenario.stop.epsilon, max(len(method.up), 1)
    return Terms(
        spec=spec,
        bound=_bound_of(scenario, spec, method, policy, counted, memory),
        weights=counted,
        expected=_expected(policy, counted, sizes),
        fields=fields,
        means=method.combines == "mean",
        budget=inf if budget is None else budget,
        seed=seed,
        integers=_integers(scenario),
        coordinates=dimension * fields,
    )


def _integers(scenario: Scenario) -> float:
    """Return the integers per unit of the scenario's secure aggregation; 0 without one."""
    secrecy = scenario.secrecy
    return 0.0 if secrecy is None else float((2 ** (secrecy.bits - 1) - 1) / secrecy.clip)


def _replies(policy: Participation, clients: int) -> float:
    """Return the expected number of replies of a round."""
    if policy.asynchronous:
        return policy.goal(clients)
    return min(policy.wanted or clients, clients)


def _expected(policy: Participation, weights: Array, sizes: Array) -> float:
    """Return the expected sum of the weights of the replies of a round."""
    replies = _replies(policy, len(weights))
    if isinstance(policy, WeightedParticipation):
        return float((replies * policy.expected_shares(sizes)) @ weights)
    return float(replies * weights.mean())


def _bound_of(
    scenario: Scenario,
    spec: Privacy,
    method: Algorithm,
    policy: Participation,
    weights: Array,
    memory: Any,
) -> Bound:
    """Return which bound on a round's privacy holds."""
    replies, clients = _replies(policy, len(weights)), len(weights)
    if policy.asks_all:
        whys: Iterator[str] = iter([""])
    else:
        whys = chain(
            _of_draws(spec, policy),
            _of_missing(scenario, policy),
            _of_method(scenario, method, policy, weights, memory),
            [""] if spec.tree else [],
        )
    why = next(whys, None)
    if why is None:
        poisson = isinstance(policy, PoissonParticipation)
        return Bound(sampling="poisson" if poisson else "fixed", sample=replies, clients=clients)
    replaces = spec.where == "clients"
    # Who is chosen, or keeps silent, may follow from data, so that silence is no privacy.
    chosen = isinstance(policy, Informed) and not policy.by_schedule
    everyone = (chosen or memory is not None) and not replaces
    return Bound(
        sample=replies,
        clients=clients,
        everyone=everyone,
        replaces=replaces,
        why=why,
        tree=spec.tree or 0,
    )


# Why no bound for sampled clients holds.


def _of_draws(spec: Privacy, policy: Participation) -> Iterator[str]:
    """Yield reasons in how clients are drawn, and in who sees the draw."""
    if type(policy) not in (PoissonParticipation, UniformParticipation):
        yield f"participation {policy.kind} is no uniform or Poisson sampling"
    if spec.where == "clients":
        yield "the server sees each reply by itself"
    if spec.where == "distributed":
        yield "the server sees who is sampled"


def _of_missing(scenario: Scenario, policy: Participation) -> Iterator[str]:
    """Yield reasons why clients that are drawn may not count."""
    yield from (f"participation.{rule.key} decides who counts" for rule in policy.early())
    if scenario.silence.closes_after < inf:
        yield f"silence {scenario.silence.kind} closes rounds before all have replied"
    if policy.least_charge:
        yield "participation.least_charge leaves clients out"
    for number, group in enumerate(scenario.fleet):
        if group.missing:
            yield f"a message of fleet.{number} {group.missing}"
    medium = scenario.network.medium
    if medium is not None and medium.most_tries is not None:
        yield "network.medium loses messages"


def _of_method(
    scenario: Scenario, method: Algorithm, policy: Participation, weights: Array, memory: Any
) -> Iterator[str]:
    """Yield reasons in what clients keep, and in what the server adds up."""
    if memory is not None or scenario.wire.up.error_feedback != "none":
        yield f"clients of {method.kind} keep a state between rounds, which no draw renews"
    if method.combines not in ("mean", "sum") or not method.asks_all:
        yield f"the sums of {method.kind} are over more than a round's sample"
    equal = bool(np.ptp(weights) <= _ROUNDING * weights.max())
    if not equal and (method.combines != "mean" or not isinstance(policy, PoissonParticipation)):
        yield "the weights of clients differ, and the bound is for equal ones"


def _planned(terms: Terms, rounds: int) -> str:
    """Return the epsilon after all rounds, and of which client it is."""

    def epsilon(times: int) -> str:
        return f"{planned_epsilon(times, terms.squares, bound, terms.spec.delta):.4g}"

    bound, tree = terms.bound, terms.bound.tree
    if tree:
        once, always = (Tree.squares(rounds, tree, every=each) for each in (False, True))
        text = f"epsilon {epsilon(once)} after {rounds} rounds of a client that replies once in"
        return f"{text} each tree, {epsilon(always)} if it replies in each round"
    text = f"epsilon {epsilon(rounds)} after {rounds} rounds"
    if bound.sampling != "none":
        return text
    if bound.everyone:
        return f"{text}, each of which counts for every client"
    text = f"{text} of a client that replies once in each"
    mean = round(rounds * bound.sample / bound.clients)
    if mean in (0, rounds):
        return text
    average = f"{epsilon(mean)} after {mean} replies, the average if none is missing"
    return f"{text}, and {average} (a run charges each client for its own replies, late ones too)"


def privacy_notes(terms: Terms | None, scenario: Scenario) -> Iterator[tuple[str, str]]:
    """Yield what a run's epsilon will be, and what it does not cover, each a key and a sentence."""
    if terms is None:
        return
    spec, bound, rounds = terms.spec, terms.bound, scenario.stop.rounds
    if not isfinite(terms.squares):
        yield "privacy.noise", "without noise epsilon is infinite: vectors are only clipped"
        return
    text = f"{_planned(terms, rounds)}, at delta {spec.delta:g}"
    yield "privacy", f"{text}, {bound.text}; neighbours: {bound.relation}; {CONVERSION}"
    if spec.delta >= 1 / bound.clients:
        text = f"delta {spec.delta:g} is not below 1/{bound.clients}, one over the clients, so that"
        yield "privacy.delta", f"{text} a client may be exposed with that chance"
    if terms.budget < inf and planned_epsilon(1, terms.squares, bound, spec.delta) > terms.budget:
        yield "stop.epsilon", f"one round costs more than {terms.budget:g}, so none is completed"
    named = ", ".join(["objectives", *dict.fromkeys(each.kind for each in scenario.measures)])
    outside = f"{named} and times, which are published as they are"
    if bound.everyone and "participation" in bound.why:
        outside = f"which clients are chosen, and {outside}"
    if isinstance(spec.clip, AdaptiveClip):
        yield (
            "privacy.clip",
            f"vectors have the noise {terms.vector_noise:.4g}, for bits count, too",
        )
    of = "replies of clients" if bound.replaces else "models that the server sends"
    yield "privacy.where", f"epsilon is of the {of}; not of {outside}"
