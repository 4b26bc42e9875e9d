"""Checks of `secrecy`: whether a method and its rounds go with secure aggregation."""

from collections.abc import Iterator
from math import inf

from fedsim.algorithms import Algorithm, PeerAlgorithm
from fedsim.algorithms.messages import annotated_replies, returns_silence
from fedsim.core.blocks.declared import reasons
from fedsim.core.blocks.nature import OF_SINGLE_REPLIES
from fedsim.core.ports import Meaning
from fedsim.protocol.participation import Informed
from fedsim.protocol.secrecy import Secrecy
from fedsim.scenario.compatibility import Conflict
from fedsim.scenario.specs import ScenarioKeys

_LEAVE = "leave out secrecy"


def unfit_secrecy(scenario: ScenarioKeys) -> Iterator[Conflict]:
    """Yield why the vectors of a scenario's clients cannot be added up in secret."""
    if scenario.secrecy is None:
        return
    kind, method = scenario.secrecy.kind, scenario.algorithm
    if isinstance(method, PeerAlgorithm):
        text = f"got {kind}, but the nodes of {method.kind} have no server; {_LEAVE}"
        yield "secrecy.kind", text, kind
        return
    yield from _of_method(kind, method)
    yield from _of_server(scenario, kind)
    yield from _of_vectors(scenario, scenario.secrecy)


def _of_method(kind: str, method: Algorithm) -> Iterator[Conflict]:
    """Yield methods whose servers need more than sums, or whose clients do not only reply."""
    for key, why in reasons(method, OF_SINGLE_REPLIES):
        text = f"{why}, and {kind} reveals sums only; take another method, or {_LEAVE}"
        yield f"algorithm.{key}", text, getattr(method, key)
    if not method.asks_all:
        text = f"got {method.kind}, whose server chooses whom it asks, down to one client"
        yield "algorithm.kind", f"{text}: {kind} would reveal that one; {_LEAVE}", method.kind
    if method.computes_after_reply:
        text = f"got {method.kind}, whose clients compute after their replies, and {kind} asks"
        yield "algorithm.kind", f"{text} them for more messages then; {_LEAVE}", method.kind
    if Meaning.STATE in method.up.values():
        added = method.increment_variant()
        remedy = _LEAVE if added is None else f"use algorithm.{added.keys}"
        text = f"got {method.kind}, whose clients send models, which secrecy.clip would scale down"
        yield "algorithm.kind", f"{text}; {remedy}", method.kind
    replies = annotated_replies(type(method))
    if kind == "lightsecagg" and any(len(one.__dataclass_fields__) != 1 for one in replies):
        text = f"got lightsecagg, whose masks are made for one vector, but clients of {method.kind}"
        yield "secrecy.kind", f"{text} send several; use secagg", kind


def _of_server(scenario: ScenarioKeys, kind: str) -> Iterator[Conflict]:
    """Yield rounds in which a server would need single replies, or late ones."""
    policy, silence = scenario.participation, scenario.silence
    if scenario.tiers:
        text = f"got {kind}, which has one server; leave out tiers, or secrecy"
        yield "secrecy.kind", text, kind
    if policy.asynchronous:
        text = f"got {policy.kind}, but {kind} adds up the replies of a round; use full or uniform"
        yield "participation.kind", text, policy.kind
    elif isinstance(policy, Informed):
        text = f"got {policy.kind}, which judges single replies, and {kind} reveals sums only"
        yield "participation.kind", f"{text}; use full, uniform or weighted", policy.kind
    asked = policy.wanted or policy.asked or scenario.clients
    if asked == 1:
        text = f"got {kind}, but a round has one client, whose vector would be the sum"
        yield "secrecy.kind", f"{text}; ask two or more", kind
    if not scenario.aggregation.adds_up:
        rule = scenario.aggregation.kind
        text = f"got {rule}, which compares vectors, and {kind} reveals sums only"
        yield "aggregation.kind", f"{text}; use mean, or {_LEAVE}", rule
    for key, block, ends in (
        ("silence", silence, silence.closes_after),
        ("participation", policy, min(policy.closes_after, policy.round_timeout)),
    ):
        if ends < inf and "late" in block.model_fields_set and block.keep_late:
            text = f"got keep, but a late masked vector cannot be unmasked by {kind}; use drop"
            yield f"{key}.late", text, "keep"


def _of_vectors(scenario: ScenarioKeys, block: Secrecy) -> Iterator[Conflict]:
    """Yield clients' vectors that do not add up."""
    kind, compressor = block.kind, scenario.wire.up.compressor
    united = block.supports == "union"
    if compressor.own_support and not united:
        key, seen = "wire.up.compressor.kind", compressor.kind
        text = f"got {seen}, with which clients send different coordinates, but masks of {kind}"
        text += " cancel only if all clients send the same ones; use rand-k, identity, or"
        text += " secrecy.supports: union"
        yield key, text, seen
    if united and block.silence != "reveal" and returns_silence(type(scenario.algorithm)):
        text = f"got {block.silence}, but a silent client would be the one without a support; give"
        yield "secrecy.silence", f"{text} reveal, or supports: common", block.silence
    if united and scenario.privacy is not None and scenario.privacy.where == "distributed":
        text = "got union, but clients add noise to all their coordinates (privacy.where:"
        yield "secrecy.supports", f"{text} distributed), so that it has all; leave it out", "union"
    if block.contributors > 1 and Meaning.DIFFERENCE in scenario.algorithm.up.values():
        text = f"got {block.contributors}, but clients of {scenario.algorithm.kind} keep what they"
        text += " have sent, and would keep values that the server has left out; give 1"
        yield "secrecy.contributors", text, block.contributors
    if scenario.wire.up.by_layer and compressor.common_support:
        text = "got true, but the coordinates that all clients send are drawn for the whole vector"
        yield "wire.up.by_layer", f"{text}; leave it out", True
    if scenario.wire.up.error_feedback != "none":
        seen = scenario.wire.up.error_feedback
        text = f"got {seen}, but a client does not learn the error of a vector that was not counted"
        yield "wire.up.error_feedback", f"{text}; use none", seen
    for number, group in enumerate(scenario.fleet):
        attack = group.attack
        if attack is not None and (attack.colludes or attack.unreadable or attack.kind == "nan"):
            text = f"got {attack.kind}, but a masked vector is neither seen by others nor left out"
            key = f"fleet.{number}.attack.kind"
            yield key, f"{text}; take sign-flip, scaled or gaussian, or {_LEAVE}", attack.kind
    if scenario.problem.data is not None and scenario.problem.data.exchanges_fit:
        text = f"got {kind}, but clients send statistics of their data in the clear"
        yield "secrecy.kind", f"{text} (problem.data.fit: exchange); fit it without messages", kind
