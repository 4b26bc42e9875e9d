"""Checks of `privacy`: whether a method, its rounds and its wire go with it."""

from collections.abc import Iterator

from fedsim.algorithms import PeerAlgorithm
from fedsim.core.blocks.declared import reasons
from fedsim.core.blocks.nature import OF_UNBOUNDED_REPLIES
from fedsim.core.ports import Meaning
from fedsim.protocol.privacy import AdaptiveClip, Privacy
from fedsim.scenario.compatibility import Conflict
from fedsim.scenario.specs import ScenarioKeys


def unfit_privacy(scenario: ScenarioKeys) -> Iterator[Conflict]:
    """Yield why a scenario cannot be differentially private as it is."""
    spec = scenario.privacy
    if spec is None:
        if scenario.stop.epsilon is not None:
            text = f"got {scenario.stop.epsilon:g}, but nothing counts epsilon; give privacy"
            yield "stop.epsilon", text, scenario.stop.epsilon
        return
    if isinstance(scenario.algorithm, PeerAlgorithm):
        text = f"got one, but the nodes of {scenario.algorithm.kind} have no server that adds up"
        yield "privacy", f"{text} what they send; leave it out", spec.where
        return
    if scenario.tiers:
        text = "got one, but gateways would have to add noise, too; leave privacy or tiers out"
        yield "privacy", text, spec.where
    yield from _unfit_method(scenario)
    yield from _unfit_rounds(scenario, spec)
    if spec.where != "clients":
        yield from _unfit_sums(scenario)


def _unfit_method(scenario: ScenarioKeys) -> Iterator[Conflict]:
    """Yield what of a method's replies has no norm that can be clipped."""
    method = scenario.algorithm
    for key, why in reasons(method, OF_UNBOUNDED_REPLIES):
        text = f"{why}, so no clip bounds what one client changes; take fedavg"
        yield f"algorithm.{key}", text, getattr(method, key)
        return
    if Meaning.STATE in method.up.values():
        added = method.increment_variant()
        remedy = "take fedavg" if added is None else f"use algorithm.{added.keys}"
        text = f"got {method.kind}, whose clients send models, which no clip may shorten; {remedy}"
        yield "algorithm.kind", text, method.kind


def _unfit_rounds(scenario: ScenarioKeys, spec: Privacy) -> Iterator[Conflict]:
    if isinstance(spec.clip, AdaptiveClip):
        try:
            spec.vector_noise(scenario.participation.wanted or scenario.clients or 1)
        except ValueError as error:
            if scenario.participation.wanted or scenario.clients:
                text = f"{error}: then no noise of the vectors has the privacy that noise states"
                yield "privacy.clip.count_noise", f"{text}; give more, or less noise", spec.noise
    data, secrecy = scenario.problem.data, scenario.secrecy
    if data is not None and data.exchanges_fit:
        text = "got exchange, by which clients send statistics without noise; use all"
        yield "problem.data.fit", text, "exchange"
    if spec.where == "distributed" and secrecy is None:
        text = "got distributed, whose parts of the noise protect only a sum; give secrecy, or"
        yield "privacy.where", f"{text} where: server or clients", spec.where
    if secrecy is None:
        return
    if isinstance(spec.clip, AdaptiveClip):
        text = "got adaptive, but under secrecy no server sees the bits; give a number"
        yield "privacy.clip", text, spec.clip.kind
    elif spec.clip > secrecy.clip:
        text = f"got {spec.clip:g}, but secrecy.clip shortens vectors to {secrecy.clip:g}; give it"
        yield "privacy.clip", text, spec.clip


def _unfit_sums(scenario: ScenarioKeys) -> Iterator[Conflict]:
    """Yield what changes vectors after they are clipped, and before the noise."""
    up, rule = scenario.wire.up, scenario.aggregation
    remedy = "privacy.where: clients adds the noise before"
    if up.compressor.lengthens:
        text = f"got {up.compressor.kind}, which may make a clipped vector longer"
        yield "wire.up.compressor.kind", f"{text}; use top-k, or {remedy}", up.compressor.kind
    if up.error_feedback != "none":
        text = f"got {up.error_feedback}, which adds errors of earlier rounds to a clipped vector"
        yield "wire.up.error_feedback", f"{text}; use none, or {remedy}", up.error_feedback
    if not rule.adds_up:
        text = f"got {rule.kind}, which one client may change by more than a clipped vector"
        yield "aggregation.kind", f"{text}; use mean, or {remedy}", rule.kind
