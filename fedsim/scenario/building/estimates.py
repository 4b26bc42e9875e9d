"""Notes on biased estimates of a step from a sample of clients."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from fedsim.algorithms import Algorithm
from fedsim.core.ports import Array
from fedsim.protocol.participation import (
    PARTICIPATION,
    AsynchronousParticipation,
    Participation,
    Sample,
)
from fedsim.scenario.building.job import Job

_SPREAD = 0.01
"""Relative standard deviation of weights up to which they count as equal."""


class _Drawn(NamedTuple):
    """The population from which a server samples clients.

    Attributes:
        key: the key of its participation.
        policy: the policy, with counts for its clients.
        method: the method of the server.
        sizes: the numbers of samples of its clients, shape (M,).
        weights: p_m up to a factor, shape (M,).
    """

    key: str
    policy: Participation
    method: Algorithm
    sizes: Array
    weights: Array


def estimate_notes(job: Job) -> Iterator[tuple[str, str]]:
    """Yield notes on biased estimates of a step, each a key and a sentence."""
    if job.deployment.overlay is not None:
        return
    notes: dict[str, str] = {}
    for drawn in _draws(job):
        for key, text in _notes(drawn):
            notes.setdefault(key, text)
    privacy = job.scenario.privacy
    if privacy is not None and privacy.where != "clients":
        # A mean is divided by a fixed number there, so no estimate is self-normalised.
        notes.pop("participation.estimate", None)
    yield from notes.items()


def _draws(job: Job) -> Iterator[_Drawn]:
    """Yield the population of each server, from the clients up."""
    setup, tree = job.setup, job.deployment.hierarchy
    samples = np.ones(len(setup.shares)) if setup.samples is None else setup.samples
    if tree is None:
        yield _Drawn("participation", job.participation, job.algorithm, samples, setup.shares)
        return
    from fedsim.sim.tiers import sum_below

    methods = [job.algorithm, *(tier.method for tier in job.tiers)]
    all_samples, all_weights = sum_below(tree, samples), sum_below(tree, setup.shares)
    for nodes in tree.below.values():
        level, part = tree.level(nodes[0]), slice(nodes.start, nodes.stop)
        key = f"tiers.{level - 1}.participation" if level else "participation"
        policy = setup.hops[level].participation.among(len(nodes))
        yield _Drawn(key, policy, methods[level], all_samples[part], all_weights[part])


def _notes(drawn: _Drawn) -> Iterator[tuple[str, str]]:
    policy, method, count = drawn.policy, drawn.method, len(drawn.sizes)
    if method.combines == "changes":
        return
    if isinstance(policy, AsynchronousParticipation):
        if count > policy.buffer:
            text = (
                "an asynchronous server counts clients as often as they reply: if clients differ in"
                f" speed, a step of {method.kind} is biased towards fast ones"
            )
            yield f"{drawn.key}.kind", text
    elif isinstance(policy, Sample) and (policy.wanted or 0) < count:
        yield from _notes_on_sample(drawn, policy)


def _notes_on_sample(drawn: _Drawn, policy: Sample) -> Iterator[tuple[str, str]]:
    method, early = drawn.method, [rule.key for rule in policy.early()]
    weighs = policy.chances != "equal" or policy.estimate == "unbiased"
    if policy.chances == "unknown":
        yield f"{drawn.key}.kind", _chosen(policy)
    elif method.combines == "own" and policy.chances != "equal":
        text = (
            f"got {policy.kind}, but {method.kind} combines replies in its own way, independent of"
            " the sampling probabilities: its step is biased towards clients that are sampled more"
            " often; uniform samples all equally"
        )
        yield f"{drawn.key}.kind", text
    elif method.combines == "mean" and (reason := _bias(drawn, policy)):
        text = f"got {policy.estimate}, which is biased: {reason}; unbiased is estimate: unbiased"
        yield f"{drawn.key}.estimate", text
    elif method.combines != "own" and weighs and early:
        text = (
            f"replies may miss a round ({', '.join(early)}): the estimate assumes that they are"
            " missing at random, and is biased towards clients that reply in time"
        )
        yield f"{drawn.key}.estimate", text


def _chosen(policy: Sample) -> str:
    """Return the note on a policy with unknown sampling probabilities."""
    if type(policy) not in PARTICIPATION:
        return (
            f"the sampling probabilities of {policy.kind} are not known, so that a step may be"
            " biased; if they are equal, set `chances` of its class"
        )
    return (
        f"{policy.kind} prefers some clients, with unknown probabilities: a step is biased towards"
        " them, and no weights of replies correct that; uniform, weighted and importance have"
        " unbiased estimates"
    )


def _bias(drawn: _Drawn, policy: Sample) -> str:
    """Return why the estimate of a mean is biased; empty if it is not."""
    if policy.estimate == "unbiased":
        return ""
    p, q = drawn.weights / drawn.weights.sum(), policy.expected_shares(drawn.sizes)
    if policy.chances == "recorded":
        reason = "it ignores that some clients are sampled more often than others"
    elif policy.estimate == "plain" or policy.asked == 1:
        reason = "" if _alike(q / p) else "clients do not count in proportion to their weights"
    elif not _alike(q):
        reason = "clients are sampled by their samples, and weighed by them again"
    elif not _alike(p):
        least, most = (f"{chance:.3g}" for chance in (p.min(), p.max()))
        reason = (
            f"the weights of clients differ ({least} to {most}), and the expectation of a weighted"
            f" mean over {policy.asked} of {len(p)} clients is not the mean over all"
        )
    else:
        reason = ""
    return reason


def _alike(figures: Array) -> bool:
    return bool(np.std(figures) <= _SPREAD * np.mean(figures))
